"""What has changed in an array that both sides keep."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fenchel_common.errors import InvalidInput

BYTES_BY_VALUE = 8
BYTES_BY_CHANGE = 12  # a value and a 32-bit position


@dataclass(frozen=True, slots=True, eq=False)
class ArrayChange:
    """New values at some positions of an array of `length` entries; `positions` is None when all are given."""

    length: int
    positions: NDArray[np.int64] | None
    values: NDArray[np.float64]

    def __post_init__(self) -> None:
        given = self.length if self.positions is None else len(self.positions)
        if self.values.shape != (given,):
            raise InvalidInput(f"values: {len(self.values)} entries where {given} are due")
        if not np.isfinite(self.values).all():
            raise InvalidInput("values: an entry is NaN or infinite")
        if self.positions is not None and len(self.positions):
            ascending = bool((np.diff(self.positions) > 0).all())
            if not ascending or self.positions[0] < 0 or self.positions[-1] >= self.length:
                raise InvalidInput(f"positions: must be ascending and below {self.length}")

    @property
    def is_whole(self) -> bool:
        return self.positions is None

    @classmethod
    def between(cls, old: NDArray[np.float64] | None, new: NDArray[np.float64]) -> "ArrayChange":
        """The smaller of the changed entries and the whole array; the whole array if `old` is unknown."""
        if old is None:
            return cls(len(new), None, new)
        # Compared as bits, so that the receiver ends with the very same array, signed zeros included.
        changed = np.flatnonzero(old.view(np.uint64) != new.view(np.uint64))
        if BYTES_BY_CHANGE * len(changed) >= BYTES_BY_VALUE * len(new):
            return cls(len(new), None, new)
        return cls(len(new), changed.astype(np.int64), new[changed])

    def applied_to(self, old: NDArray[np.float64]) -> NDArray[np.float64]:
        if old.shape != (self.length,):
            raise InvalidInput(f"length: a change of {self.length} entries does not fit an array of {len(old)}")
        if self.positions is None:
            return self.values.copy()
        new = old.copy()
        new[self.positions] = self.values
        return new
