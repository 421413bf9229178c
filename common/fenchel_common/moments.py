"""Count, sum and sum of squares of each feature over all its holders, added under encryption without any rounding.

A sum is a whole number of units of 2^-56, a sum of squares one of units of 2^-112. Each is cut into *limbs* of 40 bits,
which all have the sign of the number. The limbs of up to 1024 parties can be added up in vectors of `PRODUCT_FORMAT`,
and the sums of limbs are exact as floats; from them follow the exact total, and the mean and variance of the pooled
values without cancellation, however far the values are from zero.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from fenchel_common.algorithms.dual import PRODUCT_FORMAT
from fenchel_common.errors import InvalidInput

Array = NDArray[np.float64]

LIMB_BITS: Final = 40
SUM_LIMBS: Final = 3
SQUARE_LIMBS: Final = 5
MOMENT_FIELDS: Final = 1 + SUM_LIMBS + SQUARE_LIMBS
"""The number of vectors by feature in which moments travel."""
UNIT_BITS: Final = 56
"""A sum is a multiple of 2^-56, and a sum of squares one of 2^-112."""
LARGEST: Final = 2.0**32
"""Values must be smaller than this in magnitude. The sums of ten million of them fit into their limbs."""
CONSTANT: Final = 1e-12
"""A feature whose standard deviation is at most this fraction of its mean is constant but for rounding."""


@dataclass(frozen=True, slots=True)
class Moments:
    """For each of m features: the number of values, their sum, and the sum of their squares, in units."""

    counts: Sequence[int] = field(repr=False)
    sums: Sequence[int] = field(repr=False)
    squares: Sequence[int] = field(repr=False)

    def limbs(self) -> Array:
        """(MOMENT_FIELDS, m) multiples of the resolution of `PRODUCT_FORMAT`, for vectors that are added."""
        rows = [self.counts, *_limbs(self.sums, SUM_LIMBS), *_limbs(self.squares, SQUARE_LIMBS)]
        return np.array(rows, dtype=np.float64) * PRODUCT_FORMAT.resolution

    @classmethod
    def from_limbs(cls, limbs: Array) -> Self:
        """The moments whose limbs, or sums of limbs, these are; `InvalidInput` if there are none."""
        whole = np.rint(limbs / PRODUCT_FORMAT.resolution)
        numbers = [[int(value) for value in row] for row in whole]
        counts, sums, squares = numbers[0], _joined(numbers[1 : 1 + SUM_LIMBS]), _joined(numbers[1 + SUM_LIMBS :])
        for count, total, square in zip(counts, sums, squares, strict=True):
            # Each party's sum of squares is rounded to a unit.
            if count < 0 or square < 0 or (count == 0 and (total or square)) or total**2 > (square + count) * count:
                raise InvalidInput("moments: no values have this count, sum and sum of squares")
        return cls(counts, sums, squares)

    def put(self, positions: Sequence[int], others: "Moments") -> "Moments":
        """These moments, with those of the features at `positions` replaced by others."""
        changed = [list(self.counts), list(self.sums), list(self.squares)]
        for own, given in zip(changed, (others.counts, others.sums, others.squares), strict=True):
            for position, value in zip(positions, given, strict=True):
                own[position] = value
        return Moments(*changed)

    def means(self) -> Array:
        """(m,) the mean of each feature; 0 where there is no value."""
        pairs = zip(self.counts, self.sums, strict=True)
        return np.array([_scaled(total, count, UNIT_BITS) if count else 0.0 for count, total in pairs])

    def deviations(self) -> Array:
        """(m,) the standard deviation of each feature, dividing by the number of values; 0 if it is constant."""
        found = []
        for count, total, square, mean in zip(self.counts, self.sums, self.squares, self.means(), strict=True):
            spread = max(count * square - total**2, 0)
            deviation = math.sqrt(_scaled(spread, count**2, 2 * UNIT_BITS)) if count else 0.0
            found.append(0.0 if deviation <= CONSTANT * abs(mean) else deviation)
        return np.array(found)

    def root_mean_squares(self) -> Array:
        """(m,) the root of the mean square of each feature; 0 where there is no value."""
        pairs = zip(self.counts, self.squares, strict=True)
        return np.array([math.sqrt(_scaled(square, count, 2 * UNIT_BITS)) if count else 0.0 for count, square in pairs])


def column_moments(values: Array, zeros: int = 0) -> tuple[int, int, int]:
    """Count, sum and sum of squares of a column that has these values and besides so many zeros.

    Computed about the column's own mean. `InvalidInput` for values that are too large.
    """
    count = len(values) + zeros
    if not count:
        return 0, 0, 0
    if len(values) and float(np.abs(values).max()) >= LARGEST:
        raise InvalidInput("the values are too large; give them in a larger unit")
    listed = values.tolist()
    rounded = math.fsum(listed)
    total = round((Fraction(rounded) + Fraction(math.fsum([*listed, -rounded]))) * (1 << UNIT_BITS))
    mean = _scaled(total, count, UNIT_BITS)
    # The mean is rounded; the second term takes out what that adds (the corrected two-pass algorithm).
    distances = values - mean
    rest = math.fsum(distances.tolist()) - zeros * mean
    about = max(math.fsum((distances**2).tolist()) + zeros * mean**2 - rest**2 / count, 0.0)
    square = round(Fraction(about) * (1 << 2 * UNIT_BITS)) + _rounded(total**2, count)
    return count, total, square


def _scaled(number: int, divisor: int, bits: int) -> float:
    """number / divisor · 2^-bits, rounded once."""
    return float(Fraction(number, divisor << bits))


def _rounded(number: int, divisor: int) -> int:
    return (2 * number + divisor) // (2 * divisor)


def _limbs(numbers: Sequence[int], count: int) -> list[list[int]]:
    mask = (1 << LIMB_BITS) - 1
    return [
        [(1 if number >= 0 else -1) * ((abs(number) >> (LIMB_BITS * limb)) & mask) for number in numbers]
        for limb in range(count)
    ]


def _joined(limbs: Sequence[Sequence[int]]) -> list[int]:
    return [sum(part << (LIMB_BITS * limb) for limb, part in enumerate(parts)) for parts in zip(*limbs, strict=True)]
