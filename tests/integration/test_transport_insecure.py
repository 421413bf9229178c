"""The insecure mode: on loopback alone, and loud about it."""

import logging
from pathlib import Path

import grpc
import pytest

from fenchel_client.session import Session
from fenchel_client.transport.dial import GrpcDial
from fenchel_common.errors import InvalidInput
from fenchel_common.identity import Address, Kit
from fenchel_common.ids import ClientId
from fenchel_server.transport import listen
from support.connections import Attending, RawClient, Server, echo, phase

NORTH = ClientId("north")
DEADLINE_S = 20.0


def test_an_insecure_server_takes_no_unknown_party(kits: dict[str, Path]) -> None:
    with (
        Server(Kit.load(kits["server"]), insecure=True) as server,
        RawClient(Kit.load(kits["north"]), server.address, insecure=True) as client,
    ):
        assert client.refusal()[0] is grpc.StatusCode.PERMISSION_DENIED


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "fenchel.example.org"])  # noqa: S104 - to be refused
def test_insecure_refuses_every_address_but_loopback_on_both_sides(kits: dict[str, Path], host: str) -> None:
    with pytest.raises(InvalidInput, match="debugging on this machine alone and refuses to listen"):
        listen(Kit.load(kits["server"]), address=Address(host, 0), insecure=True)
    with pytest.raises(InvalidInput, match="debugging on this machine alone and refuses to connect"):
        Session(Kit.load(kits["north"]), echo, dial=GrpcDial(Address(host, 9092), insecure=True)).run()


def test_insecure_works_on_loopback_and_says_so_loudly(kits: dict[str, Path], caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.WARNING),
        Server(Kit.load(kits["server"]), insecure=True) as server,
        Attending(kits["north"], echo, server.address, insecure=True),
    ):
        outcome = server.transport.gather(phase("p"), {NORTH: b"abc"}, deadline_s=DEADLINE_S)

    assert outcome.results == {NORTH: b"abc"}
    assert sum("INSECURE: no TLS" in record.getMessage() for record in caplog.records) == 2


def test_a_secure_server_takes_no_insecure_client(kits: dict[str, Path]) -> None:
    with (
        Server(Kit.load(kits["server"])) as server,
        RawClient(Kit.load(kits["north"]), server.address, insecure=True) as client,
    ):
        client.hello()
        assert client.refusal()[0] is grpc.StatusCode.UNAVAILABLE
