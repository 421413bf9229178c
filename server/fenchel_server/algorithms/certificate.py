"""The duality-gap certificate, and the watch for divergence."""

import math
from dataclasses import dataclass
from typing import Final

from fenchel_common.algorithms.hyfdca import PRODUCT_FORMAT, Figures
from fenchel_common.layout import FederationLayout

GAP_GROWTH_LIMIT: Final = 10.0
POOR_CERTIFICATES_LIMIT: Final = 5


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
    def of(cls, layout: FederationLayout, *, lipschitz: float, shares: int) -> "Rounding":
        """For a federation whose figures are sums of `shares` parts."""
        off = [
            len(block.features) * PRODUCT_FORMAT.error_bound(len(block.holders)) ** 2 for block in layout.feature_blocks
        ]
        return cls(
            losses=rounding_error(layout, lipschitz),
            model=math.sqrt(sum(off)),
            figures=PRODUCT_FORMAT.error_bound(shares),
        )

    def gap_error(self, figures: Figures, lambda_: float) -> float:
        """The most by which P − D is off.

        D has λ/2‖w̃‖² in place of λ/2‖w(α)‖², which differ by λ(‖w̃‖δ + δ²/2) at most. P − D is the sum of mean loss,
        mean conjugate and twice the regulariser.
        """
        norm = math.sqrt(2.0 * (max(figures.regulariser, 0.0) + self.figures) / lambda_)
        model = lambda_ * (norm * self.model + self.model**2 / 2.0)
        return self.losses + model + 4.0 * self.figures


def certify(figures: Figures, *, lambda_: float, rounding: Rounding) -> Certificate:
    """Puts the figures together, which the caller vouches to cover all samples and features, with w = w(α)."""
    primal = figures.regulariser + figures.mean_loss
    dual = dual_value(figures)
    gap_error = rounding.gap_error(figures, lambda_)
    return Certificate(
        primal=primal,
        dual=dual,
        gap=primal - dual + gap_error,
        gap_error=gap_error,
        accuracy=figures.accuracy,
    )


def dual_value(figures: Figures) -> float:
    """D(α)."""
    return -figures.regulariser - figures.mean_conjugate


def rounding_error(layout: FederationLayout, lipschitz: float) -> float:
    """The most by which fixed-point inner products change the mean loss, which is Lipschitz in them."""
    shared = [block for block in layout.blocks if block.id in layout.sample_index.shared]
    off = sum(block.size * PRODUCT_FORMAT.error_bound(len(block.holders)) for block in shared)
    return lipschitz * off / layout.sample_count


@dataclass(slots=True)
class DivergenceWatch:
    """Tells a run that diverges from one that merely stumbles.

    At α = 0 the gap is the loss at 0. A certificate is poor if its gap is above that, or many times the best one seen
    and still large. Several poor ones in a row are divergence.
    """

    initial_gap: float
    best_gap: float | None = None
    poor: int = 0

    def diverges(self, gap: float) -> bool:
        best = gap if self.best_gap is None else self.best_gap
        relapsed = gap > GAP_GROWTH_LIMIT * best and gap > self.initial_gap / GAP_GROWTH_LIMIT
        self.poor = self.poor + 1 if gap > self.initial_gap or relapsed else 0
        self.best_gap = min(best, gap)
        return self.poor >= POOR_CERTIFICATES_LIMIT
