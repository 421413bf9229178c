"""Who and what the transport refuses, with which status, and that the run goes on."""

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest

from fenchel.v1.federation_pb2 import Body, Chunk, ClientMessage, Heartbeat, Hello, Result
from fenchel_client.session import Session
from fenchel_client.task import Task
from fenchel_client.transport import link
from fenchel_client.transport.channel import open_channel
from fenchel_client.transport.dial import GrpcDial
from fenchel_common.errors import (
    BodyDamaged,
    BodyTooLarge,
    CertificateNotValidNow,
    FenchelError,
    InvalidInput,
    NotOnRoster,
    PeerSilent,
    ProtocolVersionMismatch,
    ProtocolViolation,
    SessionSuperseded,
    WrongRole,
)
from fenchel_common.identity import Address, Kit, Roster
from fenchel_common.ids import ClientId
from fenchel_common.wire.chunks import CHUNK_BYTES, body_to_proto
from fenchel_common.wire.frames import PARTY_METADATA_KEY, PROTOCOL_VERSION, key_to_proto, result_frames
from fenchel_server.transport import TransportLimits, listen
from fenchel_server.transport.auth import AuthorisingInterceptor
from fenchel_server.transport.servicer import SERVICE_NAME
from support.connections import Attending, RawClient, Server, echo, gathering, key, phase
from support.kits import hand_over, make_federation

NORTH, SOUTH = ClientId("north"), ClientId("south")
DEADLINE_S = 20.0
LIMIT_BYTES = 100_000


@pytest.fixture
def server(kits: dict[str, Path]) -> Iterator[Server]:
    with Server(Kit.load(kits["server"]), limits=TransportLimits(max_body_bytes=LIMIT_BYTES)) as running:
        yield running


def channel_with(kit: Kit, authority_pem: bytes, address: Address, *, with_certificate: bool = True) -> grpc.Channel:
    """A channel without any of the checks that a party makes of itself."""
    credentials = grpc.ssl_channel_credentials(
        root_certificates=authority_pem,
        private_key=kit.key_pem if with_certificate else None,
        certificate_chain=kit.certificate_pem if with_certificate else None,
    )
    options = (("grpc.use_local_subchannel_pool", 1),)
    return grpc.secure_channel(str(address), credentials, options=options)


def refused_by_tls(server: Server, kit: Kit, channel: grpc.Channel) -> bool:
    with RawClient(kit, server.address, channel=channel) as client:
        client.hello()
        code, _ = client.refusal()
        return code is grpc.StatusCode.UNAVAILABLE and server.transport.present() == frozenset()


def test_a_certificate_of_another_authority_is_refused(kits: dict[str, Path], server: Server, tmp_path: Path) -> None:
    foreign = Kit.load(make_federation(tmp_path, ("north", "south"))["north"])
    ours = Kit.load(kits["north"])

    assert refused_by_tls(server, foreign, channel_with(foreign, ours.authority_pem, server.address))
    assert refused_by_tls(server, foreign, open_channel(foreign, address=server.address))


def test_a_caller_without_a_certificate_is_refused(kits: dict[str, Path], server: Server) -> None:
    kit = Kit.load(kits["north"])

    assert refused_by_tls(server, kit, channel_with(kit, kit.authority_pem, server.address, with_certificate=False))


def test_an_expired_certificate_is_refused_by_the_server_and_by_its_own_party(tmp_path: Path) -> None:
    a_year_ago = datetime.now(UTC) - timedelta(days=365)
    kept = hand_over(make_federation(tmp_path / "kits", now=a_year_ago)["north"], tmp_path / "north")
    expired = Kit.load(kept, now=a_year_ago)
    renewed = make_federation(tmp_path / "kits")
    with Server(Kit.load(renewed["server"])) as server:
        assert refused_by_tls(server, expired, channel_with(expired, expired.authority_pem, server.address))
        with pytest.raises(CertificateNotValidNow, match=r"expired on .* ask the operator"):
            Session(expired, echo, dial=GrpcDial(server.address)).run()


