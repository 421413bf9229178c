"""The duality-gap certificate, and how far fixed point can put it off."""

import math
from dataclasses import dataclass

from fenchel_common.algorithms.dual import PRODUCT_FORMAT
from fenchel_common.layout import FederationLayout


@dataclass(frozen=True, slots=True)
class Certificate:
    """P(w), D(α) and the gap that bounds the distance to the optimum, fixed-point error included."""

    primal: float
    dual: float
    gap: float
    gap_error: float
    accuracy: float


@dataclass(frozen=True, slots=True)
class Rounding:
    """How far fixed point can put the numbers off that a certificate is made of.

    α itself is exact: it is the fixed-point number that the parties hold. The w that they hold, w̃, is the sum of the
    rounded shares of w(α). P is taken at w̃, which is as good a model as any other; D is of α.

    Attributes
    ----------
    losses
        The mean loss, by inner products. Each holder's part of one is off by half a unit at most.
    model
        δ ≥ ‖w̃ − w(α)‖.
    figures
        Each of the figures, as the sum of rounded shares.
    """

    losses: float
    model: float
    figures: float

    @classmethod
    def of(cls, layout: FederationLayout, *, lipschitz: float, contributions: int) -> "Rounding":
        """For a federation whose figures are sums of `contributions` parts."""
        off = [
            len(block.features) * PRODUCT_FORMAT.error_bound(len(block.holders)) ** 2 for block in layout.feature_blocks
        ]
        return cls(
            losses=rounding_error(layout, lipschitz),
            model=math.sqrt(sum(off)),
            figures=PRODUCT_FORMAT.error_bound(contributions),
        )


def rounding_error(layout: FederationLayout, lipschitz: float) -> float:
    """The most by which fixed-point inner products change the mean loss, which is Lipschitz in them."""
    shared = [block for block in layout.blocks if block.id in layout.sample_index.shared]
    off = sum(block.size * PRODUCT_FORMAT.error_bound(len(block.holders)) for block in shared)
    return lipschitz * off / layout.sample_count
