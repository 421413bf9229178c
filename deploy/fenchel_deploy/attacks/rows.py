"""Reconstruction of a party's rows from its messages: linear algebra on iterates, products and differences.

With X (n, m) the party's rows, λ and N the run's:

    from iterates      ŵ_k^t = X_kᵀα^t/(λN) for many rounds t: a linear system in X when α is known
    from products      p_i^t = x_i·w^t: a linear system in each x_i when w is known
    from differences   ŵ_k^t − ŵ_k^{t−1} = Σ_i Δα_i x_i/(λN) over the rows that were drawn: with one of them a row
    from subspaces     differences of rounds with one set of drawn rows span what these rows span; while they are fewer
                       than the features, what the sets that contain a row have in common is that row
    from vertices      X_kᵀv for v of −1, 0 and 1: the difference of two is a sum of few rows, each with the same weight
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from fenchel_common.algorithms.dual import PRODUCT_FORMAT
from fenchel_deploy.attacks.traces import Frame, Seen
from fenchel_deploy.attacks.views import Array, Eyes

NOISE: Final = 3.0 * PRODUCT_FORMAT.resolution
"""A difference of two rounded numbers that is no larger than this may be rounding alone."""
SINGULAR: Final = 1e-7
"""Singular values below this fraction of the largest are rounding."""
SURE: Final = 0.01
CLEAR: Final = 1000.0
"""A difference this many times the noise has its direction to three digits."""
RECURRING: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Estimate:
    """A guess at one row, up to its scale. Without the position `row` it is a guess at any of the party's rows."""

    direction: Array
    row: int | None = None


def rows_from_iterates(iterates: Sequence[tuple[Array, Array]]) -> list[Estimate]:
    """Solves for all rows at once, and returns those that the iterates determine."""
    if not iterates:
        return []
    alphas, contributions = (_tamed(np.array(side)) for side in zip(*iterates, strict=True))
    inverse = np.linalg.pinv(alphas, rcond=SINGULAR)
    determined = np.diagonal(inverse @ alphas) > 1.0 - SURE
    rows = np.asarray(inverse @ contributions, dtype=np.float64)
    return [Estimate(row, position) for position, row in enumerate(rows) if determined[position]]


def rows_from_products(products: Sequence[tuple[Array, Array]]) -> list[Estimate]:
    """Solves for each row by itself, from the rounds that told its inner product."""
    estimates = []
    for position in range(len(products[0][1]) if products else 0):
        told = [(model, values[position]) for model, values in products if not np.isnan(values[position])]
        if told:
            models, values = np.array([model for model, _ in told]), np.array([value for _, value in told])
            row, *_ = np.linalg.lstsq(_tamed(models), _tamed(values), rcond=SINGULAR)
            estimates.append(Estimate(np.asarray(row, dtype=np.float64), position))
    return estimates


def differences(frame: Frame, contributions: Sequence[Seen], eyes: Eyes) -> dict[int, Array]:
    """The change of the party's contribution to the model by round; in the first round, from zero."""
    moved: dict[int, Array] = {}
    for position, seen in enumerate(contributions):
        vector = seen.vector.vector
        change = eyes.difference(vector, contributions[position - 1].vector.vector) if position else eyes.read(vector)
        moved[seen.round_id] = frame.by_feature(seen.vector.blocks, change)
    return moved


def rows_from_differences(moved: Mapping[int, Array], drawn: Mapping[int, Sequence[int]]) -> list[Estimate]:
    """For each row the change in the round in which the fewest other rows were drawn with it."""
    best: dict[int, tuple[int, Array]] = {}
    for round_id, change in moved.items():
        rows = drawn.get(round_id, ())
        if np.abs(change).max() <= NOISE:
            continue
        for row in rows:
            if row not in best or len(rows) < best[row][0]:
                best[row] = (len(rows), change)
    return [Estimate(change, row) for row, (_, change) in sorted(best.items())]


def rows_from_single_steps(moved: Mapping[int, Array]) -> list[Estimate]:
    """Every difference is one row, where it is known that one dual variable changed at a time."""
    return [Estimate(change) for change in moved.values() if np.abs(change).max() > NOISE]


def rows_from_recurring_steps(moved: Mapping[int, Array], *, at_most: int) -> list[Estimate]:
    """Directions in which the contribution changed more than once: a row recurs, sums of several rows hardly ever do.

    When most dual variables rest at their bounds, few rows are in a difference, however many were drawn.
    """
    steps = [change for change in moved.values() if np.abs(change).max() > CLEAR * NOISE]
    if not steps:
        return []
    directions = np.array([change / np.linalg.norm(change) for change in steps])
    alike = np.abs(directions @ directions.T) > 1.0 - RECURRING
    counts = alike.sum(axis=1)
    first = [
        position for position in range(len(steps)) if counts[position] > 1 and not alike[position, :position].any()
    ]
    first.sort(key=lambda position: -int(counts[position]))
    return [Estimate(steps[position]) for position in first[:at_most]]


def rows_from_subspaces(moved: Mapping[int, Array], drawn: Mapping[int, Sequence[int]]) -> list[Estimate]:
    """Where the spans of enough sets that contain a row meet in one line, that line is the row's."""
    by_set: dict[tuple[int, ...], list[Array]] = {}
    for round_id, change in moved.items():
        if np.abs(change).max() > NOISE:
            by_set.setdefault(tuple(drawn.get(round_id, ())), []).append(change)
    outside = {rows: _complement(np.array(changes), len(rows)) for rows, changes in by_set.items()}
    estimates = []
    for row in sorted({row for rows in by_set for row in rows}):
        spaces = [space for rows, space in outside.items() if space is not None and row in rows]
        if spaces:
            values, vectors = np.linalg.eigh(sum(spaces[1:], start=spaces[0]))
            if values[0] < SURE * values[1]:
                estimates.append(Estimate(vectors[:, 0], row))
    return estimates


def _complement(changes: Array, rows: int) -> Array | None:
    """The projection away from the span of `rows` rows, if the changes span it and leave something out of it."""
    _, singular, axes = np.linalg.svd(changes, full_matrices=False)
    rank = int((singular > NOISE * np.sqrt(changes.size)).sum())
    if rank != rows or rank >= changes.shape[1]:
        return None
    return np.asarray(np.eye(changes.shape[1]) - axes[:rank].T @ axes[:rank], dtype=np.float64)


def supports(estimates: Sequence[Estimate]) -> list[Estimate]:
    """Which features a row has at all: those that the difference moved."""
    return [Estimate((np.abs(one.direction) > NOISE).astype(np.float64), one.row) for one in estimates]


def rows_from_vertices(vertices: Sequence[Array], *, at_most: int) -> list[Estimate]:
    """The differences that most pairs of vertices have in common.

    The weights are whole numbers, so a row that is in one vertex and not in the other leaves the very same difference
    each time; a sum of several rows comes about less often.
    """
    found: list[tuple[int, Array]] = []
    for one, other in itertools.combinations(vertices, 2):
        change = one - other
        if np.abs(change).max() <= NOISE:
            continue
        for position, (count, known) in enumerate(found):
            if min(np.abs(change - known).max(), np.abs(change + known).max()) <= NOISE:
                found[position] = (count + 1, known)
                break
        else:
            found.append((1, change))
    found.sort(key=lambda item: (-item[0], float(np.linalg.norm(item[1]))))
    return [Estimate(change) for _, change in found[:at_most]]


def _tamed(values: Array) -> Array:
    """Scaled to at most 1: guesses at ciphertext are huge, and their squares must not overflow."""
    return values / max(float(np.abs(values).max(initial=0.0)), 1e-300)
