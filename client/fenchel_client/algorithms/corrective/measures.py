"""A party's contributions to the sums that all parties open, each divided by N."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.corrective.points import MODEL, Memory
from fenchel_client.algorithms.corrective.settlement import interpolated
from fenchel_client.algorithms.rows import PartyRows, Positions
from fenchel_common.algorithms.corrective.messages import BALANCE_COUNT, COUNT_UNIT, FIGURE_COUNT, STEPS
from fenchel_common.losses import Loss

Array = NDArray[np.float64]


def figures_of(
    own: PartyRows,
    memory: Memory,
    round_id: int,
    samples: Positions,
    *,
    norms: Array,
    loss: Loss,
    constant: float = 0.0,
) -> Array:
    """The party's contribution to the round's figures, from the samples at these positions.

    `constant` is the value of the constant feature, if the run has one.
    """
    if not len(samples):
        return np.zeros(FIGURE_COUNT + (BALANCE_COUNT if constant else 0))
    y, model = own.labels()[samples], memory.entries[(MODEL, round_id)]
    start, end, alpha = memory.best.predictions[samples], model.predictions[samples], model.alpha[samples]
    losses, correct = [], []
    for step in range(STEPS + 1):
        z = interpolated(start, end, step)
        losses.append(loss.value(z, y).sum())
        correct.append(loss.fit_sum(z, y))
    rest = [loss.conjugate(alpha, y).sum(), np.sqrt(norms[samples]).sum(), alpha @ alpha]
    means = np.array([*losses, *correct, *rest], dtype=np.float64) / own.sample_count
    figures = np.append(means, np.array([len(samples), _positive(y, loss)]) / COUNT_UNIT)
    if not constant:
        return figures
    lengths = np.sqrt(np.maximum(norms[samples] - constant**2, 0.0))
    return np.concatenate([figures, _balance(alpha, y, lengths, loss) / own.sample_count])


def _positive(y: Array, loss: Loss) -> int:
    """The number of samples of class +1; 0 with a loss of regression."""
    labels = y[:, 0] if y.ndim == 2 else y
    return 0 if loss.regression else int(np.count_nonzero(labels > 0.0))


def _balance(alpha: Array, y: Array, lengths: Array, loss: Loss) -> Array:
    """(BALANCE_COUNT,) sums of |α_i|, of |α_i|·‖x_i‖ and of −l*(−α_i) above zero, where α_i > 0 and where α_i < 0."""
    gains = np.maximum(-loss.conjugate(alpha, y), 0.0)
    terms = np.array([np.abs(alpha), np.abs(alpha) * lengths, gains])
    return np.concatenate([terms[:, alpha > 0.0].sum(axis=1), terms[:, alpha < 0.0].sum(axis=1)])


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