def test_a_server_that_shows_the_certificate_of_a_party_is_refused(kits: dict[str, Path]) -> None:
    rogue, north = Kit.load(kits["south"]), Kit.load(kits["north"])
    server = grpc.server(ThreadPoolExecutor(1))
    credentials = grpc.ssl_server_credentials(
        [(rogue.key_pem, rogue.certificate_pem)], root_certificates=rogue.authority_pem, require_client_auth=True
    )
    address = Address("localhost", server.add_secure_port("localhost:0", credentials))
    server.start()
    try:
        with RawClient(north, address) as client:
            client.hello()
            code, _ = client.refusal()
            assert code is grpc.StatusCode.UNAVAILABLE
    finally:
        server.stop(None).wait()


def test_a_server_is_not_started_with_the_kit_of_a_party(kits: dict[str, Path]) -> None:
    with pytest.raises(WrongRole, match="start the server with the server's kit"):
        listen(Kit.load(kits["north"]), address=Address("localhost", 0))


def test_a_party_that_is_not_on_the_servers_roster_is_told_the_cure_and_does_not_try_again(
    tmp_path: Path,
) -> None:
    west = Kit.load(make_federation(tmp_path, ("north", "south", "west"))["west"])
    with Server(Kit.load(make_federation(tmp_path, ("north", "south"))["server"])) as server:
        with RawClient(west, server.address) as client:
            client.hello()
            code, error = client.refusal()
        with pytest.raises(NotOnRoster, match=r"'west' is not on the roster .* `fenchel provision`"):
            Session(west, echo, dial=GrpcDial(server.address)).run()

    assert code is grpc.StatusCode.PERMISSION_DENIED
    assert isinstance(error, NotOnRoster)


def test_a_party_cannot_act_for_another_whatever_it_claims(kits: dict[str, Path], server: Server) -> None:
    claim = ((PARTY_METADATA_KEY, "north"),)
    with (
        RawClient(Kit.load(kits["south"]), server.address, metadata=claim) as south,
        Attending(kits["north"], echo, server.address),
    ):
        south.hello()
        south.receive("welcome")
        assert SOUTH in server.transport.present()
        with gathering(server.transport, "p", {NORTH: b"for north"}) as outcome:
            south.send(*result_frames(key("p"), b"forged"))

    assert outcome[0].results == {NORTH: b"for north"}


def test_an_oversized_result_is_refused_with_its_status_and_the_run_goes_on(
    kits: dict[str, Path], server: Server
) -> None:
    with (
        RawClient(Kit.load(kits["north"]), server.address) as north,
        Attending(kits["south"], echo, server.address),
    ):
        north.hello()
        north.receive("welcome")
        with gathering(server.transport, "p", {NORTH: b"", SOUTH: b"fine"}) as outcome:
            north.receive("task")
            announced = Body(size=LIMIT_BYTES + 1, sha256=bytes(32))
            north.send(ClientMessage(result=Result(key=key_to_proto(key("p")), body=announced)))
            code, error = north.refusal()
        again = server.transport.gather(phase("next"), {SOUTH: b"still here"}, deadline_s=DEADLINE_S)

    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert isinstance(error, BodyTooLarge)
    assert outcome[0].results == {SOUTH: b"fine"}
    assert outcome[0].absences[NORTH].reason == (
        f"rejected: the result of p has {LIMIT_BYTES + 1} bytes, over the limit of {LIMIT_BYTES} bytes"
    )
    assert outcome[0].seconds < DEADLINE_S / 2
    assert again.results == {SOUTH: b"still here"}


def test_a_message_longer_than_any_chunk_is_refused_with_its_status(kits: dict[str, Path], server: Server) -> None:
    kit = Kit.load(kits["north"])
    without_limits = channel_with(kit, kit.authority_pem, server.address)
    with RawClient(kit, server.address, channel=without_limits) as north:
        north.hello()
        north.receive("welcome")
        north.send(ClientMessage(chunk=Chunk(data=bytes(2 * CHUNK_BYTES))))
        assert north.refusal()[0] is grpc.StatusCode.RESOURCE_EXHAUSTED
    with Attending(kits["south"], echo, server.address):
        outcome = server.transport.gather(phase("p"), {SOUTH: b"goes on"}, deadline_s=DEADLINE_S)
        assert outcome.results == {SOUTH: b"goes on"}


