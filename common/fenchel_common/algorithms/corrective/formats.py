"""The formats of a corrective run's vectors by sample.

In narrow slots, those of less than 64 bits, dual variables are encoded as they are, and an inner product x_i·w is
divided by a bound s_i ≥ ‖x_i‖·‖w‖, which all holders of sample i know and the server does not. By Cauchy and Schwarz
the magnitudes of the holders' parts of x_i·w/s_i sum to at most 1, so that no slot can overflow, whatever the data are.
A part is then off by at most s_i·2^-(f+1). docs/crypto.md derives the choice of the width.
"""

from dataclasses import dataclass
from typing import Self

from fenchel_common.algorithms.corrective.messages import POINT_PRODUCT_FORMAT
from fenchel_common.crypto.packing import VectorFormat


@dataclass(frozen=True, slots=True)
class SampleFormats:
    """The formats of vectors by sample.

    Attributes
    ----------
    alpha
        Of dual variables, and of the parties' shares of them.
    shares
        Of inner products divided by their bounds; None in a run of 64-bit slots.
    tolerance
        The largest mean error of the predictions with which inner products are sent in `shares`. Those with a larger
        one, and those without a known bound, are sent in `POINT_PRODUCT_FORMAT`.
    """

    alpha: VectorFormat
    shares: VectorFormat | None
    tolerance: float

    @classmethod
    def of(cls, bits: int, alpha: VectorFormat, *, tolerance: float) -> Self:
        """The formats in slots of so many bits; `alpha` is the format of dual variables in slots of 64 bits."""
        if bits == alpha.slot_bits:
            return cls(alpha, None, 0.0)
        return cls(VectorFormat(bits, alpha.bound, shares=True), VectorFormat(bits, 1.0, shares=True), tolerance)

    @property
    def products(self) -> tuple[VectorFormat, ...]:
        """The formats that inner products may have."""
        return (POINT_PRODUCT_FORMAT,) if self.shares is None else (POINT_PRODUCT_FORMAT, self.shares)
