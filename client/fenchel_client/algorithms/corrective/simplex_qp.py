"""A small concave quadratic program over the simplex, with the same bits on every machine.

Problem
    max h·b − ½ bᵀGb  with b ≥ 0 and Σb = 1; G symmetric, positive semidefinite.
Method
    Primal active set. On the support, the equality-constrained problem is solved exactly; if its solution leaves the
    simplex, the step ends at the border and the component of b that is zero there leaves the support; otherwise the
    component with the largest gain enters. Every b of the method is feasible, and none is worse than the one before.
Stopping rule
    No component promises a gain above `TOLERANCE` of the problem's scale, or `MAXIMUM_STEPS` are done. The caller must
    compare values, and keep its own weights if b is no better.
Determinism
    All parties solve the same program and must find the same b. The method uses elementwise operations and correctly
    rounded sums alone, whose bits IEEE 754 defines. The results of linear algebra libraries differ in their last bits.
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
    """The product of a matrix and a vector, each sum correctly rounded."""
    return np.array([dot(row, vector) for row in matrix])


def maximise_over_simplex(G: Array, h: Array, *, start: int = 0, maximum_steps: int = MAXIMUM_STEPS) -> Array:
    """The last b of the method, which begins with all weight on the component `start`."""
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
            first = int(np.argmin(fractions))
            b[chosen] = np.maximum(present + fractions[first] * (wanted - present), 0.0)
            b[chosen[first]] = 0.0
            support.discard(int(chosen[first]))
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
    """The maximiser over the components `chosen`, which may be negative and sum to 1."""
    count = len(chosen)
    system = np.zeros((count + 1, count + 2))
    system[:count, :count] = G[np.ix_(chosen, chosen)] + ridge * np.eye(count)
    # The multiplier's row and column have the scale of G, so that pivots can be compared.
    unit = float(np.abs(system).max())
    system[:count, count] = system[count, :count] = unit
    system[:count, count + 1], system[count, count + 1] = h[chosen], unit
    return _solved(system)[:count]


def _solved(system: Array) -> Array:
    """The solution of [A | b] by elimination with complete pivoting; unknowns that are not determined are 0."""
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
