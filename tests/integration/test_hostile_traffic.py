"""Callers that mean harm, over real TLS: the server stays up, honest rounds go on, memory stays bounded."""

import random
import socket
import ssl
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from fenchel.v1.federation_pb2 import Body, Chunk, ClientMessage, Heartbeat, Hello, Result
from fenchel_client.task import Task
from fenchel_client.transport.channel import open_channel
from fenchel_common.errors import ProtocolViolation
from fenchel_common.identity import Kit
from fenchel_common.ids import ClientId, RoundId, RunId
from fenchel_common.wire.chunks import CHUNK_BYTES, MAX_BODY_BYTES, body_to_proto
from fenchel_common.wire.frames import PROTOCOL_VERSION, key_to_proto, refusal_frame, result_frames
from fenchel_common.wire.status import STATUSES
from fenchel_server.rounds.transport import PhaseId
from fenchel_server.transport.quota import MAX_STREAMS_PER_PARTY, MAX_WATCHES_PER_CALLER
from fenchel_server.transport.server import CONNECTIONS_PER_PARTY, SPARE_CONNECTIONS
from fenchel_server.transport.servicer import MAX_IDLE_MESSAGES, SERVICE_NAME
from fuzz.mutation import Mutator
from fuzz.stream_decoders import attend_decoder, frames_of
from support.commanded_server import Commanded, commanded_server
from support.connections import Attending, RawClient, Server, key
from support.kits import make_federation

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")

NORTH = ClientId("north")
HONEST_BYTES = 3 * CHUNK_BYTES
LONG_TASK_BYTES = 64 * 1024 * 1024
GROWTH_MB = 24.0
"""What an attack may leave behind: buffers of connections that have not ended yet, and what the allocator keeps."""
SOCKET_S = 10.0
"""Well beyond the time in which this server drops a caller that does not prove who it is."""
PARTIES = 3
WAVES, WAVE_CONNECTIONS = 100, 100


