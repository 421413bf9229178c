"""A wide-area network in one process: a TCP relay that delays every byte, in order and at full throughput.

Each direction of a connection is a queue of pieces, each with the moment at which it is due on the other side:

    sent = max(came, when the line is free) + size / bandwidth
    due  = sent + delay

so a piece never waits for the delay of the one before it, as on a long cable. The bandwidth is each connection's own
in each direction, as if it were the line of the party that dials.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from fenchel_common.errors import InvalidInput
from fenchel_common.identity import Address

PIECE_BYTES = 64 * 1024
MAX_UNDER_WAY_BYTES = 64 * 1024 * 1024
"""The most bytes under way in one direction; then the sender has to wait. Enough for 800 ms at 640 Mbit/s."""
CONNECT_S = 30.0
MAX_CONNECTIONS = 1024

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Line:
    """One direction of a connection: seconds of delay, and the most bytes a second (None: no limit)."""

    delay_s: float
    bytes_per_s: float | None = None

    def __post_init__(self) -> None:
        if not 0.0 <= self.delay_s <= 60.0:
            raise InvalidInput(f"delay: {self.delay_s * 1000:g} ms is not between 0 and 60000")
        if self.bytes_per_s is not None and not self.bytes_per_s > 0.0:
            raise InvalidInput("bandwidth: must be greater than 0")

    def sending_s(self, size: int) -> float:
        """How long a piece occupies the line."""
        return 0.0 if self.bytes_per_s is None else size / self.bytes_per_s


class _Pipe:
    """One direction of one connection, from the reader of one side to the writer of the other."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._pieces: deque[tuple[float, bytes]] = deque()
        self._under_way_bytes = 0
        self._free_at = 0.0
        self._changed = asyncio.Condition()

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carries bytes until the sender has ended its side and everything that it sent is written."""
        async with asyncio.TaskGroup() as both:
            both.create_task(self._take_in(reader))
            both.create_task(self._give_out(writer))

    async def _take_in(self, reader: asyncio.StreamReader) -> None:
        clock = asyncio.get_running_loop().time
        piece = b"."
        while piece:
            piece = await reader.read(PIECE_BYTES)
            self._free_at = max(clock(), self._free_at) + self._line.sending_s(len(piece))
            async with self._changed:
                self._pieces.append((self._free_at + self._line.delay_s, piece))
                self._under_way_bytes += len(piece)
                self._changed.notify_all()
                await self._changed.wait_for(lambda: self._under_way_bytes < MAX_UNDER_WAY_BYTES)

    async def _give_out(self, writer: asyncio.StreamWriter) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            async with self._changed:
                await self._changed.wait_for(lambda: self._pieces)
                due, piece = self._pieces.popleft()
            await asyncio.sleep(max(0.0, due - clock()))
            if not piece:
                writer.write_eof()
                return
            writer.write(piece)
            await writer.drain()
            async with self._changed:
                self._under_way_bytes -= len(piece)
                self._changed.notify_all()


class Relay:
    """Accepts connections, and relays each to the target over a line."""

    def __init__(self, target: Address, line: Line) -> None:
        self._target = target
        self._line = line
        self._open: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def listening(self, address: Address) -> AsyncIterator[int]:
        """Relays while the context lasts, and gives the port; at the end, open connections are broken."""
        try:
            server = await asyncio.start_server(self._serve, address.host, address.port)
        except OSError as error:
            raise InvalidInput(f"cannot listen on {address}: {error.strerror}; choose another address") from error
        try:
            yield int(server.sockets[0].getsockname()[1])
        finally:
            server.close()
            for task in self._open:
                task.cancel()
            await asyncio.gather(*self._open, return_exceptions=True)
            await server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        with contextlib.ExitStack() as ends:
            ends.callback(writer.transport.abort)
            if len(self._open) >= MAX_CONNECTIONS:
                log.warning("a connection is refused: %d are open", MAX_CONNECTIONS)
                return
            self._open.add(task)
            ends.callback(self._open.discard, task)
            await self._relay(reader, writer, ends)

    async def _relay(
        self, near_reader: asyncio.StreamReader, near_writer: asyncio.StreamWriter, ends: contextlib.ExitStack
    ) -> None:
        """Relays one connection until both sides have ended it, or one of them broke it."""
        try:
            far_reader, far_writer = await asyncio.wait_for(
                asyncio.open_connection(self._target.host, self._target.port), CONNECT_S
            )
        except OSError as error:
            log.warning("no connection to %s: %s", self._target, error)
            return
        ends.callback(far_writer.transport.abort)
        # On a real wide-area network, the first byte follows a handshake of one round trip.
        await asyncio.sleep(2 * self._line.delay_s)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_Pipe(self._line).carry(near_reader, far_writer))
                both.create_task(_Pipe(self._line).carry(far_reader, near_writer))
            for writer in (near_writer, far_writer):
                writer.close()
                await writer.wait_closed()
        except* OSError as broken:
            log.info("a connection broke: %s", broken.exceptions[0])
