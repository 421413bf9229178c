"""A small concave quadratic program over a product of simplices.

Problem
    max h·b − ½ bᵀGb  with b ≥ 0 and the entries of each group summing to 1; G symmetric, positive semidefinite.
Method
    Primal active set. On the support, the equality-constrained problem is solved exactly; if its solution leaves the
    simplices, the step ends at their border and the entry that met it leaves the support; otherwise the entry with
    the largest gain enters. Every point on the way is feasible, and none is worse than the one before it.
Stopping rule
    No entry promises a gain above `TOLERANCE` of the problem's scale, or `MAXIMUM_STEPS`: the caller compares values
    and keeps what it has if the program found nothing better.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

TOLERANCE: Final = 1e-13
RIDGE: Final = 1e-14
MAXIMUM_STEPS: Final = 500
BORDER: Final = 1e-14


def maximise_over_simplices(
    G: Array, h: Array, groups: Sequence[NDArray[np.int64]], start: Sequence[int], *, maximum_steps: int = MAXIMUM_STEPS
) -> Array:
    """The best b that was found.

    Parameters
    ----------
    groups
        The entries of each simplex; together they are all entries.
    start
        For each group the entry that has all the weight at first.
    """
    group_of = np.empty(len(h), dtype=np.int64)
    for number, entries in enumerate(groups):
        group_of[entries] = number
    b = np.zeros(len(h))
    b[list(start)] = 1.0
    support = set(start)
    scale = float(np.abs(h).max() + np.abs(G).max())
    if scale == 0.0:
        return b
    for _ in range(maximum_steps):
        chosen = np.array(sorted(support), dtype=np.int64)
        wanted = _best_on(chosen, group_of[chosen], G, h, ridge=RIDGE * scale)
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
        for entries in groups:
            b[entries] /= b[entries].sum()
        entering = _entering(h - G @ b, b, groups, threshold=TOLERANCE * scale)
        if entering is None or entering in support:
            break
        support.add(entering)
    return b


def _best_on(chosen: NDArray[np.int64], group_of: NDArray[np.int64], G: Array, h: Array, *, ridge: float) -> Array:
    """The maximiser over the entries `chosen` if they may be negative; each group still sums to 1."""
    numbers = np.unique(group_of)
    count, side = len(chosen), len(chosen) + len(numbers)
    system = np.zeros((side, side))
    system[:count, :count] = G[np.ix_(chosen, chosen)] + ridge * np.eye(count)
    member = (group_of[:, None] == numbers[None, :]).astype(np.float64)
    system[:count, count:], system[count:, :count] = member, member.T
    right = np.concatenate([h[chosen], np.ones(len(numbers))])
    # Points may coincide, and the system then has no single solution: the smallest will do.
    return np.asarray(np.linalg.lstsq(system, right, rcond=1e-15)[0][:count], dtype=np.float64)


def _entering(gradient: Array, b: Array, groups: Sequence[NDArray[np.int64]], *, threshold: float) -> int | None:
    best, gain = None, threshold
    for entries in groups:
        mean = float(gradient[entries] @ b[entries])
        top = int(entries[np.argmax(gradient[entries])])
        if gradient[top] - mean > gain:
            best, gain = top, float(gradient[top] - mean)
    return best
