"""Order statistics of features over all their holders, found by a search with counts alone.

A value is rounded to a float32 and becomes a *key*: a whole number of 32 bits, in the order of the values. The search
finds the key of each wanted rank from its highest bits on, 4 bits in a step: the holders count their keys below 15
thresholds, and the sums of the counts tell between which two thresholds the key of that rank lies. After 8 steps the
key is known. Counts are not rounded, so that the result is exactly that of the pooled values, rounded to float32.
"""

from dataclasses import dataclass, field, replace
from typing import Final, Literal, Self

import numpy as np
from numpy.typing import NDArray

from fenchel_common.algorithms.dual import PRODUCT_FORMAT
from fenchel_common.errors import InvalidInput
from fenchel_common.moments import Moments

Array = NDArray[np.float64]
Keys = NDArray[np.int64]

RangeScale = Literal["minmax", "quantile"]

KEY_BITS: Final = 32
STEP_BITS: Final = 4
STEPS: Final = KEY_BITS // STEP_BITS
THRESHOLDS: Final = 2**STEP_BITS - 1
RANKS: Final = {"minmax": 2, "quantile": 3}
"""The number of ranks that a scale needs: both ends, or the three quartiles."""
MOST_COUNTS: Final = max(RANKS.values()) * THRESHOLDS
"""The most vectors by feature in which the counts of a step travel."""
RESOLVED: Final = 1e-5
"""A float32 has 24 bits; of a feature whose deviation is a smaller fraction of its mean, too few of them would vary."""

_SIGN: Final = np.uint32(1 << (KEY_BITS - 1))


def keys_of(values: Array) -> Keys:
    """(n,) the keys of finite values, in the same order; both zeros have the same key."""
    bits = (values.astype(np.float32) + np.float32(0.0)).view(np.uint32)
    return np.where(bits & _SIGN, ~bits, bits | _SIGN).astype(np.int64)


def values_of(keys: Keys) -> Array:
    """The values of these keys."""
    bits = keys.astype(np.uint32)
    return np.where(bits & _SIGN, bits & ~_SIGN, ~bits).astype(np.uint32).view(np.float32).astype(np.float64)


@dataclass(frozen=True, slots=True)
class RangeSearch:
    """The search in m features, the same at all holders of a feature.

    Attributes
    ----------
    searched
        (m,) whether the feature is searched; the thresholds of others mean nothing.
    totals
        (m,) the number of values of each feature.
    ranks
        (r, m) the rank of each wanted key among all keys of its feature, from 1 on.
    found
        (r, m) the smallest key that each of them can still be.
    step
        The number of steps that are done.
    """

    searched: NDArray[np.bool_] = field(repr=False)
    totals: Keys = field(repr=False)
    ranks: Keys = field(repr=False)
    found: Keys = field(repr=False)
    step: int = 0

    @classmethod
    def of(cls, moments: Moments, scale: RangeScale, *, fewest: int, flags: NDArray[np.bool_]) -> Self:
        """The search before its first step.

        Not searched are `flags`, features of fewer than `fewest` values, constant ones, and those whose values are so
        close together, compared with their mean, that a float32 does not tell them apart.
        """
        totals, deviations = np.array(moments.counts, dtype=np.int64), moments.deviations()
        ranks = _ends(totals) if scale == "minmax" else _quartiles(totals)
        searched = ~flags & (totals >= fewest) & (deviations > RESOLVED * np.abs(moments.means()))
        return cls(searched, totals, ranks, np.zeros_like(ranks))

    @property
    def over(self) -> bool:
        return self.step == STEPS

    def thresholds(self) -> Keys:
        """(r, THRESHOLDS, m) the thresholds of the next step."""
        width = 1 << (KEY_BITS - STEP_BITS * (self.step + 1))
        return self.found[:, np.newaxis] + width * np.arange(1, THRESHOLDS + 1)[np.newaxis, :, np.newaxis]

    def after(self, counts: Keys) -> Self:
        """The search after a step; `counts` (r, THRESHOLDS, m) are the numbers of keys below each threshold.

        `InvalidInput` if no values of the searched features have these counts.
        """
        given = counts[:, :, self.searched]
        if (np.diff(given, axis=1) < 0).any() or (given < 0).any() or (given > self.totals[self.searched]).any():
            raise InvalidInput("counts: no values have these numbers of smaller ones")
        thresholds = self.thresholds()
        # The key of a rank is at least a threshold if fewer keys than the rank are below the threshold.
        passed = (counts < self.ranks[:, np.newaxis]).sum(axis=1)
        return replace(self, found=self.found + passed * (thresholds[:, 0] - self.found), step=self.step + 1)

    def values(self) -> Array:
        """(r, m) the values of the wanted ranks, once the search is over; 0 for features that are not searched."""
        assert self.over, "the last bits of the keys are not known yet"
        return np.where(self.searched, values_of(self.found), 0.0)


def counts_to_values(counts: Keys) -> Array:
    """(r · THRESHOLDS, m) the counts as multiples of the resolution of `PRODUCT_FORMAT`, for vectors that are added."""
    return counts.reshape(-1, counts.shape[-1]).astype(np.float64) * PRODUCT_FORMAT.resolution


def counts_from_values(values: Array) -> Keys:
    """(r, THRESHOLDS, m) the counts whose sums these are."""
    whole = np.rint(values / PRODUCT_FORMAT.resolution).astype(np.int64)
    return whole.reshape(-1, THRESHOLDS, values.shape[-1])


def _ends(totals: Keys) -> Keys:
    return np.stack([np.ones_like(totals), totals])


def _quartiles(totals: Keys) -> Keys:
    """The quartile q of n values is the smallest value that at least q·n values do not exceed."""
    return np.stack([-(-quarters * totals // 4) for quarters in (1, 2, 3)])
