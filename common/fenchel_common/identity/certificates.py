"""X.509 certificates: their fields, and the check that the federation's authority issued them."""

import hashlib
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Self

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID, ObjectIdentifier

from fenchel_common.errors import CertificateNotValidNow, MalformedCertificate, WrongAuthority, WrongRole

MAX_CERTIFICATE_BYTES = 16 * 1024


class Role(Enum):
    """The role in which the owner of a certificate may act; recorded as the subject's organisational unit."""

    AUTHORITY = "authority"
    SERVER = "server"
    PARTY = "party"


def days_until(end: datetime, now: datetime | None = None) -> float:
    """Days from `now` to `end`; negative once `end` has passed."""
    return (end - (now or datetime.now(UTC))).total_seconds() / 86_400


@dataclass(frozen=True, slots=True)
class Certificate:
    """The facts of one X.509 certificate with a P-256 key.

    Parsing establishes nothing about trust: call `verify` before believing any field.
    """

    common_name: str
    role: Role
    federation: str
    not_before: datetime
    not_after: datetime
    parsed: x509.Certificate = field(repr=False)

    @classmethod
    def from_pem(cls, pem: bytes) -> Self:
        """Reads exactly one PEM certificate."""
        _check_size(pem)
        try:
            found = x509.load_pem_x509_certificates(pem)
        except (ValueError, x509.InvalidVersion) as error:
            raise MalformedCertificate("not a PEM certificate") from error
        if len(found) != 1:
            raise MalformedCertificate(f"one certificate is due, but there are {len(found)}")
        return cls._from_x509(found[0])

    @classmethod
    def from_der(cls, der: bytes) -> Self:
        """Reads one DER certificate."""
        _check_size(der)
        try:
            found = x509.load_der_x509_certificate(der)
        except (ValueError, x509.InvalidVersion) as error:
            raise MalformedCertificate("not a DER certificate") from error
        return cls._from_x509(found)

    @classmethod
    def _from_x509(cls, certificate: x509.Certificate) -> Self:
        try:
            role = Role(_subject_field(certificate, NameOID.ORGANIZATIONAL_UNIT_NAME, "role (OU)"))
        except ValueError as error:
            known = ", ".join(role.value for role in Role)
            raise MalformedCertificate(f"the certificate's role (OU) is none of: {known}") from error
        facts = cls(
            common_name=_subject_field(certificate, NameOID.COMMON_NAME, "name (CN)"),
            role=role,
            federation=_subject_field(certificate, NameOID.ORGANIZATION_NAME, "federation (O)"),
            not_before=certificate.not_valid_before_utc,
            not_after=certificate.not_valid_after_utc,
            parsed=certificate,
        )
        facts.public_key()
        return facts

    def public_key(self) -> ec.EllipticCurvePublicKey:
        """The P-256 public key of the certificate."""
        try:
            key = self.parsed.public_key()
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise MalformedCertificate("the certificate's public key cannot be read") from error
        if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
            raise MalformedCertificate("the certificate's key is not a P-256 key")
        return key

    def pem(self) -> bytes:
        return self.parsed.public_bytes(serialization.Encoding.PEM)

    def der(self) -> bytes:
        return self.parsed.public_bytes(serialization.Encoding.DER)

    def fingerprint(self) -> str:
        """SHA-256 of the DER form, in hexadecimal."""
        return self.parsed.fingerprint(hashes.SHA256()).hex()

    def key_fingerprint(self) -> str:
        """The fingerprint of the certificate's public key; a roster names keys by it."""
        return key_fingerprint(self.public_key())

    def days_left(self, now: datetime | None = None) -> float:
        """Days until the certificate expires; negative once it has expired."""
        return days_until(self.not_after, now)

    def check_time(self, now: datetime | None = None) -> None:
        """Refuses a certificate that is not valid at `now`."""
        moment = now or datetime.now(UTC)
        if moment > self.not_after:
            raise CertificateNotValidNow(
                f"the certificate of {self.common_name!r} expired on {self.not_after:%Y-%m-%d %H:%M} UTC"
                f" (this machine's clock says {moment:%Y-%m-%d %H:%M} UTC);"
                " ask the operator for a new one (`fenchel provision` renews it)"
            )
        if moment < self.not_before:
            raise CertificateNotValidNow(
                f"the certificate of {self.common_name!r} is valid from {self.not_before:%Y-%m-%d %H:%M} UTC on,"
                f" but this machine's clock says {moment:%Y-%m-%d %H:%M} UTC; set the clock"
            )

    def verify_issuer(self, authority: "Certificate", *, role: Role) -> None:
        """Refuses a certificate that `authority` did not issue, or issued for another role; ignores the time.

        `authority` itself is taken on trust: it must come from the verifier's own kit.
        """
        if authority.role is not Role.AUTHORITY or not _may_sign(authority.parsed):
            raise WrongAuthority(f"the certificate of {authority.common_name!r} is not the certificate of an authority")
        try:
            self.parsed.verify_directly_issued_by(authority.parsed)
        except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm) as error:
            raise WrongAuthority(
                f"the certificate of {self.common_name!r} was not issued by the authority of federation"
                f" {authority.federation!r} (fingerprint {authority.fingerprint()[:16]}…);"
                " use the files of this federation's kit"
            ) from error
        if self.role is not role:
            raise WrongRole(
                f"the certificate of {self.common_name!r} is that of a {self.role.value}, not of a {role.value}"
            )

    def verify(self, authority: "Certificate", *, role: Role, now: datetime | None = None) -> None:
        """Refuses a certificate that `authority` did not issue, that has another role, or that is not valid now."""
        self.verify_issuer(authority, role=role)
        authority.check_time(now)
        self.check_time(now)


def key_fingerprint(public_key: ec.EllipticCurvePublicKey) -> str:
    """SHA-256 of a public key's SubjectPublicKeyInfo, in hexadecimal; a roster names keys by it."""
    der = public_key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(der).hexdigest()


def server_key_host(fingerprint: str) -> str:
    """The host name in a server's certificate that stands for its key; a client tells TLS to require this name.

    The authority writes the name of a key into certificates for that key alone. So the ordinary check of the host
    name refuses every certificate for another key than the one in the client's roster. No real host can have a name
    under `.invalid`.
    """
    half = len(fingerprint) // 2  # a label of a host name has at most 63 characters
    return f"{fingerprint[:half]}.{fingerprint[half:]}.key.fenchel.invalid"


def _check_size(encoded: bytes) -> None:
    if len(encoded) > MAX_CERTIFICATE_BYTES:
        raise MalformedCertificate(
            f"a certificate of {len(encoded)} bytes; at most {MAX_CERTIFICATE_BYTES} are accepted"
        )


def _subject_field(certificate: x509.Certificate, oid: ObjectIdentifier, label: str) -> str:
    try:
        attributes = certificate.subject.get_attributes_for_oid(oid)
    except (ValueError, TypeError) as error:
        raise MalformedCertificate("the certificate's subject cannot be read") from error
    if len(attributes) != 1 or not isinstance(attributes[0].value, str):
        raise MalformedCertificate(f"the certificate's subject must have exactly one {label}")
    return attributes[0].value


def _may_sign(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (x509.ExtensionNotFound, ValueError, TypeError):
        return False
