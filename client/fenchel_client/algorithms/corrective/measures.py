"""A party's part of the numbers that all parties know of the places of a corrective run, each divided by N."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.corrective.hull import MODEL, Memory
from fenchel_client.algorithms.corrective.settlement import on_the_way
from fenchel_client.algorithms.duals import labels_of
from fenchel_client.algorithms.rows import PartyRows, Positions
from fenchel_common.algorithms.corrective.messages import FIGURES, STEPS
from fenchel_common.losses import Loss

Array = NDArray[np.float64]


def figures_of(own: PartyRows, memory: Memory, round_id: int, held: Positions, *, norms: Array, loss: Loss) -> Array:
    """A party's part of the round's figures, of the samples `held`."""
    if not len(held):
        return np.zeros(FIGURES)
    y, place = labels_of(own)[held], memory.places[(MODEL, round_id)]
    start, end, alpha = memory.best_place.predictions[held], place.predictions[held], place.values[held]
    losses, correct = [], []
    for step in range(STEPS + 1):
        z = on_the_way(start, end, step)
        losses.append(loss.value(z, y).sum())
        correct.append(np.count_nonzero(np.where(z >= 0.0, 1.0, -1.0) == y))
    rest = [loss.conjugate(alpha, y).sum(), np.sqrt(norms[held]).sum(), alpha @ alpha]
    return np.array([*losses, *correct, *rest], dtype=np.float64) / own.sample_count


def numbers_of(own: PartyRows, memory: Memory, points: Sequence[Array], held: Positions, *, loss: Loss) -> Array:
    """Of new points, on the samples `held`: Σ l* of each and, if they matter, their products with all points."""
    if not len(held):
        return np.zeros(number_count(memory, len(points), loss=loss))
    y = labels_of(own)[held]
    numbers = [float(loss.conjugate(values[held], y).sum()) for values in points]
    if loss.conjugate_modulus > 0.0:
        known = [place.values if len(place.values) else np.zeros(own.count) for place in memory.places.values()]
        numbers += [float(new[held] @ other[held]) for new in points for other in (*known, *points)]
    return np.array(numbers) / own.sample_count


def number_count(memory: Memory, new: int, *, loss: Loss) -> int:
    """How many numbers `numbers_of` gives for `new` points."""
    return new + (new * (len(memory.places) + new) if loss.conjugate_modulus > 0.0 else 0)
