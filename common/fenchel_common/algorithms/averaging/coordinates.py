"""Blocks of coordinates: those of features with the same holders, cut into S slots, with numbers of their own."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fenchel_common.algorithms.averaging.rails import Positions


def coordinates_of(features: Positions, width: int) -> Positions:
    """The coordinates of some features, feature by feature: a coordinate is feature·width + class."""
    return np.asarray((features[:, np.newaxis] * width + np.arange(width)).reshape(-1), dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """A block of coordinates, which are ordered as the features of its cohort."""

    number: int
    coordinates: Positions


def pieces(features: Positions, *, first_block: int, width: int, slots: int) -> Iterator[Piece]:
    """The blocks of the coordinates of one cohort.

    They are numbered from `width` times the number of the cohort's first block of features, so that everybody who holds
    the cohort gives them the same numbers, and no two cohorts have a number in common. With a width of 1 they are the
    blocks of features.
    """
    coordinates = coordinates_of(features, width)
    for position, start in enumerate(range(0, len(coordinates), slots)):
        yield Piece(first_block * width + position, coordinates[start : start + slots])
