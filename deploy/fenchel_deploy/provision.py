"""Provisioning: from `federation.toml` to an authority, a signed roster, and one kit per party and for the server.

    OUT/ca/        the authority: ca.pem, key.pem (0600), roster.json, the newest roster, and federation.json, the
                   settings of the last run
    OUT/NAME/      one kit each

Running it again never makes a second authority. It makes the kits of new parties. It issues a new certificate for a
new key if the old certificate expires, does not fit federation.toml any more, or is to be replaced; whoever has the new
roster refuses the old certificate. A party that makes its own key keeps the key until a request with another one is
approved. The signed roster goes into every kit, with the next version if anything in it has changed.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from pydantic import ValidationError

from fenchel_common.errors import InvalidInput, KeyMismatch
from fenchel_common.identity.certificates import Certificate, Role, server_key_host
from fenchel_common.identity.kit import (
    AUTHORITY_FILE,
    CERTIFICATE_FILE,
    KEY_FILE,
    SETTINGS_FILE,
    KitSettings,
    parse_key,
    read_certificate,
    read_key,
)
from fenchel_common.identity.roster import Roster
from fenchel_deploy.authority import Authority, general_name, key_to_pem, make_key, write_atomic
from fenchel_deploy.federation_file import Federation
from fenchel_deploy.rosters import hand_out, newest_roster, next_roster

AUTHORITY_DIRECTORY = "ca"
SAVED_SETTINGS_FILE = "federation.json"


class KitState(Enum):
    """What a run of provisioning did with one kit."""

    MADE = "made"
    KEPT = "kept"
    RENEWED = "renewed"
    """The kit has a new certificate, and a new key if the operator makes the key."""
    WAITING = "waiting"
    """The party makes its own key, and none of its requests is approved: the roster names no key for it."""


@dataclass(frozen=True, slots=True)
class KitReport:
    """One kit as provisioning left it."""

    name: str
    role: Role
    directory: Path
    state: KitState
    certificate: Certificate | None


@dataclass(frozen=True, slots=True)
class Provisioned:
    """The outcome of one run of provisioning."""

    federation: str
    authority_fingerprint: str
    authority_made: bool
    roster: Roster
    roster_made: bool
    """Whether the roster has a new version, which everybody needs."""
    kits: tuple[KitReport, ...]
    removed: tuple[str, ...]
    """Parties that only the previous roster names: whoever has the new roster refuses them."""


@dataclass(frozen=True, slots=True)
class Member:
    """The server or a party, as federation.toml describes it."""

    name: str
    role: Role
    hosts: tuple[str, ...]
    own_key: bool


def provision(
    federation: Federation,
    out: Path,
    *,
    renew_within_days: int = 0,
    replace: Collection[str] = (),
    now: datetime | None = None,
) -> Provisioned:
    """Brings the folder `out` in line with `federation`; safe to run again, also after an interruption.

    The members named in `replace` get a new key and certificate; whoever has the new roster refuses the old ones. A
    party that makes its own key has no certificate until a new request is approved.
    """
    moment = now or datetime.now(UTC)
    ca = out / AUTHORITY_DIRECTORY
    everyone = tuple(members(federation))
    if unknown := sorted(set(replace) - {member.name for member in everyone}):
        raise InvalidInput(f"{unknown[0]!r} is neither a party of federation.toml nor its server; nothing is replaced")
    authority_made = not (ca / AUTHORITY_FILE).exists()
    authority = Authority.open_or_make(
        ca, federation=federation.name, skew=timedelta(minutes=federation.clock_skew_minutes), now=moment
    )
    named = [entry.name for entry in saved_federation(out).party] if (ca / SAVED_SETTINGS_FILE).exists() else []
    before = newest_roster(ca)
    issuer = KitIssuer(authority, federation, out, moment)
    kits = tuple(
        issuer.settle(member, renew_within_days=renew_within_days, replace=member.name in replace)
        for member in everyone
    )
    keys = {kit.name: kit.certificate.key_fingerprint() for kit in kits if kit.certificate is not None}
    roster = next_roster(federation, authority, keys, before=before, renew_within_days=renew_within_days, now=moment)
    hand_out(roster, authority, ca=ca, kits=[kit.directory for kit in kits if kit.certificate is not None])
    write_atomic(ca / SAVED_SETTINGS_FILE, federation.model_dump_json(indent=2).encode() + b"\n")
    return Provisioned(
        federation=federation.name,
        authority_fingerprint=authority.certificate.fingerprint(),
        authority_made=authority_made,
        roster=roster,
        roster_made=roster != before,
        kits=kits,
        removed=tuple(name for name in named if name not in roster.names),
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
        raise InvalidInput(f"{out} has no provisioned federation; run `fenchel provision` first") from error
    except (ValidationError, OSError) as error:
        raise InvalidInput(f"{path} is damaged; remove it and run `fenchel provision` again") from error


@dataclass(frozen=True, slots=True)
class KitIssuer:
    """Makes, keeps and renews the kits of one federation in one folder."""

    authority: Authority
    federation: Federation
    out: Path
    now: datetime

    def settle(self, member: Member, *, renew_within_days: int, replace: bool) -> KitReport:
        """Makes, keeps or renews the member's kit, so that it is valid and agrees with federation.toml."""
        directory = self.out / member.name
        old = self.certificate_of(member)
        if old is not None and not (replace or self._needs_renewal(old, member, renew_within_days)):
            self.write_frame(member)
            return KitReport(member.name, member.role, directory, KitState.KEPT, old)
        key_is_here = (directory / KEY_FILE).exists()
        if member.own_key and not key_is_here and (old is None or replace):
            (directory / CERTIFICATE_FILE).unlink(missing_ok=True)
            return KitReport(member.name, member.role, directory, KitState.WAITING, None)
        if replace or (old is not None and key_is_here):
            key = make_key()
            certificate = self.issue(member, key.public_key(), new_key=key)
        else:
            # If only the member has the key of the old certificate, the new certificate is for the same key.
            public_key = _key_for(directory).public_key() if old is None else old.public_key()
            certificate = self.issue(member, public_key)
        state = KitState.MADE if old is None else KitState.RENEWED
        return KitReport(member.name, member.role, directory, state, certificate)

    def issue(
        self,
        member: Member,
        public_key: ec.EllipticCurvePublicKey,
        *,
        new_key: ec.EllipticCurvePrivateKey | None = None,
    ) -> Certificate:
        """Issues a certificate for `public_key`, and writes the member's kit without a roster, and any `new_key`."""
        directory = self.out / member.name
        certificate = self.authority.issue(
            public_key,
            role=member.role,
            name=member.name,
            hosts=member.hosts,
            validity=timedelta(days=self.federation.validity_days),
            skew=timedelta(minutes=self.federation.clock_skew_minutes),
            now=self.now,
        )
        if new_key is not None:
            # After an interruption, the next run completes a key without a certificate, and refuses a certificate with
            # the key of another.
            (directory / CERTIFICATE_FILE).unlink(missing_ok=True)
            write_atomic(directory / KEY_FILE, key_to_pem(new_key), mode=0o600)
        write_atomic(directory / CERTIFICATE_FILE, certificate.pem())
        self.write_frame(member)
        return certificate

    def write_frame(self, member: Member) -> None:
        """Writes the parts of a kit that are the same for everyone: the authority and where the server is."""
        directory = self.out / member.name
        write_atomic(directory / AUTHORITY_FILE, self.authority.certificate.pem())
        listen = self.federation.listen if member.role is Role.SERVER else None
        settings = KitSettings(member.role, member.name, self.federation.address, listen)
        write_atomic(directory / SETTINGS_FILE, settings.to_text().encode())

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
        known_by = [server_key_host(certificate.key_fingerprint())] if member.role is Role.SERVER else []
        return due or _host_names(certificate) != set(map(general_name, [*member.hosts, *known_by]))


def _key_for(directory: Path) -> ec.EllipticCurvePrivateKey:
    """The key in a kit, made if there is none."""
    path = directory / KEY_FILE
    if not path.exists():
        write_atomic(path, key_to_pem(make_key()), mode=0o600)
    return parse_key(read_key(directory), path)


def _host_names(certificate: Certificate) -> set[x509.GeneralName]:
    names = certificate.parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {name for name in names if not isinstance(name, x509.UniformResourceIdentifier)}
