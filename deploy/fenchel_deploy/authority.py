"""The federation's certificate authority: made once, kept in one folder, the root of all trust.

Whoever has its key can add a party. It belongs on the operator's machine, never on the server.
"""

import ipaddress
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fenchel_common.errors import InvalidInput, KeyMismatch
from fenchel_common.identity.certificates import Certificate, Role, key_fingerprint, server_key_host
from fenchel_common.identity.kit import AUTHORITY_FILE, KEY_FILE, parse_key, read_certificate, read_key

AUTHORITY_VALIDITY = timedelta(days=3650)


@dataclass(frozen=True, slots=True)
class Authority:
    """The authority's certificate and key."""

    certificate: Certificate
    key: ec.EllipticCurvePrivateKey = field(repr=False)

    @classmethod
    def open_or_make(cls, directory: Path, *, federation: str, skew: timedelta, now: datetime | None = None) -> Self:
        """The authority kept in `directory`; a new one is made only if there is no certificate of one."""
        has_key, has_certificate = (directory / KEY_FILE).exists(), (directory / AUTHORITY_FILE).exists()
        if has_certificate:
            return cls.open(directory, federation=federation)
        if not has_key:
            write_atomic(directory / KEY_FILE, key_to_pem(make_key()), mode=0o600)
        # A key without its certificate is what an interrupted first run leaves: it is the authority's key.
        key = parse_key(read_key(directory), directory / KEY_FILE)
        certificate = _self_signed(key, federation=federation, skew=skew, now=now or datetime.now(UTC))
        write_atomic(directory / AUTHORITY_FILE, certificate.pem())
        return cls(certificate=certificate, key=key)

    @classmethod
    def open(cls, directory: Path, *, federation: str | None = None) -> Self:
        """The authority kept in `directory`; refused if it is another federation's or lacks its key."""
        if not (directory / AUTHORITY_FILE).exists():
            raise InvalidInput(f"there is no authority in {directory}; run `fenchel provision` first")
        certificate = read_certificate(directory, AUTHORITY_FILE)
        if federation is not None and certificate.federation != federation:
            raise InvalidInput(
                f"{directory} has the authority of federation {certificate.federation!r}, not of {federation!r};"
                " choose another folder, or keep the name (it cannot be changed later)"
            )
        if not (directory / KEY_FILE).exists():
            raise InvalidInput(
                f"the authority's key is not in {directory}; put {KEY_FILE} back for this command"
                " (a second authority is never made, since no existing kit would trust it)"
            )
        key = parse_key(read_key(directory), directory / KEY_FILE)
        if key.public_key() != certificate.public_key():
            raise KeyMismatch(f"{directory / KEY_FILE} is not the key of {AUTHORITY_FILE} beside it")
        return cls(certificate=certificate, key=key)

    def issue(
        self,
        public_key: ec.EllipticCurvePublicKey,
        *,
        role: Role,
        name: str,
        hosts: Sequence[str] = (),
        validity: timedelta,
        skew: timedelta,
        now: datetime | None = None,
    ) -> Certificate:
        """A certificate for one party or for the server; it expires no later than the authority's own."""
        moment = now or datetime.now(UTC)
        federation = self.certificate.federation
        end = min(moment + validity, self.certificate.not_after)
        if end <= moment:
            raise InvalidInput(
                f"the authority of federation {federation!r} expired on {self.certificate.not_after:%Y-%m-%d};"
                " provision a new federation in another folder and hand out its kits"
            )
        # The server is also a client of its own health service; its role keeps it out of every other call.
        server_too = [ExtendedKeyUsageOID.SERVER_AUTH] if role is Role.SERVER else []
        identity = x509.UniformResourceIdentifier(f"urn:fenchel:{federation}:{role.value}:{name}")
        # Clients check this name, which is made of the server's key.
        known_by = [server_key_host(key_fingerprint(public_key))] if role is Role.SERVER else []
        builder = (
            _builder(public_key, subject=_subject(federation, role, name), start=moment - skew, end=end)
            .issuer_name(self.certificate.parsed.subject)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(key_agreement=True), critical=True)
            .add_extension(x509.ExtendedKeyUsage([*server_too, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
            .add_extension(
                x509.SubjectAlternativeName([identity, *map(general_name, [*hosts, *known_by])]), critical=False
            )
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
        )
        return Certificate.from_der(_sign(builder, self.key))


def make_key() -> ec.EllipticCurvePrivateKey:
    """A new P-256 key from the operating system's randomness."""
    return ec.generate_private_key(ec.SECP256R1())


def key_to_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """The unencrypted PEM form of a private key; the caller writes it with mode 0600."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def general_name(host: str) -> x509.GeneralName:
    """A host in a certificate: an IP address if it is one, else a DNS name."""
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def write_atomic(path: Path, content: bytes, *, mode: int = 0o644) -> None:
    """Writes a file that is, at any instant, either the old one or the whole new one."""
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # The mode is given at creation: a key must not be readable by others even for an instant.
        descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            scratch.replace(path)
        finally:
            scratch.unlink(missing_ok=True)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}; free it, or choose another folder") from error


def _self_signed(key: ec.EllipticCurvePrivateKey, *, federation: str, skew: timedelta, now: datetime) -> Certificate:
    subject = _subject(federation, Role.AUTHORITY, federation)
    builder = (
        _builder(key.public_key(), subject=subject, start=now - skew, end=now + AUTHORITY_VALIDITY)
        .issuer_name(subject)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(sign_certificates=True), critical=True)
    )
    return Certificate.from_der(_sign(builder, key))


def _builder(
    public_key: ec.EllipticCurvePublicKey, *, subject: x509.Name, start: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _sign(builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey) -> bytes:
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


def _subject(federation: str, role: Role, name: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, federation),
            x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, role.value),
            x509.NameAttribute(NameOID.COMMON_NAME, name),
        ]
    )


def _key_usage(*, key_agreement: bool = False, sign_certificates: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=key_agreement,
        key_cert_sign=sign_certificates,
        crl_sign=sign_certificates,
        encipher_only=False,
        decipher_only=False,
    )
