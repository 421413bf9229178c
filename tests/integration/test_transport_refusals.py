"""What the transport refuses, with which status, and that the run goes on."""

import logging
from collections.abc import Iterator
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
    FenchelError,
    InvalidInput,
    PeerSilent,
    ProtocolVersionMismatch,
    ProtocolViolation,
)
from fenchel_common.identity import Kit
from fenchel_common.ids import ClientId
from fenchel_common.wire.chunks import CHUNK_BYTES, body_to_proto
from fenchel_common.wire.frames import PROTOCOL_VERSION, key_to_proto
from fenchel_server.transport import TransportLimits, listen
from fenchel_server.transport.servicer import SERVICE_NAME
from support.connections import Attending, RawClient, Server, channel_with, echo, gathering, key, phase

NORTH, SOUTH = ClientId("north"), ClientId("south")
DEADLINE_S = 20.0
LIMIT_BYTES = 100_000


@pytest.fixture
def server(kits: dict[str, Path]) -> Iterator[Server]:
    with Server(Kit.load(kits["server"]), limits=TransportLimits(max_body_bytes=LIMIT_BYTES)) as running:
        yield running


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
        gathering(server.transport, "p", {NORTH: b""}),
    ):
        client.send(messages[0])
        if messages[0] == GREETING:
            client.receive("task")
        client.send(*messages[1:])
        found_code, found_error = client.refusal()
        server.transport.dismiss("over")

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


def test_a_client_that_says_nothing_is_dropped_and_one_that_sends_heartbeats_is_not(kits: dict[str, Path]) -> None:
    limits = TransportLimits(heartbeat_s=0.1, silence_s=2.0, hello_s=1.0)
    with Server(Kit.load(kits["server"]), limits=limits) as server, Attending(kits["south"], echo, server.address):
        server.transport.wait_for(frozenset({SOUTH}), timeout_s=DEADLINE_S)
        before = server.transport.incarnation(SOUTH)
        with RawClient(Kit.load(kits["north"]), server.address) as north:
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


def test_a_port_that_is_taken_is_an_error_that_names_the_address(kits: dict[str, Path], server: Server) -> None:
    with pytest.raises(InvalidInput, match=f"cannot listen on localhost:{server.port}: another program"):
        listen(Kit.load(kits["server"]), address=server.address)
