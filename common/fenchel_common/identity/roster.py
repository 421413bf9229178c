"""The roster: the parties and the server of a federation with their keys, signed by its authority.

Its fingerprint covers all of it: the parties and their agreements, the keys of the parties and of the server, the
authority, the version and the expiry. A certificate is accepted only while the roster in use names the certificate's
key for its owner.
"""

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from typing import Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from fenchel_common.errors import CertificateReplaced, InvalidInput, NotOnRoster, RosterExpired, RosterTampered
from fenchel_common.identity.certificates import Certificate, Role, days_until
from fenchel_common.ids import ClientId

ROSTER_FORMAT = 2
ROSTER_LABEL = b"fenchel/v1/roster\x00"
MAX_PARTIES = 1024
MAX_VERSION = 2**32 - 1
BLINDERS = 3
"""The number of blinding parties of a roster that marks none."""

# A name becomes a folder, a certificate's common name (64 characters at most) and part of a URI.
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9])?", re.ASCII)
_RESERVED_NAMES = frozenset({"ca"})
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")
_TIME = "%Y-%m-%dT%H:%M:%SZ"


def check_name(name: str, *, what: str) -> None:
    """Refuses a name that is unsafe as a folder or as a certificate's common name."""
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"{what} {name!r} is not usable as a name: take 1 to 63 letters, digits, '-' and '_' (ASCII),"
            " beginning and ending with a letter or digit"
        )
    if name.casefold() in _RESERVED_NAMES:
        raise InvalidInput(f"{what} {name!r} is reserved; choose another name")


@dataclass(frozen=True, slots=True)
class Party:
    """One organisation of the federation.

    `key_fingerprint` is that of the key in the party's certificate; None if the key is not approved yet or was revoked.
    A party without a key cannot connect, and no run can start. A `blinder` is a blinding party of the alignment.
    """

    name: ClientId
    key_holder: bool = False
    labels: bool = True
    key_fingerprint: str | None = None
    blinder: bool = False


