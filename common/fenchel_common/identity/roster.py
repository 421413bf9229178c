"""The roster: who takes part in a federation, signed by its authority."""

import base64
import binascii
import hashlib
import json
import re
from dataclasses import asdict, dataclass
from typing import Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from fenchel_common.errors import InvalidInput, NotOnRoster, RosterTampered
from fenchel_common.identity.certificates import Certificate
from fenchel_common.ids import ClientId

ROSTER_FORMAT = 1
ROSTER_LABEL = b"fenchel/v1/roster\x00"
MAX_PARTIES = 1024

# A name becomes a folder, a certificate's common name (64 characters at most) and part of a URI.
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9])?", re.ASCII)
_RESERVED_NAMES = frozenset({"ca"})


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
    """One organisation of the federation."""

    name: ClientId
    key_holder: bool = False
    labels: bool = True


@dataclass(frozen=True, slots=True)
class Roster:
    """The parties in their order, the server, and what the parties have agreed to."""

    federation: str
    server_name: str
    parties: tuple[Party, ...]
    release_model_to_server: bool = False

    def __post_init__(self) -> None:
        check_name(self.federation, what="federation")
        check_name(self.server_name, what="server")
        if not 1 <= len(self.parties) <= MAX_PARTIES:
            raise InvalidInput(f"a roster names 1 to {MAX_PARTIES} parties, not {len(self.parties)}")
        taken = {self.server_name.casefold(): "the server"}
        for party in self.parties:
            check_name(party.name, what="party")
            # Compared without case, because a kit is a folder and some file systems do not tell A from a.
            if other := taken.get(party.name.casefold()):
                raise InvalidInput(f"party {party.name!r} has the same name as {other}; names must be unique")
            taken[party.name.casefold()] = f"party {party.name!r}"
        if not any(party.key_holder for party in self.parties):
            raise InvalidInput("no party is the key holder; set `key_holder = true` on one party")

    @property
    def names(self) -> tuple[ClientId, ...]:
        return tuple(party.name for party in self.parties)

    @property
    def key_holder(self) -> Party:
        """The party that makes the key of each run: the first one marked."""
        return next(party for party in self.parties if party.key_holder)

    def party(self, name: str) -> Party:
        """The party of that name, or `NotOnRoster`."""
        for party in self.parties:
            if party.name == name:
                return party
        raise NotOnRoster(
            f"party {name!r} is not on the roster of federation {self.federation!r};"
            " the operator adds it to federation.toml and runs `fenchel provision` again"
        )

    def to_bytes(self) -> bytes:
        """The canonical JSON form: sorted keys, no spaces, ASCII, one way to write each roster."""
        content = {"format": ROSTER_FORMAT, **asdict(self)}
        return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()

    def fingerprint(self) -> str:
        """SHA-256 of the canonical form, in hexadecimal; what operators compare by telephone."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    @classmethod
    def from_bytes(cls, encoded: bytes) -> Self:
        """Reads the canonical form and nothing else; the signature is checked by `verified`."""
        try:
            content = json.loads(encoded)
            if content.pop("format") != ROSTER_FORMAT:
                raise RosterTampered("the roster has a format that this version does not read; upgrade Fenchel")
            parties = tuple(Party(**entry) for entry in content.pop("parties"))
            roster = cls(parties=parties, **content)
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
        """The roster, if `authority` signed exactly these bytes for its own federation."""
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
        return roster
