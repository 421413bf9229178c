"""The server's last message to a party, with what the server found wrong with the party's data, if anything."""

from dataclasses import dataclass
from enum import Enum
from typing import Final

MAX_UNFIT_FEATURES: Final = 5
"""The most features that a dismissal names."""


class Misfit(Enum):
    """The way in which a party's data keep a run from beginning. The server sees it without seeing the data."""

    NO_COMMON_SAMPLE = "no other party has a sample of this party"
    NO_SAMPLE_USED = "the run would use no sample of this party"
    FEATURES_HELD_TWICE = "another party has the same features of the same samples"


@dataclass(frozen=True, slots=True)
class UnfitData:
    """A misfit, and the pseudonyms of some of the features that it concerns."""

    misfit: Misfit
    features: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Dismissal:
    """All runs are over, and the client may leave. `unfit`: why the party's data kept the last run from beginning."""

    reason: str
    unfit: UnfitData | None = None
