"""The duality-gap certificate, and a bound on its error by fixed point."""

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
    """Bounds on the errors that fixed point causes in the figures of a certificate.

    α itself is exact: the parties use the fixed-point numbers themselves. The parties' w, called w̃, is the sum of the
    rounded contributions to w(α). P is evaluated at w̃, which is a valid model like any other; D is evaluated at α.

    Attributes
    ----------
    losses
        The error of the mean loss by rounded inner products. Each holder's part of an inner product has an error of at
        most half a unit.
    model
        δ ≥ ‖w̃ − w(α)‖.
    figures
        The error of each of the figures as a sum of rounded contributions.
    """

    losses: float
    model: float
    figures: float

    @classmethod
    def of(cls, layout: FederationLayout, *, lipschitz: float, contributions: int) -> "Rounding":
        """The bounds for a federation in which each of the figures is the sum of `contributions` contributions."""
        off = [
            len(block.features) * PRODUCT_FORMAT.error_bound(len(block.holders)) ** 2 for block in layout.feature_blocks
        ]
        return cls(
            losses=rounding_error(layout, lipschitz),
            model=math.sqrt(sum(off)),
            figures=PRODUCT_FORMAT.error_bound(contributions),
        )


def rounding_error(layout: FederationLayout, lipschitz: float) -> float:
    """The most by which rounding the inner products changes the mean loss; `lipschitz` is the constant of the loss."""
    shared = [block for block in layout.blocks if block.id in layout.sample_index.shared]
    off = sum(block.size * PRODUCT_FORMAT.error_bound(len(block.holders)) for block in shared)
    return lipschitz * off / layout.sample_count
