"""Fewer points than rounds, where a screen could not show more: lines keep their extremes, bars become means."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

BUCKETS = 240
"""A chart shows at most so many bars or columns; a line at most a few points for each."""

Array = NDArray[np.float64]


def buckets_of(count: int, most: int = BUCKETS) -> list[slice]:
    """Neighbouring positions in at most `most` pieces of about equal length."""
    pieces = min(count, most)
    bounds = np.linspace(0, count, pieces + 1).astype(int)
    return [slice(int(first), int(end)) for first, end in pairwise(bounds)]


def kept_positions(series: Sequence[Array], most: int = BUCKETS) -> list[int]:
    """The positions at which lines are drawn: for each piece its ends, and every line's least and greatest value."""
    count = len(series[0])
    if count <= 2 * most:
        return list(range(count))
    kept = {0, count - 1}
    for piece in buckets_of(count, most):
        for values in series:
            part = values[piece]
            if np.isfinite(part).any():
                kept |= {piece.start + int(np.nanargmin(part)), piece.start + int(np.nanargmax(part))}
    return sorted(kept)


def means(values: Array, pieces: Sequence[slice]) -> list[float]:
    """The mean of each piece."""
    return [float(values[piece].mean()) for piece in pieces]