@dataclass(frozen=True, slots=True)
class Roster:
    """The parties in their order, the server, the keys of all, and the agreements of the parties.

    `version` rises with every change. `not_after` is in UTC, in whole seconds.
    """

    federation: str
    authority_fingerprint: str
    version: int
    not_after: datetime
    server_name: str
    server_key_fingerprint: str
    parties: tuple[Party, ...]
    release_model_to_server: bool = False

    def __post_init__(self) -> None:
        check_members(self.federation, self.server_name, self.parties)
        keys = (party.key_fingerprint for party in self.parties if party.key_fingerprint is not None)
        for fingerprint in (self.authority_fingerprint, self.server_key_fingerprint, *keys):
            if not _FINGERPRINT.fullmatch(fingerprint):
                raise InvalidInput("a fingerprint in a roster is a SHA-256 in hexadecimal")
        if type(self.version) is not int or not 1 <= self.version <= MAX_VERSION:
            raise InvalidInput(f"the version of a roster is a number from 1 to {MAX_VERSION}")
        if self.not_after.tzinfo is not UTC or self.not_after.microsecond:
            raise InvalidInput("the expiry of a roster is a time in UTC, in whole seconds")

    @property
    def names(self) -> tuple[ClientId, ...]:
        return tuple(party.name for party in self.parties)

    @property
    def key_holder(self) -> Party:
        """The party that makes the key of each run: the first one marked as key holder."""
        return next(party for party in self.parties if party.key_holder)

    @property
    def blinders(self) -> tuple[ClientId, ...]:
        """The blinding parties: those marked so, or else the first `BLINDERS` parties."""
        return tuple(party.name for party in self.parties if party.blinder) or self.names[:BLINDERS]

    @property
    def keyless(self) -> tuple[ClientId, ...]:
        """The parties that cannot connect yet, because the roster names no key for them."""
        return tuple(party.name for party in self.parties if party.key_fingerprint is None)

    def party(self, name: str) -> Party:
        """The party of that name; raises `NotOnRoster` if there is none."""
        for party in self.parties:
            if party.name == name:
                return party
        raise NotOnRoster(
            f"party {name!r} is not on the roster of federation {self.federation!r} (version {self.version});"
            " the operator adds it to federation.toml and runs `fenchel provision` again"
        )

    def check_key(self, certificate: Certificate) -> None:
        """Refuses a certificate whose key is not the one that the roster names for its owner and role.

        Does not check who issued the certificate, or its time: call `Certificate.verify` as well.
        """
        name = certificate.common_name
        if certificate.role is Role.PARTY:
            due = self.party(name).key_fingerprint
        elif certificate.role is Role.SERVER and name == self.server_name:
            due = self.server_key_fingerprint
        else:
            raise NotOnRoster(
                f"the roster (version {self.version}) names {self.server_name!r} as the server, not {name!r}"
            )
        if due is None:
            raise CertificateReplaced(
                f"roster version {self.version} names no key for {name!r}: its request is not approved yet, or its key"
                " was revoked; the operator approves its request (`fenchel cert approve`) and hands out the new roster"
            )
        if certificate.key_fingerprint() != due:
            raise CertificateReplaced(
                f"the certificate of {name!r} was replaced: roster version {self.version} names the key {due[:16]}… for"
                f" it, and the certificate is for {certificate.key_fingerprint()[:16]}…; get the kit and the roster of"
                " the last `fenchel provision` from the operator"
            )

    def days_left(self, now: datetime | None = None) -> float:
        """Days until the roster expires; negative once it has expired."""
        return days_until(self.not_after, now)

    def check_time(self, now: datetime | None = None) -> None:
        """Refuses a roster that has expired."""
        moment = now or datetime.now(UTC)
        if moment > self.not_after:
            raise RosterExpired(
                f"roster version {self.version} expired on {self.not_after:%Y-%m-%d %H:%M} UTC (this machine's clock"
                f" says {moment:%Y-%m-%d %H:%M} UTC); the operator runs `fenchel provision` and hands out the new one"
            )

    def to_bytes(self) -> bytes:
        """The canonical JSON form: sorted keys, no spaces, ASCII, one way to write each roster."""
        content = {field.name: getattr(self, field.name) for field in fields(self)}
        content |= {"format": ROSTER_FORMAT, "not_after": self.not_after.strftime(_TIME)}
        # Rosters of before there were blinding parties mark none.
        content["parties"] = [
            {key: value for key, value in asdict(party).items() if key != "blinder" or value} for party in self.parties
        ]
        return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()

    def fingerprint(self) -> str:
        """SHA-256 of the canonical form, in hexadecimal; operators compare it by telephone."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    @classmethod
    def from_bytes(cls, encoded: bytes) -> Self:
        """Reads the canonical form and nothing else; the signature is checked by `verified`."""
        try:
            content = json.loads(encoded)
            if (found := content.pop("format")) != ROSTER_FORMAT:
                older = isinstance(found, int) and found < ROSTER_FORMAT
                cure = "get the kit of the last `fenchel provision` from the operator" if older else "upgrade Fenchel"
                raise RosterTampered(f"the roster has a format that this version does not read; {cure}")
            not_after = datetime.strptime(content.pop("not_after"), _TIME).replace(tzinfo=UTC)
            parties = tuple(Party(**entry) for entry in content.pop("parties"))
            roster = cls(parties=parties, not_after=not_after, **content)
            canonical = roster.to_bytes()
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, InvalidInput) as error:
            raise RosterTampered("the roster cannot be read; get roster.json from the operator again") from error
        if canonical != encoded:
            raise RosterTampered("the roster is not in canonical form; get roster.json from the operator again")
        return roster

    def sign(self, authority_key: ec.EllipticCurvePrivateKey) -> bytes:
        """The authority's signature, as one line of base64."""
        signature = authority_key.sign(ROSTER_LABEL + self.to_bytes(), ec.ECDSA(hashes.SHA256()))
        return base64.b64encode(signature) + b"\n"

    @classmethod
    def verified(cls, encoded: bytes, signature: bytes, authority: Certificate) -> Self:
        """The roster, if `authority` signed exactly these bytes and they name it; ignores the time."""
        try:
            raw = base64.b64decode(signature.strip(), validate=True)
            authority.public_key().verify(raw, ROSTER_LABEL + encoded, ec.ECDSA(hashes.SHA256()))
        except (binascii.Error, ValueError, InvalidSignature) as error:
            raise RosterTampered(
                "the roster does not carry the authority's signature: roster.json or roster.sig was altered or"
                " belongs to another federation; get both from the operator again"
            ) from error
        roster = cls.from_bytes(encoded)
        if roster.federation != authority.federation:
            raise RosterTampered(
                f"the roster is of federation {roster.federation!r}, the authority of {authority.federation!r}"
            )
        if roster.authority_fingerprint != authority.fingerprint():
            raise RosterTampered(
                f"the roster names the authority {roster.authority_fingerprint[:16]}…, but ca.pem is"
                f" {authority.fingerprint()[:16]}…; use the files of one kit"
            )
        return roster


def check_members(federation: str, server_name: str, parties: Sequence[Party]) -> None:
    """Refuses unusable names, two members of one name, too many parties, and a missing key holder."""
    check_name(federation, what="federation")
    check_name(server_name, what="server")
    if not 1 <= len(parties) <= MAX_PARTIES:
        raise InvalidInput(f"a roster names 1 to {MAX_PARTIES} parties, not {len(parties)}")
    taken = {server_name.casefold(): "the server"}
    for party in parties:
        check_name(party.name, what="party")
        # Compared without case, because a kit is a folder and some file systems do not tell A from a.
        if other := taken.get(party.name.casefold()):
            raise InvalidInput(f"party {party.name!r} has the same name as {other}; names must be unique")
        taken[party.name.casefold()] = f"party {party.name!r}"
    if not any(party.key_holder for party in parties):
        raise InvalidInput("no party is the key holder; set `key_holder = true` on one party")
    if len(parties) > 1 and sum(party.blinder for party in parties) == 1:
        raise InvalidInput("one blinding party alone could test ids; set `blinder = true` on another one, or on none")
