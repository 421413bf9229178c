"""The relay on loopback, with real sockets: bytes come late, in order, all of them, and as many a second as before."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from fenchel_common.errors import InvalidInput
from fenchel_common.identity import Address
from fenchel_deploy.relay import Line, Relay

pytestmark = pytest.mark.alone

LOOPBACK = Address("127.0.0.1", 0)
ENDED_S = 30.0
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(1 << 16):
        writer.write(piece)
        await writer.drain()
    writer.close()
    await writer.wait_closed()


@asynccontextmanager
async def relayed(
    line: Line, handler: Handler = echo
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection through the relay to a server that echoes."""
    server = await asyncio.start_server(handler, "127.0.0.1", 0)
    async with server:
        target = Address("127.0.0.1", server.sockets[0].getsockname()[1])
        async with Relay(target, line).listening(LOOPBACK) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                yield reader, writer
            finally:
                writer.close()
                await writer.wait_closed()


async def round_trip_s(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> float:
    began = time.perf_counter()
    writer.write(b"ping")
    assert await reader.readexactly(4) == b"ping"
    return time.perf_counter() - began


@pytest.mark.parametrize("rtt_s", [0.02, 0.1, 0.2575])
def test_a_round_trip_takes_twice_the_delay_within_a_tenth(rtt_s: float) -> None:
    async def measure() -> float:
        async with relayed(Line(rtt_s / 2)) as connection:
            await round_trip_s(*connection)
            # The least of them: a busy machine only ever adds to a round trip.
            return min([await round_trip_s(*connection) for _ in range(10)])

    assert asyncio.run(measure()) == pytest.approx(rtt_s, rel=0.1)


def test_the_first_byte_waits_for_a_handshake_too() -> None:
    async def measure() -> float:
        async with relayed(Line(0.05)) as connection:
            return await round_trip_s(*connection)

    taken_s = [asyncio.run(measure()) for _ in range(3)]
    assert 0.19 <= min(taken_s) <= 0.3


def test_without_a_delay_a_round_trip_is_as_quick_as_the_loopback() -> None:
    async def measure() -> float:
        async with relayed(Line(0.0)) as connection:
            return min([await round_trip_s(*connection) for _ in range(50)])

    assert asyncio.run(measure()) < 0.02


async def _transfer_s(line: Line, content: bytes) -> float:
    async with relayed(line) as (reader, writer):
        await round_trip_s(reader, writer)
        began = time.perf_counter()
        writer.write(content)
        assert await reader.readexactly(len(content)) == content, "every byte, in order"
        return time.perf_counter() - began


def test_delay_does_not_cost_throughput() -> None:
    """In 8 MiB there are 128 pieces: one delay after another would take 12.8 s."""
    content = bytes(range(256)) * (8 * 4096)
    assert asyncio.run(_transfer_s(Line(0.1), content)) < 6.0


def test_bandwidth_is_limited_in_each_direction() -> None:
    """2 MB at 8 Mbit/s are two seconds, and the way back runs at the same time, not after it."""
    content = b"x" * 2_000_000
    taken_s = asyncio.run(_transfer_s(Line(0.0, bytes_per_s=1_000_000), content))
    assert 2.0 <= taken_s < 4.0


def test_the_end_of_one_side_comes_after_its_last_byte() -> None:
    async def collect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received = await reader.read(-1)
        writer.write(str(len(received)).encode())
        writer.close()
        await writer.wait_closed()

    async def run() -> bytes:
        async with relayed(Line(0.02), collect) as (reader, writer):
            writer.write(b"x" * 300_000)
            writer.write_eof()
            return await reader.read(-1)

    assert asyncio.run(run()) == b"300000"


def test_a_target_that_nobody_serves_ends_the_connection_at_once() -> None:
    async def run() -> bytes:
        closed = await asyncio.start_server(echo, "127.0.0.1", 0)
        target = Address("127.0.0.1", closed.sockets[0].getsockname()[1])
        closed.close()
        await closed.wait_closed()
        async with Relay(target, Line(0.0)).listening(LOOPBACK) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                return await reader.read(-1)
            except ConnectionResetError:
                return b""
            finally:
                writer.close()

    assert asyncio.run(asyncio.wait_for(run(), ENDED_S)) == b""


def test_a_broken_connection_is_broken_on_the_other_side_and_leaves_the_next_alone() -> None:
    async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.transport.abort()

    async def run() -> None:
        server = await asyncio.start_server(reset, "127.0.0.1", 0)
        async with server:
            target = Address("127.0.0.1", server.sockets[0].getsockname()[1])
            async with Relay(target, Line(0.01)).listening(LOOPBACK) as port:
                for _ in range(2):
                    reader, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.write(b"x")
                    with suppress(ConnectionResetError):
                        assert await reader.read(-1) == b""
                    writer.transport.abort()

    asyncio.run(asyncio.wait_for(run(), ENDED_S))


def test_a_port_that_is_taken_is_named() -> None:
    async def run() -> None:
        taken = await asyncio.start_server(echo, "127.0.0.1", 0)
        async with taken:
            address = Address("127.0.0.1", taken.sockets[0].getsockname()[1])
            async with Relay(address, Line(0.0)).listening(address):
                pass

    with pytest.raises(InvalidInput, match="cannot listen on 127"):
        asyncio.run(run())


@pytest.mark.parametrize(("delay_s", "rate"), [(-0.1, None), (61.0, None), (float("nan"), None), (0.0, 0.0)])
def test_a_line_that_cannot_be_is_refused(delay_s: float, rate: float | None) -> None:
    with pytest.raises(InvalidInput):
        Line(delay_s, rate)
