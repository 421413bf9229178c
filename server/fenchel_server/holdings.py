"""What each party holds, by pseudonyms, and the cohorts of samples with the same holders."""

import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fenchel_common.ids import ClientId
from fenchel_common.intercept import INTERCEPT_PSEUDONYM


@dataclass(frozen=True, slots=True)
class Holding:
    """The server's knowledge of one party: pseudonyms in the party's own order, features, and whether it has labels.

    The pseudonyms of all parties have the same number of bytes. `features` are pseudonyms of names, in any order.
    """

    client: ClientId
    pseudonyms: NDArray[np.bytes_] | tuple[bytes, ...] = field(repr=False)
    features: NDArray[np.bytes_] | tuple[str, ...] = field(repr=False)
    has_labels: bool


@dataclass(frozen=True, slots=True, eq=False)
class HeldFeatures:
    """All features of a federation, and which of them each party holds.

    Attributes
    ----------
    names
        The pseudonyms of all features as text, sorted.
    held
        For each party the ascending positions in `names` of its features.
    intercept
        The position of the constant feature; −1 without one.
    """

    names: tuple[str, ...] = field(repr=False)
    held: tuple[NDArray[np.int64], ...]
    intercept: int

    @classmethod
    def of(cls, holdings: Sequence[Holding]) -> "HeldFeatures":
        # Parties of one group of columns hold the same features: each list is kept and looked up once.
        contents: list[tuple[int, bytes]] = []
        different: dict[tuple[int, bytes], NDArray[Any]] = {}
        for holding in holdings:
            own = np.sort(np.asarray(holding.features))
            contents.append((own.itemsize, hashlib.sha256(own.tobytes()).digest()))
            different.setdefault(contents[-1], own)
        every = np.unique(np.concatenate(list(different.values())))
        positions = {content: np.searchsorted(every, own) for content, own in different.items()}
        names = tuple(name.decode() if isinstance(name, bytes) else str(name) for name in every)
        intercept = names.index(INTERCEPT_PSEUDONYM) if INTERCEPT_PSEUDONYM in names else -1
        return cls(names, tuple(positions[content] for content in contents), intercept)

    def named(self, positions: Iterable[int]) -> list[str]:
        """The pseudonyms at these positions."""
        return [self.names[position] for position in positions]

    def without_intercept(self, party: int) -> NDArray[np.int64]:
        return np.setdiff1d(self.held[party], [self.intercept], assume_unique=True)

    def together(self, parties: Collection[int]) -> NDArray[np.bool_]:
        """(features,) whether one of these parties holds the feature."""
        found = np.zeros(len(self.names), dtype=bool)
        for party in parties:
            found[self.held[party]] = True
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Cohort:
    """The samples that exactly `holders` (indices into the roster, ascending) hold, by sample number."""

    holders: tuple[int, ...]
    samples: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SortedCohorts:
    """The cohorts that a run uses, and those that it leaves out because they lack a label or a feature."""

    used: list[Cohort]
    unlabelled: list[Cohort]
    incomplete: list[Cohort]