def test_a_session_refuses_what_is_too_large_for_either_side_and_goes_on(kits: dict[str, Path], server: Server) -> None:
    def handler(task: Task) -> bytes:
        return bytes(LIMIT_BYTES + 1) if task.phase == "result" else task.body

    with Attending(kits["north"], handler, server.address, limit=lambda _: 1000):
        too_long_up = server.transport.gather(phase("result"), {NORTH: b""}, deadline_s=DEADLINE_S)
        too_long_down = server.transport.gather(phase("task"), {NORTH: bytes(1001)}, deadline_s=DEADLINE_S)
        fitting = server.transport.gather(phase("next"), {NORTH: bytes(1000)}, deadline_s=DEADLINE_S)

    assert too_long_up.absences[NORTH].reason == (
        f"refused: the result of {LIMIT_BYTES + 1} bytes is over the server's limit of {LIMIT_BYTES} bytes"
    )
    assert too_long_down.absences[NORTH].reason == (
        "refused: the task of task has 1001 bytes, over the limit of 1000 bytes"
    )
    assert fitting.results == {NORTH: bytes(1000)}


P = key_to_proto(key("p"))
GREETING = ClientMessage(hello=Hello(protocol_version=PROTOCOL_VERSION, incarnation="1"))
ANNOUNCEMENT = ClientMessage(result=Result(key=P, body=body_to_proto(b"abc")))


@pytest.mark.parametrize(
    ("messages", "code", "error"),
    [
        ([ClientMessage(heartbeat=Heartbeat())], grpc.StatusCode.INVALID_ARGUMENT, ProtocolViolation),
        ([ClientMessage()], grpc.StatusCode.INVALID_ARGUMENT, ProtocolViolation),
        ([GREETING, GREETING], grpc.StatusCode.INVALID_ARGUMENT, ProtocolViolation),
        ([GREETING, ClientMessage()], grpc.StatusCode.INVALID_ARGUMENT, ProtocolViolation),
        (
            [GREETING, ClientMessage(chunk=Chunk(data=b"abc"))],
            grpc.StatusCode.INVALID_ARGUMENT,
            ProtocolViolation,
        ),
        (
            [GREETING, ClientMessage(result=Result(key=P))],
            grpc.StatusCode.INVALID_ARGUMENT,
            ProtocolViolation,
        ),
        ([GREETING, ANNOUNCEMENT, ANNOUNCEMENT], grpc.StatusCode.INVALID_ARGUMENT, ProtocolViolation),
        (
            [GREETING, ANNOUNCEMENT, ClientMessage(chunk=Chunk(data=b"abcd"))],
            grpc.StatusCode.INVALID_ARGUMENT,
            ProtocolViolation,
        ),
        (
            [GREETING, ANNOUNCEMENT, ClientMessage(chunk=Chunk(data=b"abd"))],
            grpc.StatusCode.DATA_LOSS,
            BodyDamaged,
        ),
        (
            [ClientMessage(hello=Hello(protocol_version=PROTOCOL_VERSION))],
            grpc.StatusCode.INVALID_ARGUMENT,
            ProtocolViolation,
        ),
        (
            [ClientMessage(hello=Hello(protocol_version=PROTOCOL_VERSION, incarnation="x" * 65))],
            grpc.StatusCode.INVALID_ARGUMENT,
            ProtocolViolation,
        ),
        (
            [ClientMessage(hello=Hello(protocol_version=PROTOCOL_VERSION + 1, incarnation="1"))],
            grpc.StatusCode.FAILED_PRECONDITION,
            ProtocolVersionMismatch,
        ),
    ],
)
def test_messages_that_break_the_protocol_end_the_call_with_their_status(
    kits: dict[str, Path],
    server: Server,
    messages: list[ClientMessage],
    code: grpc.StatusCode,
    error: type[FenchelError],
) -> None:
    with (
        RawClient(Kit.load(kits["north"]), server.address) as client,
        gathering(server.transport, "p", {NORTH: b""}, deadline_s=0.3),
    ):
        client.send(*messages)
        found_code, found_error = client.refusal()

    assert found_code is code
    assert type(found_error) is error
    assert server.transport.present() == frozenset()


