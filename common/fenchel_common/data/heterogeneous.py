"""Splits of whole rows over parties: at random, with equal class ratios, or with ratios that differ."""

import math
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from fenchel_common.data.datasets import Dataset
from fenchel_common.data.shard import Shard
from fenchel_common.errors import InvalidInput

Rows = NDArray[np.int64]

DRAWS: Final = 1000
THINNED_PARTIES: Final = 0.3
THINNED_ROWS: Final = 0.7


@dataclass(frozen=True, slots=True)
class Split:
    """How whole rows are assigned: at random in equal numbers, or each class in fractions drawn from Dir(α).

    A `stratified` split gives every party the same class ratio.
    """

    alpha: float | None = None
    stratified: bool = False

    @property
    def whole_rows(self) -> bool:
        """Whether each party gets whole rows, so that columns cannot be split."""
        return self.alpha is not None or self.stratified

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads `even`, `stratified` or `dirichlet:ALPHA`."""
        kind, _, number = text.partition(":")
        try:
            if text == "even":
                return cls()
            if text == "stratified":
                return cls(stratified=True)
            if kind == "dirichlet" and 0.0 < float(number) < math.inf:
                return cls(float(number))
        except ValueError:
            pass
        raise InvalidInput(
            f"split: {text!r} is neither even, stratified, nor dirichlet:ALPHA with ALPHA above 0, such as 0.1"
        )

    def rows(self, y: NDArray[np.float64], parties: int, *, seed: int) -> list[Rows]:
        """The rows of each party in a split of whole rows."""
        if self.alpha is None:
            return stratified_rows(y, parties, seed=seed)
        return dirichlet_rows(y, parties, alpha=self.alpha, seed=seed)


def dirichlet_rows(y: NDArray[np.float64], parties: int, *, alpha: float, seed: int, smallest: int = 10) -> list[Rows]:
    """The rows of each party: each class is divided in fractions that are drawn from Dir(α) (SCAFF-PD, C.2).

    A draw that leaves a party fewer than `smallest` rows is drawn again.
    """
    rng = np.random.default_rng([seed, 2])
    for _ in range(DRAWS):
        parts_of: list[list[Rows]] = [[] for _ in range(parties)]
        for label in np.unique(y):
            rows = rng.permutation(np.flatnonzero(y == label))
            ends = np.rint(np.cumsum(rng.dirichlet(np.full(parties, alpha))) * len(rows)).astype(np.int64)
            for party, part in enumerate(np.split(rows, ends[:-1])):
                parts_of[party].append(part)
        split = [np.concatenate(parts) for parts in parts_of]
        if min(len(rows) for rows in split) >= smallest:
            return split
    raise InvalidInput(f"alpha: {alpha:g} leaves some of {parties} parties with fewer than {smallest} rows; use more")


def stratified_rows(y: NDArray[np.float64], parties: int, *, seed: int) -> list[Rows]:
    """The rows of each party, with numbers and class ratios as equal as possible (FedSGM, section 4)."""
    rng = np.random.default_rng([seed, 1])
    # Rows are assigned in turn through all classes, so that the remainder of one class is balanced by the next.
    order = np.concatenate([rng.permutation(np.flatnonzero(y == label)) for label in np.unique(y)])
    return [order[party::parties] for party in range(parties)]


def thinned_rows(split: list[Rows], *, seed: int) -> list[Rows]:
    """The split after a random 30 % of the parties have lost a random 70 % of their rows (SCAFF-PD, C.2)."""
    rng = np.random.default_rng([seed, 3])
    thinned = list(split)
    for party in rng.permutation(len(split))[: round(THINNED_PARTIES * len(split))]:
        rows = rng.permutation(split[party])
        thinned[party] = rows[round(THINNED_ROWS * len(rows)) :]
    return thinned


def row_shards(dataset: Dataset, rows_of: list[Rows]) -> list[Shard]:
    """One shard of whole rows for each party."""
    digits = len(str(len(dataset.y) - 1))
    return [
        Shard(
            ids=tuple(f"{dataset.name}-{row:0{digits}d}" for row in rows),
            features=dataset.features,
            X=dataset.X[rows],
            y=dataset.y[rows],
        )
        for rows in rows_of
    ]
