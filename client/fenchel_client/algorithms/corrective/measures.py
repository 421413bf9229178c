"""A party's contributions to the sums that all parties open, each divided by N."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.corrective.points import MODEL, Memory
from fenchel_client.algorithms.corrective.settlement import interpolated
from fenchel_client.algorithms.rows import PartyRows, Positions
from fenchel_common.algorithms.corrective.messages import COUNT_UNIT, FIGURE_COUNT, STEPS
from fenchel_common.losses import Loss

Array = NDArray[np.float64]


def figures_of(own: PartyRows, memory: Memory, round_id: int, samples: Positions, *, norms: Array, loss: Loss) -> Array:
    """The party's contribution to the round's figures, from the samples at these positions."""
    if not len(samples):
        return np.zeros(FIGURE_COUNT)
    y, model = own.labels()[samples], memory.entries[(MODEL, round_id)]
    start, end, alpha = memory.best.predictions[samples], model.predictions[samples], model.alpha[samples]
    losses, correct = [], []
    for step in range(STEPS + 1):
        z = interpolated(start, end, step)
        losses.append(loss.value(z, y).sum())
        correct.append(loss.fit_sum(z, y))
    rest = [loss.conjugate(alpha, y).sum(), np.sqrt(norms[samples]).sum(), alpha @ alpha]
    means = np.array([*losses, *correct, *rest], dtype=np.float64) / own.sample_count
    return np.append(means, len(samples) / COUNT_UNIT)


def conjugates_and_products(
    own: PartyRows, memory: Memory, points: Sequence[Array], samples: Positions, *, loss: Loss
) -> Array:
    """The party's contribution to Σ l* and the products of new points, from the samples at these positions.

    First Σ l* of each new point. If l* is strongly convex, then for each new point its products with all entries of the
    memory and with all new points; an entry that is no point counts as zero.
    """
    if not len(samples):
        return np.zeros(conjugate_and_product_count(memory, len(points), loss=loss))
    y = own.labels()[samples]
    numbers = [float(loss.conjugate(alpha[samples], y).sum()) for alpha in points]
    if loss.conjugate_modulus > 0.0:
        known = [entry.alpha if len(entry.alpha) else np.zeros(own.count) for entry in memory.entries.values()]
        numbers += [float(new[samples] @ other[samples]) for new in points for other in (*known, *points)]
    return np.array(numbers) / own.sample_count


def conjugate_and_product_count(memory: Memory, new: int, *, loss: Loss) -> int:
    """The length of the result of `conjugates_and_products` for `new` new points."""
    return new + (new * (len(memory.entries) + new) if loss.conjugate_modulus > 0.0 else 0)