def test_bytes_that_are_no_message_end_the_call_with_their_status(kits: dict[str, Path], server: Server) -> None:
    with open_channel(Kit.load(kits["north"]), address=server.address) as channel:
        attend: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(f"/{SERVICE_NAME}/Attend")
        call = attend(iter([GREETING.SerializeToString(), b"\xff\xff\xff"]), timeout=DEADLINE_S)
        with pytest.raises(grpc.RpcError):
            for _ in call:
                pass

    assert call.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_a_client_of_another_protocol_version_says_so_and_does_not_try_again(
    kits: dict[str, Path], server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "PROTOCOL_VERSION", 0)
    with pytest.raises(ProtocolVersionMismatch, match="install the same Fenchel version on both sides"):
        Session(Kit.load(kits["north"]), echo, dial=GrpcDial(server.address)).run()


def test_a_second_process_of_a_party_takes_the_place_of_the_first(kits: dict[str, Path], server: Server) -> None:
    with Attending(kits["north"], echo, server.address) as first:
        assert server.transport.wait_for(frozenset({NORTH}), timeout_s=DEADLINE_S)
        with Attending(kits["north"], lambda _: b"second", server.address):
            assert isinstance(first.end(), SessionSuperseded)
            outcome = server.transport.gather(phase("p"), {NORTH: b"first"}, deadline_s=DEADLINE_S)

    assert outcome.results == {NORTH: b"second"}


def test_a_client_that_says_nothing_is_dropped_and_one_that_sends_heartbeats_is_not(kits: dict[str, Path]) -> None:
    limits = TransportLimits(heartbeat_s=0.1, silence_s=0.35, hello_s=0.2)
    with (
        Server(Kit.load(kits["server"]), limits=limits) as server,
        Attending(kits["south"], echo, server.address),
        RawClient(Kit.load(kits["north"]), server.address) as north,
    ):
        server.transport.wait_for(frozenset({SOUTH}), timeout_s=DEADLINE_S)
        before = server.transport.incarnation(SOUTH)
        north.hello()
        code, error = north.refusal()
        assert code is grpc.StatusCode.DEADLINE_EXCEEDED
        assert isinstance(error, PeerSilent)
        with RawClient(Kit.load(kits["north"]), server.address) as wordless:
            assert isinstance(wordless.refusal()[1], PeerSilent)
        assert server.transport.present() == {SOUTH}
        assert server.transport.incarnation(SOUTH) == before


def test_an_unexpected_failure_in_the_server_is_internal_and_gives_nothing_away(
    kits: dict[str, Path], server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ValueError("the path /srv/secret is gone")

    monkeypatch.setattr(server.transport._mailbox, "attach", broken)
    with RawClient(Kit.load(kits["north"]), server.address) as client, caplog.at_level(logging.ERROR):
        client.hello()
        code, error = client.refusal()

    assert code is grpc.StatusCode.INTERNAL
    assert "secret" not in str(error)
    assert "/srv/secret" in caplog.text


def test_the_interceptor_stands_before_every_handler_of_the_service(kits: dict[str, Path]) -> None:
    def handler(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        raise AssertionError("the handler was reached")

    class Nobody:
        def party(self, context: grpc.ServicerContext) -> ClientId:  # noqa: ARG002 - of the interface
            raise NotOnRoster("nobody may")

        def member(self, context: grpc.ServicerContext) -> None:  # noqa: ARG002 - of the interface
            raise AssertionError("no call of the health service is made")

        def roster(self) -> Roster:
            return Kit.load(kits["server"]).roster

    server = grpc.server(ThreadPoolExecutor(1), interceptors=[AuthorisingInterceptor(Nobody())])
    methods: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {"Attend": grpc.stream_stream_rpc_method_handler(handler)}
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE_NAME, methods)])
    port = server.add_insecure_port("localhost:0")
    server.start()
    try:
        with grpc.insecure_channel(f"localhost:{port}") as channel:
            attend: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(f"/{SERVICE_NAME}/Attend")
            call = attend(iter([b""]), timeout=DEADLINE_S)
            with pytest.raises(grpc.RpcError):
                next(call)
            assert call.code() is grpc.StatusCode.PERMISSION_DENIED
    finally:
        server.stop(None).wait()


def test_a_port_that_is_taken_is_an_error_that_names_the_address(kits: dict[str, Path], server: Server) -> None:
    with pytest.raises(InvalidInput, match=f"cannot listen on localhost:{server.port}: another program"):
        listen(Kit.load(kits["server"]), address=server.address)