@pytest.fixture(scope="module")
def kits(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return make_federation(tmp_path_factory.mktemp("federation"), ("north", "south", "west"))


@pytest.fixture(scope="module")
def south(kits: dict[str, Path]) -> Kit:
    return Kit.load(kits["south"])


@pytest.fixture(scope="module")
def server(kits: dict[str, Path]) -> Iterator[Commanded]:
    """A server with one honest party, after the first rounds have taken the memory that rounds take."""
    with (
        commanded_server(kits["server"]) as running,
        Attending(kits["north"], lambda task: task.body, running.address),
    ):
        for _ in range(3):
            assert running.gather({NORTH: HONEST_BYTES}).results == {NORTH: HONEST_BYTES}
        yield running
        assert running.running


@contextmanager
def unharmed(server: Commanded, *, growth_mb: float = GROWTH_MB) -> Iterator[None]:
    """During and after the block honest rounds are run, and the memory does not grow beyond the bound."""
    before_mb = server.memory_mb
    yield
    assert server.gather({NORTH: HONEST_BYTES}).results == {NORTH: HONEST_BYTES}
    assert server.running
    assert server.memory_mb - before_mb < growth_mb


def connect(server: Commanded) -> socket.socket:
    return socket.create_connection(("localhost", server.address.port), timeout=SOCKET_S)


def closed_by_server(connection: socket.socket) -> bool:
    """Whether the server ends the connection within `SOCKET_S`."""
    try:
        while connection.recv(4096):
            pass
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True


def another_party_comes_and_goes(server: Commanded, kits: dict[str, Path]) -> None:
    """A party that was not connected gets in; a phase that was open before it came counts it as restarted."""
    with Attending(kits["west"], lambda task: task.body, server.address):
        phases = (server.gather({"west": 10, NORTH: 10}) for _ in range(5))
        assert any(outcome.absences == {} for outcome in phases)


# Callers without a certificate.


def client_hello() -> bytes:
    """The first bytes of a TLS handshake."""
    ours, theirs = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = ssl.create_default_context().wrap_bio(theirs, ours, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        session.do_handshake()
    return ours.read()


def test_connections_that_fall_silent_before_they_prove_who_they_are_are_dropped(
    kits: dict[str, Path], server: Commanded
) -> None:
    first_bytes = client_hello()
    with unharmed(server), ExitStack() as stack:
        silent = [stack.enter_context(connect(server)) for _ in range(60)]
        for number, connection in enumerate(silent):
            connection.sendall((b"", first_bytes[:40], first_bytes)[number % 3])
        assert server.gather({NORTH: HONEST_BYTES}).results == {NORTH: HONEST_BYTES}
        another_party_comes_and_goes(server, kits)
        assert all(closed_by_server(connection) for connection in silent)


def test_a_flood_of_connections_is_cut_off_at_the_limit_and_its_end_lets_others_in(
    kits: dict[str, Path], server: Commanded
) -> None:
    limit = CONNECTIONS_PER_PARTY * PARTIES + SPARE_CONNECTIONS
    with unharmed(server), ExitStack() as stack:
        flood = [stack.enter_context(connect(server)) for _ in range(limit + 60)]
        assert server.gather({NORTH: HONEST_BYTES}).results == {NORTH: HONEST_BYTES}
        assert sum(closed_by_server(connection) for connection in flood[-40:]) == 40
        stack.close()
        another_party_comes_and_goes(server, kits)


def test_waves_of_connections_that_end_before_they_prove_who_they_are_do_not_bring_the_server_down(
    server: Commanded,
) -> None:
    """Each begins a handshake while others are in the middle of theirs."""
    with unharmed(server):
        for _ in range(WAVES):
            with ExitStack() as wave:
                for _ in range(WAVE_CONNECTIONS):
                    wave.enter_context(connect(server))


def tls_context(kit: Kit, *, with_certificate: bool = True) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=kit.authority_pem.decode())
    context.set_alpn_protocols(["h2"])
    if with_certificate:
        context.load_cert_chain(kit.directory / "cert.pem", kit.directory / "key.pem")
    return context


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_current_versions_of_tls_are_spoken(server: Commanded, south: Kit, version: ssl.TLSVersion) -> None:
    context = tls_context(south)
    context.minimum_version = context.maximum_version = version
    with connect(server) as connection, context.wrap_socket(connection, server_hostname="localhost") as session:
        assert session.selected_alpn_protocol() == "h2"


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
def test_older_versions_of_tls_are_refused(server: Commanded, south: Kit, version: ssl.TLSVersion) -> None:
    context = tls_context(south)
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = version
    # An alert or the end of the connection: the refusal is the server's, not this side's own.
    with unharmed(server), connect(server) as connection, pytest.raises(ssl.SSLError, match=r"PROTOCOL_VERSION|EOF"):
        context.wrap_socket(connection, server_hostname="localhost")


def refused_in_tls(server: Commanded, context: ssl.SSLContext) -> bool:
    with connect(server) as connection:
        try:
            with context.wrap_socket(connection, server_hostname="localhost") as session:
                session.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
                # In TLS 1.3 the refusal of the client's certificate follows the handshake.
                return session.recv(4096) == b""
        except (ssl.SSLError, ConnectionError):
            return True


def test_a_caller_without_tls_without_certificate_or_of_another_authority_gets_nowhere(
    server: Commanded, south: Kit, tmp_path: Path
) -> None:
    foreign = Kit.load(make_federation(tmp_path)["south"])
    ours = tls_context(south, with_certificate=False)
    theirs = tls_context(foreign)
    theirs.load_verify_locations(cadata=south.authority_pem.decode())
    with unharmed(server):
        with connect(server) as plain:
            plain.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            assert closed_by_server(plain)
        assert refused_in_tls(server, ours)
        assert refused_in_tls(server, theirs)
    assert not refused_in_tls(server, tls_context(south))


# A party that turns on the others.


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
        server.begin({"south": LONG_TASK_BYTES, NORTH: HONEST_BYTES}, deadline_s=2.0)
        for _ in range(30):
            attending(south, server, stack)
        assert server.status("Threads") < threads + 3 * MAX_STREAMS_PER_PARTY + 12
        assert server.memory_mb < 4 * LONG_TASK_BYTES / 2**20
        outcome = server.end()
        assert outcome.results == {NORTH: HONEST_BYTES}
        assert outcome.absences == {"south": "no result within 2 s"}
        another_party_comes_and_goes(server, kits)


def test_a_body_that_never_comes_to_its_end_costs_its_party_the_phase_and_the_others_nothing(
    server: Commanded, south: Kit
) -> None:
    with unharmed(server), RawClient(south, server.address) as dripping:
        dripping.hello()
        dripping.receive("welcome")
        name = server.begin({"south": 1, NORTH: HONEST_BYTES}, deadline_s=1.0)
        dripping.receive("task")
        announced = Body(size=MAX_BODY_BYTES, sha256=bytes(32))
        dripping.send(ClientMessage(result=Result(key=key_to_proto(key(name)), body=announced)))
        dripping.send(ClientMessage(chunk=Chunk(index=0, data=bytes(CHUNK_BYTES))))
        outcome = server.end()
        assert outcome.results == {NORTH: HONEST_BYTES}
        assert outcome.absences == {"south": "no result within 1 s"}


def test_announcements_of_the_largest_body_cost_no_memory(server: Commanded, south: Kit) -> None:
    with unharmed(server), ExitStack() as stack:
        first = attending(south, server, stack)
        name = server.begin({"south": 1, NORTH: HONEST_BYTES}, deadline_s=1.0)
        first.receive("task")
        announced = Result(key=key_to_proto(key(name)), body=Body(size=MAX_BODY_BYTES, sha256=bytes(32)))
        for _ in range(12):
            attending(south, server, stack).send(ClientMessage(result=announced))
        assert server.memory_mb < MAX_BODY_BYTES / 2**20
        assert server.end().absences == {"south": "no result within 1 s"}


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


# Names that reach for what is not theirs.


@pytest.mark.parametrize("run", ["", "..", "../run", "/etc/run", "a/b", "a\\b", "a\0b", "a\nb", ".hidden", "x" * 101])
def test_a_run_that_is_no_name_is_refused_by_the_server(server: Commanded, south: Kit, run: str) -> None:
    named = key_to_proto(key("p"))
    named.run = run
    with RawClient(south, server.address) as client:
        client.hello()
        client.send(ClientMessage(result=Result(key=named, refusal="no")))
        code, error = client.refusal()
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert isinstance(error, ProtocolViolation)
    assert "key.run" in str(error)


@pytest.mark.parametrize("run", ["../outside", "ü" * 80, "x" * 65])
def test_a_server_that_names_a_run_badly_gets_no_answer_and_its_party_stays(kits: dict[str, Path], run: str) -> None:
    handled: list[Task] = []

    def handler(task: Task) -> bytes:
        handled.append(task)
        return b"here"

    bad, good = (PhaseId(RunId(name), RoundId(1), "finish") for name in (run, "good"))
    with Server(Kit.load(kits["server"])) as rogue, Attending(kits["north"], handler, rogue.address):
        assert not rogue.transport.gather(bad, {NORTH: b""}, deadline_s=0.5).results
        assert rogue.transport.gather(good, {NORTH: b""}, deadline_s=SOCKET_S).results == {NORTH: b"here"}
    assert [task.run for task in handled] == ["good"]


def test_a_party_whose_work_in_advance_fails_stays(kits: dict[str, Path]) -> None:
    def broken() -> AbstractContextManager[object]:
        raise OSError("File name too long")

    kit = Kit.load(kits["north"])
    with Server(Kit.load(kits["server"])) as server, Attending(kit, lambda _: b"here", server.address, idle=broken):
        results = server.transport.gather(
            PhaseId(RunId("r"), RoundId(1), "p"), {NORTH: b""}, deadline_s=SOCKET_S
        ).results
    assert results == {NORTH: b"here"}
