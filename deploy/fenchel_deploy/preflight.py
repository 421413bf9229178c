"""Preflight: checks whether this machine, this kit and this data are ready to take part in a federation.

If a check fails, the checks that need its result are left out, because its cure comes first.
"""

import socket
import ssl
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from fenchel_client.concessions import explained
from fenchel_common.errors import FenchelError
from fenchel_common.identity.certificates import Certificate, Role, server_key_host
from fenchel_common.identity.kit import (
    AUTHORITY_FILE,
    CERTIFICATE_FILE,
    KEY_FILE,
    KIT_FILES,
    Address,
    Kit,
    read_certificate,
    read_key,
    read_roster,
    read_settings,
)
from fenchel_common.identity.livekit import WARN_DAYS_LEFT
from fenchel_deploy.check import Check, Status
from fenchel_deploy.datachecks import data_checks

# The HTTP/2 client preface with an empty SETTINGS frame: what any gRPC server answers with its own SETTINGS.
_HTTP2_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
_HTTP2_FRAME_HEAD_BYTES = 9
_HTTP2_SETTINGS = 4
_CONSENT = (
    "by itself a client takes part in sealed runs with a standard key of 3072 bits and pseudonyms by ECDH alone; each "
    f"word of `fenchel client --accept` that its operator adds admits more: {explained()}"
)


def run_checks(
    directory: Path,
    *,
    data: Path | None = None,
    run: Path | None = None,
    timeout_s: float = 5.0,
    now: datetime | None = None,
) -> Iterator[Check]:
    """Makes the checks of the kit in `directory` and of the table in `data`, and yields each as it is made.

    With the run.toml in `run`, the labels are checked against the loss of that run.
    """
    moment = now or datetime.now(UTC)
    kit: Kit | None = None
    for check in kit_checks(directory, moment):
        yield check
        if check.status is Status.FAIL:
            break
    else:
        kit = Kit.load(directory, now=moment)
    if kit is not None and kit.role is Role.PARTY:
        yield Check("consent", Status.OK, _CONSENT)
        yield from _network_checks(kit, timeout_s=timeout_s, now=moment)
    if data is not None:
        yield from data_checks(data, kit, run)


def kit_checks(directory: Path, now: datetime) -> Iterator[Check]:
    """The checks of a kit: its files, the clock by its certificates, its certificate, roster and key."""
    yield _files_check(directory)
    yield _clock_check(directory, now)
    yield _attempt(
        "certificate",
        lambda: _certificate_finding(directory, now),
        cure="ask the operator of the federation for a kit with a certificate of this authority",
    )
    yield _attempt(
        "roster",
        lambda: _roster_finding(directory, now),
        cure="get roster.json and roster.sig from the operator again",
    )
    yield _attempt(
        "key",
        lambda: _key_finding(directory, now),
        cure="use the files of one kit, as the operator handed them out",
    )


def _attempt(name: str, look: Callable[[], Check | str], *, cure: str) -> Check:
    """The check that `look` returns, or a failed check if it raises."""
    try:
        found = look()
    except FenchelError as error:
        return Check(name, Status.FAIL, str(error), cure)
    return found if isinstance(found, Check) else Check(name, Status.OK, found)


def _files_check(directory: Path) -> Check:
    cure = "copy the whole kit to this machine again; a key that this party made itself goes into it as key.pem"
    missing = [name for name in KIT_FILES if not (directory / name).is_file()]
    if missing:
        return Check("kit", Status.FAIL, f"{directory} lacks {', '.join(missing)}", cure)

    def look() -> str:
        settings = read_settings(directory)
        read_key(directory)
        return (
            f"the kit of {settings.role.value} {settings.name!r} is complete, and its key is readable by its owner only"
        )

    return _attempt("kit", look, cure=cure)


def _clock_check(directory: Path, now: datetime) -> Check:
    def look() -> Check | str:
        says = f"this machine's clock says {now:%Y-%m-%d %H:%M} UTC"
        # The authority is the oldest thing in a kit: no correct clock shows a time before it.
        for file_name in (AUTHORITY_FILE, CERTIFICATE_FILE):
            certificate = read_certificate(directory, file_name)
            if now < certificate.not_before:
                made = f"{file_name} is valid from {certificate.not_before:%Y-%m-%d %H:%M} UTC on"
                return Check("clock", Status.FAIL, f"{says}, but {made}", "set the clock, best by NTP")
        return f"{says}, which the certificates allow"

    return _attempt("clock", look, cure="get the kit from the operator again")


def _certificate_finding(directory: Path, now: datetime) -> Check | str:
    settings = read_settings(directory)
    authority = read_certificate(directory, AUTHORITY_FILE)
    certificate = read_certificate(directory, CERTIFICATE_FILE)
    certificate.verify(authority, role=settings.role, now=now)
    days = int(min(certificate.days_left(now), authority.days_left(now)))
    finding = f"the certificate of {settings.name!r} is from the federation's authority and expires in {days} days"
    if days < WARN_DAYS_LEFT:
        cure = f"ask the operator to run `fenchel provision --renew-within {WARN_DAYS_LEFT}` and to send the new kit"
        return Check("certificate", Status.WARN, finding, cure)
    return finding


