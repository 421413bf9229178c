"""Facts and verification of certificates."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fenchel_common.errors import CertificateNotValidNow, MalformedCertificate, WrongAuthority, WrongRole
from fenchel_common.identity import Certificate, Role
from fenchel_deploy.authority import Authority, make_key

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
SKEW = timedelta(minutes=10)
VALIDITY = timedelta(days=30)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.open_or_make(tmp_path / "ca", federation="test", skew=SKEW, now=NOW)


def issue(authority: Authority, role: Role = Role.PARTY, *, hosts: tuple[str, ...] = ()) -> Certificate:
    return authority.issue(
        make_key().public_key(), role=role, name="north", hosts=hosts, validity=VALIDITY, skew=SKEW, now=NOW
    )


def test_a_certificate_tells_name_role_federation_and_days_left(authority: Authority) -> None:
    certificate = issue(authority)
    assert (certificate.common_name, certificate.role, certificate.federation) == ("north", Role.PARTY, "test")
    assert certificate.days_left(NOW) == 30
    assert certificate.days_left(NOW + timedelta(days=31)) == -1
    assert certificate.not_before == NOW - SKEW


def test_pem_and_der_give_the_same_certificate(authority: Authority) -> None:
    certificate = issue(authority)
    assert Certificate.from_pem(certificate.pem()) == Certificate.from_der(certificate.der()) == certificate


def test_a_certificate_of_this_authority_is_accepted(authority: Authority) -> None:
    issue(authority).verify(authority.certificate, role=Role.PARTY, now=NOW)


def test_a_certificate_of_another_authority_of_the_same_name_is_refused(authority: Authority, tmp_path: Path) -> None:
    other = Authority.open_or_make(tmp_path / "other", federation="test", skew=SKEW, now=NOW)
    with pytest.raises(WrongAuthority, match="was not issued by the authority of federation 'test'"):
        issue(other).verify(authority.certificate, role=Role.PARTY, now=NOW)


def test_a_party_cannot_issue_certificates(authority: Authority, tmp_path: Path) -> None:
    key = make_key()
    party = authority.issue(key.public_key(), role=Role.PARTY, name="north", validity=VALIDITY, skew=SKEW, now=NOW)
    forged = Authority(certificate=party, key=key)
    with pytest.raises(WrongAuthority, match="not the certificate of an authority"):
        issue(forged).verify(party, role=Role.PARTY, now=NOW)


def test_an_expired_certificate_is_refused_with_its_date_and_the_clock(authority: Authority) -> None:
    with pytest.raises(CertificateNotValidNow, match=r"expired on 2026-03-31 .*clock says 2026-04-02"):
        issue(authority).verify(authority.certificate, role=Role.PARTY, now=NOW + timedelta(days=32))


def test_a_clock_that_is_behind_is_tolerated_up_to_the_skew(authority: Authority) -> None:
    certificate = issue(authority)
    certificate.verify(authority.certificate, role=Role.PARTY, now=NOW - SKEW)
    with pytest.raises(CertificateNotValidNow, match="set the clock"):
        certificate.verify(authority.certificate, role=Role.PARTY, now=NOW - SKEW - timedelta(seconds=1))


@pytest.mark.parametrize(("issued", "due"), [(Role.PARTY, Role.SERVER), (Role.SERVER, Role.PARTY)])
def test_a_certificate_of_another_role_is_refused(authority: Authority, issued: Role, due: Role) -> None:
    with pytest.raises(WrongRole, match=f"that of a {issued.value}, not of a {due.value}"):
        issue(authority, issued).verify(authority.certificate, role=due, now=NOW)


@pytest.mark.parametrize(
    ("role", "purposes"),
    [
        (Role.PARTY, [ExtendedKeyUsageOID.CLIENT_AUTH]),
        (Role.SERVER, [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
    ],
)
def test_tls_itself_keeps_parties_from_acting_as_the_server(
    authority: Authority, role: Role, purposes: list[x509.ObjectIdentifier]
) -> None:
    extensions = issue(authority, role).parsed.extensions
    assert list(extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == purposes
    assert not extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_a_certificate_never_outlives_its_authority(authority: Authority) -> None:
    late = authority.certificate.not_after - timedelta(days=3)
    certificate = authority.issue(
        make_key().public_key(), role=Role.PARTY, name="north", validity=VALIDITY, skew=SKEW, now=late
    )
    assert certificate.not_after == authority.certificate.not_after


@pytest.mark.parametrize("pem", [b"", b"nonsense", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_what_is_not_a_certificate_is_refused(pem: bytes) -> None:
    with pytest.raises(MalformedCertificate):
        Certificate.from_pem(pem)


def test_two_certificates_in_one_file_are_refused(authority: Authority) -> None:
    with pytest.raises(MalformedCertificate, match="there are 2"):
        Certificate.from_pem(issue(authority).pem() * 2)


def test_an_oversized_certificate_is_refused() -> None:
    with pytest.raises(MalformedCertificate, match="at most"):
        Certificate.from_der(b"\x30" * 20_000)


def foreign(*, role: str | None = "party", names: int = 1, rsa_key: bool = False) -> bytes:
    """A certificate that some other program made."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048) if rsa_key else make_key()
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "test")]
    attributes += [x509.NameAttribute(NameOID.COMMON_NAME, f"north{index}") for index in range(names)]
    if role is not None:
        attributes.append(x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, role))
    built = (
        x509.CertificateBuilder()
        .subject_name(x509.Name(attributes))
        .issuer_name(x509.Name(attributes))
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(NOW)
        .not_valid_after(NOW + VALIDITY)
        .sign(key, hashes.SHA256())
    )
    return built.public_bytes(serialization.Encoding.DER)


@pytest.mark.parametrize(
    ("der", "complaint"),
    [
        (foreign(role=None), "role"),
        (foreign(role="janitor"), "none of: authority, server, party"),
        (foreign(names=2), "exactly one name"),
        (foreign(names=0), "exactly one name"),
        (foreign(rsa_key=True), "not a P-256 key"),
    ],
)
def test_a_certificate_of_another_make_is_refused(der: bytes, complaint: str) -> None:
    with pytest.raises(MalformedCertificate, match=complaint):
        Certificate.from_der(der)
