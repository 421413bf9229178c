"""Whom the transport refuses, and that nobody acts for another."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest

from fenchel_client.session import Session
from fenchel_client.transport.channel import open_channel
from fenchel_client.transport.dial import GrpcDial
from fenchel_common.errors import CertificateNotValidNow, NotOnRoster, SessionSuperseded, WrongRole
from fenchel_common.identity import Address, Kit, Roster
from fenchel_common.ids import ClientId
from fenchel_common.wire.frames import PARTY_METADATA_KEY, result_frames
from fenchel_server.transport import listen
from fenchel_server.transport.auth import AuthorisingInterceptor
from fenchel_server.transport.servicer import SERVICE_NAME
from support.connections import Attending, RawClient, Server, channel_with, echo, gathering, key, phase
from support.kits import hand_over, make_federation

NORTH, SOUTH = ClientId("north"), ClientId("south")
DEADLINE_S = 20.0


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


def test_a_second_process_of_a_party_takes_the_place_of_the_first(kits: dict[str, Path], server: Server) -> None:
    with Attending(kits["north"], echo, server.address) as first:
        assert server.transport.wait_for(frozenset({NORTH}), timeout_s=DEADLINE_S)
        with Attending(kits["north"], lambda _: b"second", server.address):
            assert isinstance(first.end(), SessionSuperseded)
            outcome = server.transport.gather(phase("p"), {NORTH: b"first"}, deadline_s=DEADLINE_S)

    assert outcome.results == {NORTH: b"second"}


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
