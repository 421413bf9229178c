"""Certificate requests, for parties that make their own key.

The party makes its key and a request; the operator approves the request, which puts the key on the roster; the party
puts the approved kit beside its key. The private key never leaves the party.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from fenchel_common.errors import InvalidInput
from fenchel_common.identity.certificates import Certificate, key_fingerprint
from fenchel_common.identity.kit import KEY_FILE, parse_key, read_key
from fenchel_common.identity.roster import Roster, check_name
from fenchel_deploy.authority import Authority, key_to_pem, make_key, write_atomic
from fenchel_deploy.provision import (
    AUTHORITY_DIRECTORY,
    KitIssuer,
    Member,
    members,
    saved_federation,
)
from fenchel_deploy.rosters import hand_out, newest_roster, next_roster

REQUEST_FILE = "request.csr"
MAX_REQUEST_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Request:
    """A party's request for a certificate."""

    name: str
    path: Path
    key_fingerprint: str
    key_made: bool


@dataclass(frozen=True, slots=True)
class Approval:
    """A kit without a key, for the party that asked."""

    name: str
    directory: Path
    certificate: Certificate
    roster: Roster
    """The roster with the party's key; if its version is new, the server and every party need it."""


def request(name: str, directory: Path) -> Request:
    """Makes a key (0600) and a request in `directory`; a key that is there already is used again."""
    check_name(name, what="party")
    key_path = directory / KEY_FILE
    key_made = not key_path.exists()
    if key_made:
        write_atomic(key_path, key_to_pem(make_key()), mode=0o600)
    key = parse_key(read_key(directory), key_path)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    signed = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    path = directory / REQUEST_FILE
    write_atomic(path, signed.public_bytes(serialization.Encoding.PEM))
    return Request(name=name, path=path, key_fingerprint=key_fingerprint(key.public_key()), key_made=key_made)


def approve(
    request_path: Path, *, party: str, out: Path, replace: bool = False, now: datetime | None = None
) -> Approval:
    """Issues a certificate for a request, as the party that the operator says has sent it.

    Nothing of the request but its public key enters the certificate. The operator must know by other means that
    the request came from `party`: comparing the key's fingerprint by telephone is enough. On the
    roster the key replaces the party's earlier one.
    """
    moment = now or datetime.now(UTC)
    federation = saved_federation(out)
    ca = out / AUTHORITY_DIRECTORY
    authority = Authority.open(ca, federation=federation.name)
    before = newest_roster(ca)
    if before is None:
        raise InvalidInput(f"there is no roster in {ca}; run `fenchel provision` first")
    before.party(party)
    public_key = _requested_key(request_path, party=party)
    everyone = tuple(members(federation))
    member = next(member for member in everyone if member.name == party)
    issuer = KitIssuer(authority, federation, out, moment)
    _refuse_to_displace(issuer, member, public_key, replace=replace)
    certificate = issuer.issue(member, public_key)
    certificates = {member.name: issuer.certificate_of(member) for member in everyone}
    keys = {name: found.key_fingerprint() for name, found in certificates.items() if found is not None}
    roster = next_roster(federation, authority, keys, before=before, renew_within_days=0, now=moment)
    hand_out(roster, authority, ca=ca, kits=[out / name for name in keys])
    return Approval(name=party, directory=out / party, certificate=certificate, roster=roster)


def _requested_key(path: Path, *, party: str) -> ec.EllipticCurvePublicKey:
    try:
        with path.open("rb") as file:
            parsed = x509.load_pem_x509_csr(file.read(MAX_REQUEST_BYTES))
        names = [attribute.value for attribute in parsed.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
        genuine = parsed.is_signature_valid
        key = parsed.public_key()
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise InvalidInput(f"{path} is not a PEM certificate request; make one with `fenchel cert request`") from error
    if not genuine:
        raise InvalidInput(f"{path} was altered: its own signature is not valid; ask the party for it again")
    if names != [party]:
        raise InvalidInput(f"{path} asks for {', '.join(map(repr, names)) or 'no name'}, not for {party!r}")
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise InvalidInput(f"{path} is for a key that is not P-256; make one with `fenchel cert request`")
    return key


def _refuse_to_displace(
    issuer: KitIssuer, member: Member, public_key: ec.EllipticCurvePublicKey, *, replace: bool
) -> None:
    """Raises `InvalidInput` if the party has another key, unless `replace` is set and the other key is not in `out`."""
    if (issuer.out / member.name / KEY_FILE).exists():
        raise InvalidInput(
            f"{issuer.out / member.name} has a key that was made for {member.name!r};"
            " move that folder away and set `own_key = true` for the party in federation.toml"
        )
    old = issuer.certificate_of(member)
    if old is not None and old.public_key() != public_key and not replace:
        raise InvalidInput(
            f"{member.name!r} already has a certificate for another key (valid until {old.not_after:%Y-%m-%d});"
            " pass --replace to put the new key on the roster instead"
        )
