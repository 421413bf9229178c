"""The gRPC server, as the transport that the round driver sees."""

import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from fenchel_common.dismissal import UnfitData
from fenchel_common.errors import InvalidInput, WrongRole
from fenchel_common.identity import Address, Kit, LiveKit, Role
from fenchel_common.ids import ClientId
from fenchel_common.wire.chunks import FLOW_CONTROL, MAX_MESSAGE_BYTES
from fenchel_common.wire.presence import missing_to_text
from fenchel_server.rounds.transport import Gathered, PhaseId, PortBytes, Receive
from fenchel_server.transport.auth import (
    Authoriser,
    AuthorisingInterceptor,
    CertificateAuthoriser,
    InsecureAuthoriser,
)
from fenchel_server.transport.handshakes import Handshakes
from fenchel_server.transport.mailbox import Mailbox, Traffic
from fenchel_server.transport.portbytes import PortCounter
from fenchel_server.transport.quota import BoundedHealth
from fenchel_server.transport.servicer import SERVICE_NAME, FederationServicer, TransportLimits, add_to_server

# A connection keeps a thread; the one that it replaces keeps its own until it has ended. Health checks need a few.
THREADS_PER_PARTY = 2
SPARE_THREADS = 8
MAX_CALLS_PER_PARTY = 16
MAX_CALLS_PER_CONNECTION = 16
CONNECTIONS_PER_PARTY = 4
SPARE_CONNECTIONS = 128
"""Connections without a certificate yet are allowed beside those of the parties; each takes a file descriptor."""

KEEPALIVE_MS = 60_000
"""Well below the four minutes at which common proxies drop an idle connection."""
KEEPALIVE_TIMEOUT_MS = 20_000
MIN_CLIENT_PING_MS = 10_000
"""gRPC ends the connection of a client that pings more often than this."""

logger = logging.getLogger(__name__)


class GrpcTransport:
    """The `Listener` of a real federation."""

    def __init__(
        self,
        mailbox: Mailbox,
        health_servicer: health.HealthServicer,
        bounded: BoundedHealth,
        server: grpc.Server,
        *,
        handshakes: Handshakes,
        port: int,
        dismissal_s: float,
    ) -> None:
        self._mailbox = mailbox
        self._health = health_servicer
        self._bounded = bounded
        self._server = server
        self._handshakes = handshakes
        self._port = port
        self._port_counter = PortCounter(port)
        self._dismissal_s = dismissal_s
        self.set_serving(False)

    @property
    def port(self) -> int:
        return self._port

    def gather(
        self,
        phase: PhaseId,
        tasks: Mapping[ClientId, bytes],
        *,
        deadline_s: float,
        limits: Mapping[ClientId, int] | None = None,
        receive: Receive | None = None,
    ) -> Gathered:
        return self._mailbox.gather(phase, tasks, deadline_s=deadline_s, limits=limits, receive=receive)

    def present(self) -> frozenset[ClientId]:
        return self._mailbox.present()

    def owed(self) -> Mapping[ClientId, PhaseId]:
        return self._mailbox.owed()

    def wait_for(self, clients: frozenset[ClientId], *, timeout_s: float) -> frozenset[ClientId]:
        return self._mailbox.wait_for(clients, timeout_s=timeout_s)

    def incarnation(self, client: ClientId) -> str | None:
        return self._mailbox.incarnation(client)

    def port_bytes(self) -> PortBytes | None:
        return self._port_counter.look()

    def tend(self) -> None:
        self._port_counter.look()
        self._handshakes.tell()

    def dismiss(self, reason: str, *, unfit: Mapping[str, UnfitData] | None = None) -> None:
        self.set_serving(False)
        self._mailbox.dismiss(reason, unfit=unfit or {}, timeout_s=self._dismissal_s)

    def wait_dismissed(self, clients: frozenset[ClientId], *, timeout_s: float) -> frozenset[ClientId]:
        return self._mailbox.wait_dismissed(clients, timeout_s=timeout_s)

    def stop(self, *, grace_s: float = 0.0) -> None:
        self._server.stop(grace_s or None).wait()

    def traffic(self) -> Traffic:
        """The bytes of all messages since the start: tasks, results, greetings, receipts and heartbeats."""
        return self._mailbox.traffic()

    def set_missing(self, missing: Mapping[ClientId, float]) -> None:
        self._bounded.missing = missing_to_text(missing)

    def set_serving(self, serving: bool) -> None:
        status = health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING
        for service in (health.OVERALL_HEALTH, SERVICE_NAME):
            self._health.set(service, status)


