"""The public records of a run: one at the beginning of each round, and one at the end of each phase.

A record says which parties contributed in a phase, and what the server chose. Every party gets the same bytes of every
record, in the same order. The *view* is a hash of all records so far,

    view = SHA-256(view before, bytes of the record),

beginning with a hash of the run's terms, roster, introductions and layout. A party contributes under its view: tags of
its vectors and its confirmation depend on it. So parties that were told different stories cannot open each other's
contributions.
"""

import hashlib
from dataclasses import dataclass, field
from typing import Final

from fenchel_common.framing import framed
from fenchel_common.ids import ClientId, RoundId

NONCE_BYTES: Final = 16
CONFIRMATION_BYTES: Final = 16
SEED_BYTES: Final = 8
ROUND: Final = "round"
"""The phase in the record with which a round begins; nobody contributes in it."""

_FIRST_LABEL: Final = b"fenchel/v1/first-view\x00"
_VIEW_LABEL: Final = b"fenchel/v1/view\x00"


@dataclass(frozen=True, slots=True)
class Moment:
    """A phase of a run, or the beginning of a round. A server that repeats a round does so in a higher attempt."""

    attempt: int
    round: RoundId
    phase: str

    def to_bytes(self) -> bytes:
        return framed(self.attempt.to_bytes(8, "big"), self.round.to_bytes(8, "big"), self.phase.encode())


@dataclass(frozen=True, slots=True)
class Given:
    """That a party contributed in a phase: the nonce of its result, and its confirmation of the view before."""

    party: ClientId
    nonce: bytes
    confirmation: bytes


@dataclass(frozen=True, slots=True)
class Record:
    """The end of a phase or the beginning of a round; `choices` is a message of the algorithm's family."""

    moment: Moment
    given: tuple[Given, ...] = ()
    choices: bytes = field(default=b"", repr=False)


def seed_to_bytes(seed: int) -> bytes:
    """The choices in the record of the phase `layout`: the seed of the run, from 0 to 2^63 − 1."""
    return seed.to_bytes(SEED_BYTES, "big")


def seed_from_bytes(choices: bytes) -> int:
    return int.from_bytes(choices, "big")


def first_view(*, terms: bytes, roster_fingerprint: str, introductions: bytes, layout_root: bytes) -> bytes:
    """The view before the first record; `terms` and `introductions` are digests."""
    roster = bytes.fromhex(roster_fingerprint)
    return hashlib.sha256(_FIRST_LABEL + framed(terms, roster, introductions, layout_root)).digest()


def view_after(view: bytes, record: bytes) -> bytes:
    """The view after a record, which is given as the bytes that every party gets."""
    return hashlib.sha256(_VIEW_LABEL + framed(view, record)).digest()
