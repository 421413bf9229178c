"""A party that turns on the others, over real TLS: the server stays up, honest rounds go on, memory stays bounded."""

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from fenchel.v1.federation_pb2 import Body, Chunk, ClientMessage, Heartbeat, Hello, Result
from fenchel_client.transport.channel import open_channel
from fenchel_common.errors import ProtocolViolation
from fenchel_common.identity import Kit
from fenchel_common.wire.chunks import CHUNK_BYTES, MAX_BODY_BYTES, body_to_proto
from fenchel_common.wire.frames import PROTOCOL_VERSION, key_to_proto, refusal_frame, result_frames
from fenchel_common.wire.status import STATUSES
from fenchel_server.transport.quota import MAX_STREAMS_PER_PARTY, MAX_WATCHES_PER_CALLER
from fenchel_server.transport.servicer import MAX_IDLE_MESSAGES, SERVICE_NAME
from fuzz.mutation import Mutator
from fuzz.stream_decoders import attend_decoder, frames_of
from support.commanded_server import Commanded
from support.connections import RawClient, key
from support.hostile_callers import (
    GROWTH_MB,
    HONEST_BYTES,
    NORTH,
    SOCKET_S,
    another_party_comes_and_goes,
    attended_server,
    unharmed,
)

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")

LONG_TASK_BYTES = 64 * 1024 * 1024
DEADLINE_S = 5.0
"""Runs out in the tests that use it: long enough for an honest result on a loaded machine."""
NO_RESULT = f"no result within {DEADLINE_S:g} s"


@pytest.fixture(scope="module")
def server(kits: dict[str, Path]) -> Iterator[Commanded]:
    with attended_server(kits) as running:
        yield running


def attending(kit: Kit, server: Commanded, stack: ExitStack, *, incarnation: str = "1") -> RawClient:
    """A connection that has been welcomed, and reads nothing more by itself."""
    client = stack.enter_context(RawClient(kit, server.address))
    client.hello(incarnation=incarnation)
    client.receive("welcome")
    return client


def test_connections_that_do_not_read_their_long_task_hold_up_nobody(
    kits: dict[str, Path], server: Commanded, south: Kit
) -> None:
    """Each new connection of a process is given the task that the process still owes."""
    threads = server.status("Threads")
    with unharmed(server, growth_mb=LONG_TASK_BYTES / 2**20 + GROWTH_MB), ExitStack() as stack:
        attending(south, server, stack)
        server.begin({"south": LONG_TASK_BYTES, NORTH: HONEST_BYTES}, deadline_s=DEADLINE_S)
        for _ in range(30):
            attending(south, server, stack)
        assert server.status("Threads") < threads + 3 * MAX_STREAMS_PER_PARTY + 12
        assert server.memory_mb < 4 * LONG_TASK_BYTES / 2**20
        outcome = server.end()
        assert outcome.results == {NORTH: HONEST_BYTES}
        assert outcome.absences == {"south": f"no result, and no sign of work within {DEADLINE_S:g} s"}
        another_party_comes_and_goes(server, kits)


def test_a_body_that_never_comes_to_its_end_costs_its_party_the_phase_and_the_others_nothing(
    server: Commanded, south: Kit
) -> None:
    with unharmed(server), RawClient(south, server.address) as dripping:
        dripping.hello()
        dripping.receive("welcome")
        name = server.begin({"south": 1, NORTH: HONEST_BYTES}, deadline_s=DEADLINE_S)
        dripping.receive("task")
        announced = Body(size=MAX_BODY_BYTES, sha256=bytes(32))
        dripping.send(ClientMessage(result=Result(key=key_to_proto(key(name)), body=announced)))
        dripping.send(ClientMessage(chunk=Chunk(index=0, data=bytes(CHUNK_BYTES))))
        outcome = server.end()
        assert outcome.results == {NORTH: HONEST_BYTES}
        assert outcome.absences == {"south": NO_RESULT}


def test_announcements_of_the_largest_body_cost_no_memory(server: Commanded, south: Kit) -> None:
    with unharmed(server), ExitStack() as stack:
        first = attending(south, server, stack)
        name = server.begin({"south": 1, NORTH: HONEST_BYTES}, deadline_s=DEADLINE_S)
        first.receive("task")
        announced = Result(key=key_to_proto(key(name)), body=Body(size=MAX_BODY_BYTES, sha256=bytes(32)))
        for _ in range(12):
            attending(south, server, stack).send(ClientMessage(result=announced))
        assert server.memory_mb < MAX_BODY_BYTES / 2**20
        assert server.end().absences == {"south": NO_RESULT}


def test_of_a_hundred_connections_of_one_party_the_newest_are_kept_and_others_still_get_in(
    kits: dict[str, Path], server: Commanded, south: Kit
) -> None:
    threads = server.status("Threads")
    with unharmed(server), ExitStack() as stack:
        calls = [attending(south, server, stack, incarnation=str(number)) for number in range(100)]
        assert server.gather({NORTH: HONEST_BYTES}).results == {NORTH: HONEST_BYTES}
        assert server.status("Threads") <= threads + 3 * MAX_STREAMS_PER_PARTY + 12
        codes = {call.refusal()[0] for call in calls[:-MAX_STREAMS_PER_PARTY]}
        assert codes <= {grpc.StatusCode.ABORTED, grpc.StatusCode.CANCELLED}
        name = server.begin({"south": 1})
        calls[-1].receive("task")
        calls[-1].send(*result_frames(key(name), b"the newest"))
        assert server.end().results == {"south": len(b"the newest")}


