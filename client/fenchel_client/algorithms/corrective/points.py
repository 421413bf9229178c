"""The points that a party remembers of a corrective run, and their best combination.

Every point is a feasible α. A party knows its values on the party's own samples, its model w = 1/(λN) Σ_i α_i x_i on
the party's own features, and x_i·w of the party's own live samples. All parties know c = −1/N Σ_i l*(−α_i) of every
point, the Gram matrix of the models and, where l* has a modulus of convexity μ > 0, the Gram matrix of the points. Over
weights β_j ≥ 0 that sum to 1

    −λ/2 ‖Σ_j β_j w_j‖² + Σ_j β_j c_j + μ/(2N) (Σ_j β_j ‖p_j‖² − ‖Σ_j β_j p_j‖²)  ≤  D(Σ_j β_j p_j),

which is the inequality of strong convexity of l*, with equality for the hinge (μ = 0) and the smoothed hinge. The
anchor is among the points, so that the maximum over β is at least D at the anchor. Weights with a smaller value are not
used. A party also remembers models that are no points, because they tell something about the columns of other parties.

This module uses only elementwise operations and correctly rounded sums, so that every party finds the same weights.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.corrective.simplex_qp import dot, maximise_over_simplex, times

Array = NDArray[np.float64]
Name = tuple[str, int]

SMALLEST_WEIGHT: Final = 1e-12
ANCHOR: Final = "anchor"
POINT: Final = "point"
VERTEX: Final = "vertex"
MODEL: Final = "model"
BEST: Final = "best"
POINTS: Final = (ANCHOR, POINT, VERTEX)


class Unopened:
    """x_i·w of a party's own samples, opened when it is first used.

    Only a point with a weight in the combination is used. Many vertices never get one.
    """

    def __init__(self, opening: Callable[[], Array]) -> None:
        self._opening: Callable[[], Array] | None = opening
        self._values = np.zeros(0)

    def values(self) -> Array:
        if self._opening is not None:
            self._values = self._opening()
            self._opening = None
        return self._values


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a party's memory: a point, or a model that is no point.

    Attributes
    ----------
    weights
        The model w, on the party's own features.
    products
        x_i·w of the party's own samples; `predictions` opens it.
    alpha
        The dual variables of the party's own samples; empty for a model that is no point.
    conjugate_part
        c = −1/N Σ_i l*(−α_i) over all samples.
    shortfall
        Of the anchor in a run with an intercept: D without regularisation of the intercept may be less by this, at dual
        variables near these that are feasible then.
    error
        The errors of the predictions by narrow slots are at most this, times ‖x_i‖, times the number of holders.
    """

    weights: Array
    products: Array | Unopened
    alpha: Array
    conjugate_part: float = 0.0
    error: float = 0.0
    shortfall: float = 0.0

    @property
    def predictions(self) -> Array:
        """x_i·w of the party's own samples; raises as `Seal.open` does if it is not what this party expects."""
        return self.products.values() if isinstance(self.products, Unopened) else self.products


@dataclass(frozen=True, slots=True)
class PendingPoints:
    """The dual variables of points whose models the party does not know yet.

    Attributes
    ----------
    relative
        Whether the next round gives the models of these points as differences from the anchor's model.
    """

    point: Array
    vertex: Array
    relative: bool

    def by_kind(self) -> dict[str, Array]:
        """The dual variables of the pending points by their kind."""
        return {POINT: self.point, VERTEX: self.vertex}


@dataclass(frozen=True, slots=True)
class Memory:
    """A party's memory from one round to the next.

    Attributes
    ----------
    anchor_round
        The round whose dual variables are the anchor; 0 before the first.
    entries
        By kind and round. The anchor is first, then the best model; both have the number 0 instead of a round.
    gram, spread
        The products w_a·w_b of the models and p_a·p_b/N of the points, with rows and columns in the order of `entries`.
    pending
        The new points of the last round, if it made some.
    """

    anchor_round: int
    entries: Mapping[Name, Entry]
    gram: Array
    spread: Array
    pending: PendingPoints | None = None

    @property
    def names(self) -> tuple[Name, ...]:
        return tuple(self.entries)

    @property
    def anchor(self) -> Entry:
        return self.entries[(ANCHOR, 0)]

    @property
    def best(self) -> Entry:
        """The best model."""
        return self.entries[(BEST, 0)]

    def rounds_of(self, kind: str) -> tuple[int, ...]:
        """The rounds of the entries of a kind, in the order of the entries."""
        return tuple(round_id for each, round_id in self.entries if each == kind)

    def rows(self, names: Sequence[Name]) -> list[int]:
        """The rows of these entries in `gram` and `spread`."""
        index = {name: row for row, name in enumerate(self.entries)}
        return [index[name] for name in names]


