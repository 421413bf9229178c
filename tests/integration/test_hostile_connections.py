"""Callers without a certificate, over real TLS: the server stays up, honest rounds go on, memory stays bounded."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from fenchel_common.identity import Kit
from fenchel_server.transport.server import CONNECTIONS_PER_PARTY, SPARE_CONNECTIONS
from support.commanded_server import Commanded
from support.hostile_callers import (
    HONEST_BYTES,
    NORTH,
    SOCKET_S,
    another_party_comes_and_goes,
    attended_server,
    unharmed,
)
from support.kits import make_federation

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")

PARTIES = 3
WAVES, WAVE_CONNECTIONS = 100, 100


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


@pytest.fixture(scope="module")
def server(kits: dict[str, Path]) -> Iterator[Commanded]:
    with attended_server(kits) as running:
        yield running


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
