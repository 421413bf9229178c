"""A small concave quadratic program over the simplex, with the same bits on every machine.

Problem
    max h·b − ½ bᵀGb  with b ≥ 0 and Σb = 1; G symmetric, positive semidefinite.
Method
    Primal active set. On the support, the equality-constrained problem is solved exactly; if its solution leaves the
    simplex, the step ends at the border and the entry that met it leaves the support; otherwise the entry with the
    largest gain enters. Every point on the way is feasible, and none is worse than the one before it.
Stopping rule
    No entry promises a gain above `TOLERANCE` of the problem's scale, or `MAXIMUM_STEPS`: the caller compares values
    and keeps what it has if the program found nothing better.
Determinism
    All parties solve the same program and must find the same b. Only elementwise operations and correctly rounded sums
    are used, which IEEE 754 defines to the last bit, and no linear algebra library, which it does not.
"""

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

TOLERANCE: Final = 1e-13
RIDGE: Final = 1e-14
SMALLEST_PIVOT: Final = 1e-15
MAXIMUM_STEPS: Final = 500
BORDER: Final = 1e-14


def dot(left: Array, right: Array) -> float:
    """The inner product, its sum correctly rounded."""
    return math.fsum((left * right).tolist())


def times(matrix: Array, vector: Array) -> Array:
    return np.array([dot(row, vector) for row in matrix])


def maximise_over_simplex(G: Array, h: Array, *, start: int = 0, maximum_steps: int = MAXIMUM_STEPS) -> Array:
    """The best b that was found, from the corner `start`."""
    b = np.zeros(len(h))
    b[start] = 1.0
    support = {start}
    scale = float(np.abs(h).max() + np.abs(G).max())
    if scale == 0.0:
        return b
    for _ in range(maximum_steps):
        chosen = np.array(sorted(support), dtype=np.int64)
        wanted = _best_on(chosen, G, h, ridge=RIDGE * scale)
        present = b[chosen]
        leaving = wanted < -BORDER
        if leaving.any():
            fractions = np.where(leaving, present / np.where(leaving, present - wanted, 1.0), np.inf)
            place = int(np.argmin(fractions))
            b[chosen] = np.maximum(present + fractions[place] * (wanted - present), 0.0)
            b[chosen[place]] = 0.0
            support.discard(int(chosen[place]))
            continue
        b[chosen] = np.maximum(wanted, 0.0)
        b /= math.fsum(b.tolist())
        gradient = h - times(G, b)
        entering = int(np.argmax(gradient))
        if gradient[entering] - dot(gradient, b) <= TOLERANCE * scale or entering in support:
            break
        support.add(entering)
    return b


def _best_on(chosen: NDArray[np.int64], G: Array, h: Array, *, ridge: float) -> Array:
    """The maximiser over the entries `chosen` if they may be negative; they still sum to 1."""
    count = len(chosen)
    system = np.zeros((count + 1, count + 2))
    system[:count, :count] = G[np.ix_(chosen, chosen)] + ridge * np.eye(count)
    # The multiplier's row and column have the scale of G, so that pivots can be compared.
    unit = float(np.abs(system).max())
    system[:count, count] = system[count, :count] = unit
    system[:count, count + 1], system[count, count + 1] = h[chosen], unit
    return _solved(system)[:count]


def _solved(system: Array) -> Array:
    """The solution of [A | b] by elimination with complete pivoting; unknowns that the rest leaves open are 0."""
    rows, size = system.copy(), len(system)
    order = np.arange(size)
    rank = size
    largest = float(np.abs(rows[:, :size]).max())
    for step in range(size):
        rest = np.abs(rows[step:, step:size])
        row, column = divmod(int(np.argmax(rest)), rest.shape[1])
        if rest[row, column] <= SMALLEST_PIVOT * largest:
            rank = step
            break
        rows[[step, step + row]] = rows[[step + row, step]]
        rows[:, [step, step + column]] = rows[:, [step + column, step]]
        order[[step, step + column]] = order[[step + column, step]]
        factors = rows[step + 1 :, step] / rows[step, step]
        rows[step + 1 :] -= factors[:, None] * rows[step][None, :]
    solution = np.zeros(size)
    for step in reversed(range(rank)):
        known = dot(rows[step, step + 1 : size], solution[step + 1 :])
        solution[step] = (rows[step, size] - known) / rows[step, step]
    unordered = np.zeros(size)
    unordered[order] = solution
    return unordered
