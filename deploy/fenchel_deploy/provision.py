"""Provisioning: from `federation.toml` to an authority, a signed roster, and one kit per party and for the server.

    OUT/ca/        the authority: ca.pem, key.pem (0600), and federation.json, the settings of the last run
    OUT/NAME/      one kit each

Running it again never makes a second authority and never changes a key. It makes the kits of new parties, issues
a certificate anew (for the same key) where the old one expires or does not fit federation.toml any more, and
rewrites the signed roster in every kit.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from pydantic import ValidationError

from fenchel_common.errors import InvalidInput, KeyMismatch
from fenchel_common.identity.certificates import Certificate, Role
from fenchel_common.identity.kit import (
    AUTHORITY_FILE,
    CERTIFICATE_FILE,
    KEY_FILE,
    ROSTER_FILE,
    SETTINGS_FILE,
    SIGNATURE_FILE,
    parse_key,
    read_certificate,
    read_key,
    settings_text,
)
from fenchel_common.identity.roster import Roster
from fenchel_deploy.authority import Authority, general_name, key_to_pem, make_key, write_atomic
from fenchel_deploy.federation_file import Federation

AUTHORITY_DIRECTORY = "ca"
SAVED_SETTINGS_FILE = "federation.json"


class KitState(Enum):
    """What a run of provisioning did with one kit."""

    MADE = "made"
    KEPT = "kept"
    RENEWED = "renewed"
    WAITING = "waiting"
    """The party makes its own key, and its request is not approved yet."""


@dataclass(frozen=True, slots=True)
class KitReport:
    """One kit as provisioning left it."""

    name: str
    role: Role
    directory: Path
    state: KitState
    not_after: datetime | None


@dataclass(frozen=True, slots=True)
class Provisioned:
    """The outcome of one run of provisioning."""

    federation: str
    authority_fingerprint: str
    authority_made: bool
    roster_fingerprint: str
    release_model_to_server: bool
    """Whether the roster lets the server have the model at the end of a run."""
    kits: tuple[KitReport, ...]
    removed: tuple[str, ...]
    """Parties of the roster before that the new one does not name: the server refuses them from now on."""


@dataclass(frozen=True, slots=True)
class Member:
    """One holder of a kit, as federation.toml describes it."""

    name: str
    role: Role
    hosts: tuple[str, ...]
    own_key: bool


def provision(
    federation: Federation, out: Path, *, renew_within_days: int = 0, now: datetime | None = None
) -> Provisioned:
    """Brings the folder `out` in line with `federation`; safe to run again, also after an interruption."""
    moment = now or datetime.now(UTC)
    roster = federation.roster()
    ca = out / AUTHORITY_DIRECTORY
    authority_made = not (ca / AUTHORITY_FILE).exists()
    authority = Authority.open_or_make(
        ca, federation=federation.name, skew=timedelta(minutes=federation.clock_skew_minutes), now=moment
    )
    before = saved_federation(out).roster().names if (ca / SAVED_SETTINGS_FILE).exists() else ()
    issuer = KitIssuer(authority, federation, out, moment)
    kits = tuple(issuer.settle(member, renew_within_days=renew_within_days) for member in members(federation))
    signature = roster.sign(authority.key)
    for kit in kits:
        if kit.state is not KitState.WAITING:
            write_roster(kit.directory, roster, signature)
    write_atomic(ca / SAVED_SETTINGS_FILE, federation.model_dump_json(indent=2).encode() + b"\n")
    return Provisioned(
        federation=federation.name,
        authority_fingerprint=authority.certificate.fingerprint(),
        authority_made=authority_made,
        roster_fingerprint=roster.fingerprint(),
        release_model_to_server=roster.release_model_to_server,
        kits=kits,
        removed=tuple(name for name in before if name not in roster.names),
    )


def members(federation: Federation) -> Iterator[Member]:
    """The server and every party."""
    yield Member(name=federation.server.name, role=Role.SERVER, hosts=federation.server_hosts(), own_key=False)
    for entry in federation.party:
        yield Member(name=entry.name, role=Role.PARTY, hosts=(), own_key=entry.own_key)


def saved_federation(out: Path) -> Federation:
    """The settings with which `out` was provisioned last."""
    path = out / AUTHORITY_DIRECTORY / SAVED_SETTINGS_FILE
    try:
        return Federation.model_validate_json(path.read_bytes())
    except FileNotFoundError as error:
        raise InvalidInput(f"{out} holds no provisioned federation; run `fenchel provision` first") from error
    except (ValidationError, OSError) as error:
        raise InvalidInput(f"{path} is damaged; remove it and run `fenchel provision` again") from error


def write_roster(directory: Path, roster: Roster, signature: bytes) -> None:
    """Puts the signed roster into a kit."""
    write_atomic(directory / ROSTER_FILE, roster.to_bytes())
    write_atomic(directory / SIGNATURE_FILE, signature)


@dataclass(frozen=True, slots=True)
class KitIssuer:
    """Makes, keeps and renews the kits of one federation in one folder."""

    authority: Authority
    federation: Federation
    out: Path
    now: datetime

    def settle(self, member: Member, *, renew_within_days: int) -> KitReport:
        """Leaves the member with a kit that is valid and says what federation.toml says."""
        directory = self.out / member.name
        old = self.certificate_of(member)
        if old is None and member.own_key:
            return KitReport(member.name, member.role, directory, KitState.WAITING, None)
        if old is not None and not self._needs_renewal(old, member, renew_within_days):
            self.write_frame(member)
            return KitReport(member.name, member.role, directory, KitState.KEPT, old.not_after)
        public_key = old.public_key() if old is not None else _key_for(directory).public_key()
        certificate = self.issue(member, public_key)
        state = KitState.MADE if old is None else KitState.RENEWED
        return KitReport(member.name, member.role, directory, state, certificate.not_after)

    def issue(self, member: Member, public_key: ec.EllipticCurvePublicKey) -> Certificate:
        """Writes a new certificate for the member, and all of its kit but key and roster."""
        certificate = self.authority.issue(
            public_key,
            role=member.role,
            name=member.name,
            hosts=member.hosts,
            validity=timedelta(days=self.federation.validity_days),
            skew=timedelta(minutes=self.federation.clock_skew_minutes),
            now=self.now,
        )
        write_atomic(self.out / member.name / CERTIFICATE_FILE, certificate.pem())
        self.write_frame(member)
        return certificate

    def write_frame(self, member: Member) -> None:
        """Writes the parts of a kit that are the same for everyone: the authority and where the server is."""
        directory = self.out / member.name
        write_atomic(directory / AUTHORITY_FILE, self.authority.certificate.pem())
        settings = settings_text(member.role, member.name, self.federation.address)
        write_atomic(directory / SETTINGS_FILE, settings.encode())

    def certificate_of(self, member: Member) -> Certificate | None:
        """The member's certificate, if it has one; refused if it is not from this authority or not for its key."""
        directory = self.out / member.name
        if not (directory / CERTIFICATE_FILE).exists():
            return None
        certificate = read_certificate(directory, CERTIFICATE_FILE)
        certificate.verify_issuer(self.authority.certificate, role=member.role)
        if certificate.common_name != member.name:
            raise InvalidInput(
                f"{directory / CERTIFICATE_FILE} is the certificate of {certificate.common_name!r};"
                " move that folder away"
            )
        if (directory / KEY_FILE).exists() and _key_for(directory).public_key() != certificate.public_key():
            raise KeyMismatch(f"{directory / KEY_FILE} is not the key of {CERTIFICATE_FILE} beside it")
        return certificate

    def _needs_renewal(self, certificate: Certificate, member: Member, within_days: int) -> bool:
        due = certificate.days_left(self.now) <= within_days
        return due or _host_names(certificate) != {general_name(host) for host in member.hosts}


def _key_for(directory: Path) -> ec.EllipticCurvePrivateKey:
    """The key in a kit, made if there is none."""
    path = directory / KEY_FILE
    if not path.exists():
        write_atomic(path, key_to_pem(make_key()), mode=0o600)
    return parse_key(read_key(directory), path)


def _host_names(certificate: Certificate) -> set[x509.GeneralName]:
    names = certificate.parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {name for name in names if not isinstance(name, x509.UniformResourceIdentifier)}
