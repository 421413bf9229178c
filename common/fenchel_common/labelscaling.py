"""The labels of a run as its algorithm uses them: numbers shifted and scaled, and a weight for each sample."""

from dataclasses import dataclass, field
from typing import Self

import numpy as np

from fenchel_common.algorithms.dual import LARGEST_TARGET
from fenchel_common.errors import InvalidInput
from fenchel_common.labelrules import LabelRules
from fenchel_common.losses.base import Array
from fenchel_common.losses.weighted import check_weights
from fenchel_common.moments import UNIT_BITS, Moments, column_moments
from fenchel_common.wire.arrays import doubles_from_bytes, doubles_to_bytes


@dataclass(frozen=True, slots=True)
class LabelScaling:
    """A number y counts as (y − shift) / scale; in each problem a sample counts `positive` or `negative` times.

    The same at all parties with labels.
    """

    shift: float = field(default=0.0, repr=False)
    scale: float = field(default=1.0, repr=False)
    positive: tuple[float, ...] = field(default=(1.0,), repr=False)
    negative: tuple[float, ...] = field(default=(1.0,), repr=False)

    @classmethod
    def of(cls, rules: LabelRules, moments: Moments | None) -> Self:
        """The scaling by the run's rules; `moments` are those of the labels of all samples in each problem.

        Every sample counts once in them. Without moments, what the parties know before they have learnt any.
        `InvalidInput` for labels that cannot be standardised or balanced.
        """
        if moments is None or not rules.learns:
            return cls(positive=rules.positive, negative=rules.negative)
        if rules.standardise:
            (mean,), (deviation,) = moments.means().tolist(), moments.deviations().tolist()
            if not deviation > 0.0:
                raise InvalidInput("y: all numbers to predict are the same; there is nothing to learn")
            return cls(shift=mean, scale=deviation)
        counts, totals = np.array(moments.counts, dtype=np.float64), np.array(moments.sums) / (1 << UNIT_BITS)
        positives = (counts + totals.astype(np.float64)) / 2.0
        if not (np.minimum(positives, counts - positives) > 0.0).all():
            raise InvalidInput("y: a class has no samples, or all of them; there is nothing to balance")
        positive, negative = counts / (2.0 * positives), counts / (2.0 * (counts - positives))
        check_weights(np.concatenate([positive, negative]), largest=rules.largest)
        return cls(positive=tuple(positive.tolist()), negative=tuple(negative.tolist()))

    @classmethod
    def of_labels(cls, rules: LabelRules, y: Array) -> Self:
        """The scaling if `y` are the labels of all samples."""
        return cls.of(rules, label_moments(rules, y) if rules.learns else None)

    def applied(self, y: Array, weights: Array | None, rules: LabelRules) -> Array:
        """(n,) the labels, or (n, 1 + problems) the labels and each problem's weights, if samples have weights."""
        prepared = (y - self.shift) / self.scale
        if not rules.weighted:
            return prepared
        own = np.ones(len(y)) if weights is None else weights
        pairs = zip(rules.labels_of_problems(y), self.positive, self.negative, strict=True)
        return np.column_stack([prepared, *(own * np.where(labels > 0.0, up, down) for labels, up, down in pairs)])

    def check_outliers(self, y: Array) -> None:
        """Raises `InvalidInput`, which shows no label, for numbers that are too far from the others once scaled."""
        if (np.abs(y - self.shift) > LARGEST_TARGET * self.scale).any():
            raise InvalidInput(
                f"y: a number to predict is more than {LARGEST_TARGET:g} standard deviations from the mean; correct it"
            )

    def to_bytes(self) -> bytes:
        return doubles_to_bytes(np.array([self.shift, self.scale, *self.positive, *self.negative]))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Reads the scaling that this party wrote into the record of a run."""
        values = doubles_from_bytes(data, field="labels")
        if len(values) < 4 or len(values) % 2 or not np.isfinite(values).all() or not (values[1:] > 0.0).all():
            raise InvalidInput("labels: must be a finite number and an odd number of positive ones")
        shift, scale, *weights = values.tolist()
        half = len(weights) // 2
        return cls(shift, scale, tuple(weights[:half]), tuple(weights[half:]))


def label_moments(rules: LabelRules, y: Array) -> Moments:
    """Count, sum and sum of squares of the labels of each problem."""
    counts, sums, squares = zip(*map(column_moments, rules.labels_of_problems(y)), strict=True)
    return Moments(counts, sums, squares)
