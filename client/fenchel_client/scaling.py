"""How a run prepares the values of a party's features: x' = (x − shift) / scale, with a value for missing cells."""

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from fenchel_common.errors import InvalidInput
from fenchel_common.moments import Moments
from fenchel_common.ranges import RangeSearch
from fenchel_common.runsections import FeaturesConfig
from fenchel_common.wire.arrays import doubles_from_bytes, doubles_to_bytes

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Scaling:
    """(m,) for each feature, sorted by name: its shift, its scale, and the value of a cell that is missing.

    The same for a feature at all of its holders. `lengths` are those of the party's whole rows, in the order of its
    layout, by which they are divided; none if they are not.
    """

    shift: Array = field(repr=False)
    scale: Array = field(repr=False)
    missing: Array = field(repr=False)
    lengths: Array = field(default_factory=lambda: np.zeros(0), repr=False)

    @classmethod
    def of(
        cls, moments: Moments, config: FeaturesConfig, *, flags: NDArray[np.bool_], ranges: RangeSearch | None = None
    ) -> Self:
        """The scaling that follows from the moments and ranges of the features over all their holders.

        `flags` (m,) marks the features of 0 and 1 that the run has made. Their scale is 1: divided by its deviation, a
        value that one sample in a thousand has would outweigh every number. `ranges` is the search of a run with
        extremes or quantiles; features that it did not search get mean and deviation, and flags stay 0 and 1.
        """
        means = moments.means()
        shift, scale = np.zeros(len(means)), np.ones(len(means))
        if config.scale == "standard":
            shift, scale = means, moments.deviations()
        if config.scale == "rms":
            scale = moments.root_mean_squares()
        if ranges is not None:
            lower, *middle, upper = ranges.values()
            shift = np.where(ranges.searched, middle[0] if middle else lower, np.where(flags, 0.0, means))
            scale = np.where(ranges.searched, upper - lower, moments.deviations())
        return cls(shift, np.where((scale > 0.0) & ~flags, scale, 1.0), means)

    def with_constant(self, position: int, constant: float) -> Self:
        """The scaling that gives the feature at a position, whose value is 1, the value `constant`."""
        shift, scale = self.shift.copy(), self.scale.copy()
        shift[position], scale[position] = 0.0, 1.0 / constant
        return replace(self, shift=shift, scale=scale)

    @property
    def prepared_missing(self) -> Array:
        """(m,) the prepared value of a cell that is missing."""
        return (self.missing - self.shift) / self.scale

    def to_bytes(self) -> bytes:
        return doubles_to_bytes(np.concatenate([self.shift, self.scale, self.missing, self.lengths]))

    @classmethod
    def from_bytes(cls, data: bytes, *, features: int) -> Self:
        """Reads the scaling that this party wrote into the record of a run."""
        values = doubles_from_bytes(data, field="scaling")
        if len(values) < 3 * features or not np.isfinite(values).all():
            raise InvalidInput(f"scaling: must have three finite numbers for each of {features} features")
        shift, scale, missing, lengths = np.split(values, [features, 2 * features, 3 * features])
        return cls(shift, scale, missing, lengths)