def empty_memory(anchor_round: int) -> Memory:
    """A memory without entries, to be extended."""
    return Memory(anchor_round, {}, np.zeros((0, 0)), np.zeros((0, 0)))


def rescaled(memory: Memory, ratio: float) -> Memory:
    """The memory for a λ that is smaller by the factor `ratio` ≥ 1: models of points are longer by it.

    The best model is a model and no point, and stays what it is.
    """
    factors = np.array([1.0 if kind == BEST else ratio for kind, _ in memory.entries])
    entries = {name: entry if name[0] == BEST else _scaled(entry, ratio) for name, entry in memory.entries.items()}
    return replace(memory, entries=entries, gram=memory.gram * factors[:, None] * factors)


def _scaled(entry: Entry, ratio: float) -> Entry:
    return replace(
        entry,
        weights=entry.weights * ratio,
        products=Unopened(lambda: entry.predictions * ratio),
        error=entry.error * ratio,
        shortfall=entry.shortfall * ratio,
    )


@dataclass(frozen=True, slots=True)
class Combination:
    """The weights β of the points, in the order of `names`."""

    names: tuple[Name, ...]
    weights: Array

    def to_bytes(self) -> bytes:
        """Names and weights; they differ if any bit of a weight does."""
        return repr((self.names, self.weights.tolist())).encode()


def extended(memory: Memory, new: Mapping[Name, Entry], *, gram: Array, spread: Array) -> Memory:
    """The memory with new entries.

    Parameters
    ----------
    gram, spread
        The rows of the new entries, of shape (new, old + new): products with the old entries, then with the new ones.
    """
    return replace(
        memory,
        entries={**memory.entries, **new},
        gram=_bordered(memory.gram, gram),
        spread=_bordered(memory.spread, spread),
    )


def _bordered(matrix: Array, rows: Array) -> Array:
    old = len(matrix)
    bordered = np.zeros((old + len(rows), old + len(rows)))
    bordered[:old, :old] = matrix
    bordered[old:, :] = rows
    bordered[:old, old:] = rows[:, :old].T
    return bordered


def best_combination(memory: Memory, *, lambda_: float, modulus: float) -> Combination:
    """The best weights of anchor, point and vertices; all weight is on the anchor if no better weights are found."""
    names = tuple(name for name in memory.entries if name[0] in POINTS)
    rows = memory.rows(names)
    spread = modulus * memory.spread[np.ix_(rows, rows)]
    G = lambda_ * memory.gram[np.ix_(rows, rows)] + spread
    c = np.array([memory.entries[name].conjugate_part for name in names]) + np.diag(spread) / 2.0
    b = maximise_over_simplex(G, c)
    b = np.where(b < SMALLEST_WEIGHT, 0.0, b)
    b /= math.fsum(b.tolist())
    before = c[0] - G[0, 0] / 2.0
    after = dot(c, b) - dot(b, times(G, b)) / 2.0
    if not after > before:
        b = np.zeros(len(names))
        b[0] = 1.0
    return Combination(names, b)


def combined(memory: Memory, combination: Combination, round_id: int, *, feasible: Callable[[Array], Array]) -> Memory:
    """The memory with the combination as the model of the round, with the combined dual variables.

    Parameters
    ----------
    feasible
        Makes dual variables feasible that the rounding of a convex combination has moved out of their interval.
    """
    used = [(name, float(b)) for name, b in zip(combination.names, combination.weights, strict=True) if b > 0.0]
    first = memory.entries[used[0][0]]
    weights, predictions = np.zeros_like(first.weights), np.zeros_like(first.predictions)
    alpha, error = np.zeros_like(first.predictions), 0.0
    for name, b in used:
        entry = memory.entries[name]
        weights += b * entry.weights
        predictions += b * entry.predictions
        alpha += b * entry.alpha
        error += b * entry.error
    rows = memory.rows(combination.names)
    new = {(MODEL, round_id): Entry(weights, predictions, feasible(alpha), error=error)}
    return extended(
        memory,
        new,
        gram=combined_row(memory.gram, rows, combination.weights),
        spread=combined_row(memory.spread, rows, combination.weights),
    )


def combined_row(matrix: Array, rows: Sequence[int], weights: Array) -> Array:
    """The row (1, old + 1) of a combination: its products with every entry, and with itself."""
    with_all = np.array([dot(row[rows], weights) for row in matrix])
    return np.append(with_all, dot(with_all[rows], weights))[None, :]