def test_connections_without_a_word_lock_nobody_out(kits: dict[str, Path], server: Commanded, south: Kit) -> None:
    """Without a hello each would keep a thread for as long as one may take."""
    with unharmed(server), ExitStack() as stack:
        for _ in range(40):
            stack.enter_context(RawClient(south, server.address))
        another_party_comes_and_goes(server, kits)


@pytest.mark.parametrize(
    "message",
    [
        ClientMessage(heartbeat=Heartbeat()),
        refusal_frame(key("no such phase"), "no"),
        ClientMessage(result=Result(key=key_to_proto(key("no such phase")), body=body_to_proto(b""))),
    ],
    ids=["heartbeats", "refusals", "results"],
)
def test_a_stream_that_never_ends_and_serves_nothing_is_cut_off(
    server: Commanded, south: Kit, message: ClientMessage
) -> None:
    with unharmed(server), RawClient(south, server.address) as endless:
        endless.hello()
        endless.send(*[message] * (MAX_IDLE_MESSAGES + 50))
        code, error = endless.refusal()
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert isinstance(error, ProtocolViolation)


def test_a_chunk_beyond_the_announced_size_ends_the_call(server: Commanded, south: Kit) -> None:
    with unharmed(server), RawClient(south, server.address) as client:
        client.hello()
        client.receive("welcome")
        name = server.begin({"south": 1, NORTH: HONEST_BYTES})
        client.receive("task")
        client.send(ClientMessage(result=Result(key=key_to_proto(key(name)), body=Body(size=3, sha256=bytes(32)))))
        client.send(ClientMessage(chunk=Chunk(index=0, data=bytes(CHUNK_BYTES))))
        code, error = client.refusal()
        assert server.end().absences == {"south": f"rejected: {error}"}
    assert code is grpc.StatusCode.INVALID_ARGUMENT


def test_mutated_streams_end_with_a_status_that_is_meant(server: Commanded, south: Kit) -> None:
    decoder, rng = attend_decoder(), random.Random(7)
    mutator = Mutator(decoder.seeds, decoder.message)
    codes = Counter[grpc.StatusCode]()
    with unharmed(server), open_channel(south, address=server.address) as channel:
        attend: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(f"/{SERVICE_NAME}/Attend")
        for _ in range(300):
            call = attend(iter(frames_of(decoder, mutator.fresh(rng))), timeout=SOCKET_S)
            with suppress(grpc.RpcError):
                for _ in call:
                    pass
            codes[call.code()] += 1
    assert codes.keys() <= {grpc.StatusCode.OK, *STATUSES.values()}, codes
    assert codes[grpc.StatusCode.OK] > 10
    assert codes[grpc.StatusCode.INVALID_ARGUMENT] > 10


@pytest.mark.parametrize("algorithm", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_a_compressed_message_may_not_grow_beyond_the_limit(
    server: Commanded, south: Kit, algorithm: grpc.Compression
) -> None:
    credentials = grpc.ssl_channel_credentials(south.authority_pem, south.key_pem, south.certificate_pem)
    options = (("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1))
    hello = ClientMessage(hello=Hello(protocol_version=PROTOCOL_VERSION, incarnation="1")).SerializeToString()
    with (
        unharmed(server),
        grpc.secure_channel(str(server.address), credentials, options=options, compression=algorithm) as channel,
    ):
        attend: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(f"/{SERVICE_NAME}/Attend")
        call = attend(iter([hello, bytes(LONG_TASK_BYTES)]), timeout=SOCKET_S)
        with pytest.raises(grpc.RpcError):
            for _ in call:
                pass
        assert call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_watches_of_the_servers_health_are_few_for_each_caller_and_its_names_are_its_own(
    kits: dict[str, Path], server: Commanded, south: Kit
) -> None:
    with unharmed(server), open_channel(south, address=server.address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        watches = [
            stub.Watch(health_pb2.HealthCheckRequest(), timeout=SOCKET_S) for _ in range(MAX_WATCHES_PER_CALLER + 4)
        ]
        refused = []
        for watch in watches:
            try:
                next(watch)
            except grpc.RpcError:
                refused.append(watch.code())
        assert refused == [grpc.StatusCode.RESOURCE_EXHAUSTED] * 4
        another_party_comes_and_goes(server, kits)
        for watch in watches:
            watch.cancel()
        for number in range(60):
            name = f"{number}" + "x" * (CHUNK_BYTES // 2)
            with pytest.raises(grpc.RpcError, match="NOT_FOUND"):
                next(stub.Watch(health_pb2.HealthCheckRequest(service=name), timeout=SOCKET_S))