def listen(
    kit: Kit | LiveKit, *, address: Address, limits: TransportLimits | None = None, insecure: bool = False
) -> GrpcTransport:
    """Listens at an address; port 0 stands for any free port.

    Mutual TLS is always on, except with `insecure`, which is allowed on a loopback address only. Raises `WrongRole` if
    the kit is not a server's, `InvalidInput` if the server cannot listen at the address.
    """
    kit_in_use = LiveKit.of(kit)
    loaded = kit_in_use.look()
    if loaded.role is not Role.SERVER:
        raise WrongRole(
            f"{loaded.directory} is the kit of a {loaded.role.value}; start the server with the server's kit"
        )
    bounds = limits or TransportLimits()
    handshakes = Handshakes(patience_s=bounds.handshake_s)
    authoriser: Authoriser = (
        InsecureAuthoriser(kit_in_use) if insecure else CertificateAuthoriser(kit_in_use, handshakes)
    )
    parties = len(loaded.roster.parties)
    server = grpc.server(
        ThreadPoolExecutor(THREADS_PER_PARTY * parties + SPARE_THREADS, thread_name_prefix="grpc"),
        interceptors=[AuthorisingInterceptor(authoriser)],
        options=_server_options(parties, bounds),
        maximum_concurrent_rpcs=MAX_CALLS_PER_PARTY * parties + SPARE_THREADS,
    )
    mailbox = Mailbox(silence_s=bounds.silence_s)
    add_to_server(FederationServicer(mailbox, authoriser, bounds), server)
    health_servicer = health.HealthServicer()
    services = frozenset({health.OVERALL_HEALTH, SERVICE_NAME})
    bounded = BoundedHealth(health_servicer, services, authoriser)
    health_pb2_grpc.add_HealthServicer_to_server(bounded, server)
    port = _bind(server, kit_in_use, address, handshakes, insecure=insecure)
    transport = GrpcTransport(
        mailbox, health_servicer, bounded, server, handshakes=handshakes, port=port, dismissal_s=bounds.dismissal_s
    )
    server.start()
    return transport


def _bind(server: grpc.Server, kit: LiveKit, address: Address, handshakes: Handshakes, *, insecure: bool) -> int:
    if insecure and not address.loopback:
        raise InvalidInput(
            f"--insecure is for debugging on this machine alone and refuses to listen on {address};"
            " use 127.0.0.1, [::1] or localhost, or leave --insecure out"
        )
    try:
        if insecure:
            logger.warning(
                "INSECURE: no TLS on %s. Nothing is encrypted in transit and every caller is believed to be the party"
                " that it says it is. For debugging on this machine alone.",
                address,
            )
            return server.add_insecure_port(str(address))
        return server.add_secure_port(str(address), _credentials(kit, handshakes))
    except RuntimeError as error:
        raise InvalidInput(
            f"cannot listen on {address}: another program uses the port, or the host is not this machine's;"
            " choose another address"
        ) from error


def _credentials(kit: LiveKit, handshakes: Handshakes) -> grpc.ServerCredentials:
    """Mutual TLS with the certificate and key that are in use when a connection is made; gRPC asks at each of them."""
    used = kit.look()

    def renewed() -> grpc.ServerCertificateConfiguration | None:
        """The TLS configuration if it has changed since the last call, else None.

        gRPC replaces the configuration without a lock while other connections begin to use the old one. If it did so
        for each connection, many connections at once would crash the process.
        """
        nonlocal used
        handshakes.begin()
        before, used = used, kit.look()
        if _tls_files(used) == _tls_files(before):
            return None
        return _certificate_configuration(used)

    return grpc.dynamic_ssl_server_credentials(
        _certificate_configuration(used),
        renewed,  # type: ignore[arg-type]  # the stubs leave out None, which gRPC documents as "no change"
        require_client_authentication=True,
    )


def _tls_files(kit: Kit) -> tuple[bytes, bytes, bytes]:
    return kit.key_pem, kit.certificate_pem, kit.authority_pem


def _certificate_configuration(kit: Kit) -> grpc.ServerCertificateConfiguration:
    key, certificate, authority = _tls_files(kit)
    return grpc.ssl_server_certificate_configuration([(key, certificate)], root_certificates=authority)


def _server_options(parties: int, limits: TransportLimits) -> tuple[tuple[str, int], ...]:
    return (
        ("grpc.so_reuseport", 0),  # two servers on one port would each get some of the clients
        ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
        ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
        *FLOW_CONTROL,
        ("grpc.server_handshake_timeout_ms", round(limits.handshake_s * 1000)),
        ("grpc.max_allowed_incoming_connections", CONNECTIONS_PER_PARTY * parties + SPARE_CONNECTIONS),
        ("grpc.max_concurrent_streams", MAX_CALLS_PER_CONNECTION),
        ("grpc.keepalive_time_ms", KEEPALIVE_MS),
        ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.http2.min_ping_interval_without_data_ms", MIN_CLIENT_PING_MS),
    )