def _roster_finding(directory: Path, now: datetime) -> Check:
    roster = read_roster(directory, read_certificate(directory, AUTHORITY_FILE))
    roster.check_time(now)
    model = "each run's model goes to the server too" if roster.release_model_to_server else "models stay with parties"
    days = int(roster.days_left(now))
    finding = (
        f"the roster of federation {roster.federation!r} is signed by its authority: {len(roster.parties)} parties,"
        f" key holder {roster.key_holder.name!r}, blinding parties {', '.join(roster.blinders)}, {model}; it expires in"
        f" {days} days"
    )
    keys = {party.name: party.key_fingerprint or "none yet: it cannot connect" for party in roster.parties}
    facts = {
        "version": str(roster.version),
        "fingerprint": roster.fingerprint(),
        "not_after": roster.not_after.isoformat(),
        "authority": roster.authority_fingerprint,
        f"key of {roster.server_name}": roster.server_key_fingerprint,
        **{f"key of {name}": key for name, key in keys.items()},
    }
    if roster.keyless:
        cure = "the operator approves their requests (`fenchel cert approve`) and hands out the new roster"
        finding = f"{finding}; no run can start, because there is no key of {', '.join(roster.keyless)} yet"
        return Check("roster", Status.WARN, finding, cure, facts)
    if days < WARN_DAYS_LEFT:
        cure = f"ask the operator to run `fenchel provision --renew-within {WARN_DAYS_LEFT}` and to send the new roster"
        return Check("roster", Status.WARN, finding, cure, facts)
    return Check("roster", Status.OK, finding, facts=facts)


def _key_finding(directory: Path, now: datetime) -> str:
    kit = Kit.load(directory, now=now)
    return f"{KEY_FILE} belongs to the certificate, and is the key that the roster names for {kit.name!r}"


def _network_checks(kit: Kit, *, timeout_s: float, now: datetime) -> Iterator[Check]:
    address = kit.server_address
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except OSError as error:
        cure = f"check the name in kit.toml and this machine's name service (`getent hosts {address.host}`)"
        yield Check("address", Status.FAIL, f"{address.host!r} does not resolve: {error.strerror}", cure)
        return
    addresses = sorted({str(entry[4][0]) for entry in found})
    yield Check("address", Status.OK, f"{address.host!r} resolves to {', '.join(addresses)}")
    try:
        connection = socket.create_connection((address.host, address.port), timeout=timeout_s)
    except OSError as error:
        reason = f"no answer within {timeout_s:g} s" if isinstance(error, TimeoutError) else error.strerror
        cure = f"start the server there, or let a firewall pass outgoing TCP connections to port {address.port}"
        yield Check("connection", Status.FAIL, f"no connection to {address}: {reason}", cure)
        return
    with connection:
        yield Check("connection", Status.OK, f"{address} accepts connections")
        yield _tls_check(kit, connection, address, now)


def _tls_check(kit: Kit, connection: socket.socket, address: Address, now: datetime) -> Check:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=kit.authority_pem.decode())
    context.load_cert_chain(kit.directory / CERTIFICATE_FILE, kit.directory / KEY_FILE)
    context.set_alpn_protocols(["h2"])
    try:
        # As the client does: the server is identified by the key that the roster names, not by its address.
        with context.wrap_socket(connection, server_hostname=server_key_host(kit.roster.server_key_fingerprint)) as tls:
            version = tls.version()
            server = Certificate.from_der(tls.getpeercert(binary_form=True) or b"")
            server.verify(kit.authority, role=Role.SERVER, now=now)
            kit.roster.check_key(server)
            # In TLS 1.3 a server judges the client's certificate after the handshake has ended for the client:
            # only an answer to a first message shows that it was accepted.
            tls.sendall(_HTTP2_HELLO)
            answer = tls.recv(_HTTP2_FRAME_HEAD_BYTES)
    except ssl.SSLCertVerificationError as error:
        return Check("tls", Status.FAIL, f"the server's certificate: {error.verify_message}", _verify_cure(error))
    except FenchelError as error:
        return Check("tls", Status.FAIL, str(error), "check the address in kit.toml: no Fenchel server answers there")
    except OSError as error:
        reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
        return _refused_by_server(reason or "no answer in time")
    if not answer:
        return _refused_by_server("it closed the connection")
    if len(answer) < 4 or answer[3] != _HTTP2_SETTINGS:
        detail = f"{address} speaks TLS with this federation's certificate, but not gRPC"
        return Check("tls", Status.FAIL, detail, "check that nothing but the Fenchel server listens on that port")
    return Check("tls", Status.OK, f"{version}: server {server.common_name!r} and this party know each other")


def _refused_by_server(reason: str) -> Check:
    cure = "ask the operator whether the server has a kit of the same federation, and whether its clock is right"
    return Check("tls", Status.FAIL, f"the server refused this party's certificate, or TLS: {reason}", cure)


def _verify_cure(error: ssl.SSLCertVerificationError) -> str:
    message = error.verify_message.lower()
    if "not yet valid" in message:
        return "set this machine's clock: it is behind the moment at which the server's certificate was made"
    if "expired" in message:
        return "check this machine's clock; if it is right, the operator runs `fenchel provision` for the server's kit"
    if "hostname" in message:
        return (
            "the server has another key than this kit's roster names: put the kit of the last `fenchel provision` into"
            " place, here or at the server; check the address in kit.toml"
        )
    return "something else answers at that address, or the server has a kit of another federation"
