"""The labels of a run as its algorithm uses them: numbers shifted and scaled, and a weight for each sample."""

import math
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
    """A number y counts as (y − shift) / scale; a sample of a class counts `positive` or `negative` times.

    The same at all parties with labels.
    """

    shift: float = field(default=0.0, repr=False)
    scale: float = field(default=1.0, repr=False)
    positive: float = field(default=1.0, repr=False)
    negative: float = field(default=1.0, repr=False)

    @classmethod
    def of(cls, rules: LabelRules, moments: Moments | None) -> Self:
        """The scaling by the run's rules; `moments` are those of the labels of all samples, each counted once.

        Without moments, what the parties know before they have learnt any. `InvalidInput` for labels that cannot be
        standardised or balanced.
        """
        if moments is None or not rules.learns:
            return cls(positive=rules.positive, negative=rules.negative)
        if rules.standardise:
            (mean,), (deviation,) = moments.means().tolist(), moments.deviations().tolist()
            if not deviation > 0.0:
                raise InvalidInput("y: all numbers to predict are the same; there is nothing to learn")
            return cls(shift=mean, scale=deviation)
        (count,), (total,) = moments.counts, moments.sums
        positives = (count + total / (1 << UNIT_BITS)) / 2.0
        weights = [count / (2.0 * members) if members else math.inf for members in (positives, count - positives)]
        if math.inf in weights:
            raise InvalidInput("y: all samples are of one class; there is nothing to balance")
        check_weights(np.array(weights), largest=rules.largest)
        return cls(positive=weights[0], negative=weights[1])

    @classmethod
    def of_labels(cls, rules: LabelRules, y: Array) -> Self:
        """The scaling if `y` are the labels of all samples."""
        one = column_moments(y)
        return cls.of(rules, Moments(*([number] for number in one)))

    def applied(self, y: Array, weights: Array | None, rules: LabelRules) -> Array:
        """(n,) the labels, or (n, 2) labels and weights for a loss that is `Weighted`."""
        prepared = (y - self.shift) / self.scale
        if not rules.weighted:
            return prepared
        by_class = np.where(y > 0.0, self.positive, self.negative)
        return np.column_stack([prepared, by_class if weights is None else by_class * weights])

    def check_outliers(self, y: Array) -> None:
        """Raises `InvalidInput`, which shows no label, for numbers that are too far from the others once scaled."""
        if (np.abs(y - self.shift) > LARGEST_TARGET * self.scale).any():
            raise InvalidInput(
                f"y: a number to predict is more than {LARGEST_TARGET:g} standard deviations from the mean; correct it"
            )

    def to_bytes(self) -> bytes:
        return doubles_to_bytes(np.array([self.shift, self.scale, self.positive, self.negative]))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Reads the scaling that this party wrote into the record of a run."""
        values = doubles_from_bytes(data, field="labels")
        if values.shape != (4,) or not np.isfinite(values).all() or not (values[1:] > 0.0).all():
            raise InvalidInput("labels: must be a finite number and three positive ones")
        return cls(*values.tolist())
