"""The points that a party remembers of a corrective run, and their best combination.

Every point is a feasible α, known by its values on the party's own samples, by w = 1/(λN) Σ_i α_i x_i on its own
features, by x_i·w of its own samples that take part, and, the same at every party, by c = −1/N Σ_i l*(−α_i) and the
Gram matrices of the w and, where l* has a modulus of convexity μ, of the α. Over weights β_j ≥ 0 that sum to 1

    −λ/2 ‖Σ_j β_j w_j‖² + Σ_j β_j c_j + μ/(2N) (Σ_j β_j ‖p_j‖² − ‖Σ_j β_j p_j‖²)  ≤  D(Σ_j β_j p_j),

which is the inequality of strong convexity of l*, with equality for the hinge (μ = 0) and the smoothed hinge. The
anchor is among the points, so that the maximum is at least D as it stands; weights that do not reach it are not used.
Models are remembered for what they tell of the others' columns, not as points.

All of this is done by elementwise operations and correctly rounded sums, so that every party finds the same weights.
"""

import hashlib
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


@dataclass(frozen=True, slots=True)
class Place:
    """A model, and the dual variables that it belongs to; of a model that is no point these are not kept."""

    weights: Array
    predictions: Array
    values: Array
    value: float = 0.0


@dataclass(frozen=True, slots=True)
class Made:
    """Points whose weights are not known yet. `relative`: they will be told as differences from the anchor's."""

    point: Array
    vertex: Array | None
    relative: bool


@dataclass(frozen=True, slots=True)
class Memory:
    """What a party remembers between rounds.

    `places` order the rows of `gram`, the products w_a·w_b, and of `spread`, the products p_a·p_b/N of the points. The
    anchor is first, then the best model.
    """

    anchor: int
    places: Mapping[Name, Place]
    gram: Array
    spread: Array
    made: Made | None = None

    @property
    def names(self) -> tuple[Name, ...]:
        return tuple(self.places)

    @property
    def anchor_place(self) -> Place:
        return self.places[(ANCHOR, 0)]

    @property
    def best_place(self) -> Place:
        return self.places[(BEST, 0)]

    def named(self, kind: str) -> tuple[int, ...]:
        return tuple(number for what, number in self.places if what == kind)

    def rows(self, names: Sequence[Name]) -> list[int]:
        index = {name: row for row, name in enumerate(self.places)}
        return [index[name] for name in names]


def fresh_memory(anchor: int, place: Place, *, model: Place) -> Memory:
    """The anchor and the best model alone, of which no inner product is known yet."""
    return Memory(anchor, {(ANCHOR, 0): place, (BEST, 0): model}, np.zeros((2, 2)), np.zeros((2, 2)))


@dataclass(frozen=True, slots=True)
class Combination:
    """Weights of the points in the order of `names`."""

    names: tuple[Name, ...]
    weights: Array

    def digest(self) -> bytes:
        return hashlib.sha256(repr((self.names, self.weights.tolist())).encode()).digest()


def extended(memory: Memory, new: Mapping[Name, Place], *, gram: Array, spread: Array) -> Memory:
    """The memory with new places, whose rows (new, all) are in the order of the old names and then the new."""
    places = {**memory.places, **new}
    return replace(memory, places=places, gram=_bordered(memory.gram, gram), spread=_bordered(memory.spread, spread))


def _bordered(matrix: Array, rows: Array) -> Array:
    old = len(matrix)
    bordered = np.zeros((old + len(rows), old + len(rows)))
    bordered[:old, :old] = matrix
    bordered[old:, :] = rows
    bordered[:old, old:] = rows[:, :old].T
    return bordered


def best_combination(memory: Memory, *, lambda_: float, modulus: float) -> Combination:
    """The weights of anchor, point and vertices; all on the anchor if nothing better was found."""
    names = tuple(name for name in memory.places if name[0] in POINTS)
    rows = memory.rows(names)
    spread = modulus * memory.spread[np.ix_(rows, rows)]
    G = lambda_ * memory.gram[np.ix_(rows, rows)] + spread
    c = np.array([memory.places[name].value for name in names]) + np.diag(spread) / 2.0
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
    """The memory with the combination as the model of the round; its values are the new dual variables.

    `feasible` puts right what rounding does to a convex combination.
    """
    used = [(name, float(b)) for name, b in zip(combination.names, combination.weights, strict=True) if b > 0.0]
    first = memory.places[used[0][0]]
    weights, predictions = np.zeros_like(first.weights), np.zeros_like(first.predictions)
    values = np.zeros_like(first.predictions)
    for name, b in used:
        place = memory.places[name]
        weights += b * place.weights
        predictions += b * place.predictions
        values += b * place.values
    rows = memory.rows(combination.names)
    new = {(MODEL, round_id): Place(weights, predictions, feasible(values))}
    return extended(
        memory,
        new,
        gram=combined_row(memory.gram, rows, combination.weights),
        spread=combined_row(memory.spread, rows, combination.weights),
    )


def combined_row(matrix: Array, rows: Sequence[int], weights: Array) -> Array:
    """Products of a combination with every place, and with itself."""
    with_all = np.array([dot(row[rows], weights) for row in matrix])
    return np.append(with_all, dot(with_all[rows], weights))[None, :]
