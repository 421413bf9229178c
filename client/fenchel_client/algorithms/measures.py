"""A party's part of the numbers that all parties know of the places of a corrective run, each divided by N."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.holdings import Holdings, Positions
from fenchel_client.algorithms.hull import Memory, Place
from fenchel_common.losses import Loss

Array = NDArray[np.float64]

FIGURES = 5


def figures_of(own: Holdings, place: Place, held: Positions, *, norms: Array, loss: Loss) -> Array:
    """Of the samples `held`: losses, conjugates, correct predictions, row norms and α²."""
    if not len(held):
        return np.zeros(FIGURES)
    z, y = place.predictions[held], own.labels()[held]
    sums = [
        loss.value(z, y).sum(),
        loss.conjugate(place.values[held], y).sum(),
        np.count_nonzero(np.where(z >= 0.0, 1.0, -1.0) == y),
        np.sqrt(norms[held]).sum(),
        place.values[held] @ place.values[held],
    ]
    return np.array(sums, dtype=np.float64) / own.sample_count


def numbers_of(own: Holdings, memory: Memory, points: Sequence[Array], held: Positions, *, loss: Loss) -> Array:
    """Of new points, on the samples `held`: Σ l* of each and, if they matter, their products with all points."""
    if not len(held):
        return np.zeros(number_count(memory, len(points), loss=loss))
    y = own.labels()[held]
    numbers = [float(loss.conjugate(values[held], y).sum()) for values in points]
    if loss.conjugate_modulus > 0.0:
        known = [place.values if len(place.values) else np.zeros(own.rows) for place in memory.places.values()]
        numbers += [float(new[held] @ other[held]) for new in points for other in (*known, *points)]
    return np.array(numbers) / own.sample_count


def number_count(memory: Memory, new: int, *, loss: Loss) -> int:
    """How many numbers `numbers_of` gives for `new` points."""
    return new + (new * (len(memory.places) + new) if loss.conjugate_modulus > 0.0 else 0)
