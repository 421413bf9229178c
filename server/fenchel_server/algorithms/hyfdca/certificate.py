"""The certificate of a HyFDCA round, made from its figures, and whether it ends the run."""

import math
from dataclasses import dataclass
from typing import Final

from fenchel_common.algorithms.dual import DualSettings
from fenchel_common.algorithms.hyfdca.messages import Figures
from fenchel_common.losses import Loss
from fenchel_server.algorithms.certificate import Certificate, Rounding, reached_gap
from fenchel_server.contract import Outcome

GAP_GROWTH_LIMIT: Final = 10.0
POOR_CERTIFICATES_LIMIT: Final = 5


def certify(figures: Figures, *, settings: DualSettings, rounding: Rounding) -> Certificate:
    """The certificate from the figures.

    The caller must ensure that the figures cover all samples and features, and that w = w(α).
    """
    primal = figures.regulariser + figures.mean_loss
    dual = dual_value(figures)
    error = gap_error(figures, lambda_=settings.lambda_, loss=settings.loss_function, rounding=rounding)
    return Certificate(
        primal=primal,
        dual=dual,
        gap=primal - dual + error,
        gap_error=error,
        fit=settings.fit(figures.accuracy),
    )


def dual_value(figures: Figures) -> float:
    """D(α)."""
    return -figures.regulariser - figures.mean_conjugate


def gap_error(figures: Figures, *, lambda_: float, loss: Loss, rounding: Rounding) -> float:
    """The largest possible error of P − D.

    D has λ/2‖w̃‖² instead of λ/2‖w(α)‖², which differ by λ(‖w̃‖δ + δ²/2) at most. P − D is the sum of mean loss,
    mean conjugate and twice the regulariser.
    """
    norm = math.sqrt(2.0 * (max(figures.regulariser, 0.0) + rounding.figures) / lambda_)
    model = lambda_ * (norm * rounding.model + rounding.model**2 / 2.0)
    losses = loss.mean_error(rounding.predictions, mean_loss=figures.mean_loss + rounding.figures)
    return losses + model + 4.0 * rounding.figures


@dataclass(slots=True)
class DivergenceWatch:
    """Decides whether a run diverges.

    At α = 0 the gap is the loss at 0, called `initial_gap`. Where that depends on the labels, the gap of the first
    certificate that the server sees takes its place. A certificate is poor if its gap is above `initial_gap`, or
    many times the best gap so far and still large. Several poor certificates in a row are divergence.
    """

    initial_gap: float | None
    best_gap: float | None = None
    poor: int = 0

    @classmethod
    def of(cls, loss: Loss) -> "DivergenceWatch":
        """The watch of a run with this loss, before its first certificate."""
        return cls(initial_gap=loss.at_zero)

    def diverges(self, gap: float) -> bool:
        """Takes the gap of the next certificate, and returns whether the run diverges."""
        best = gap if self.best_gap is None else self.best_gap
        if self.initial_gap is None:
            self.initial_gap = gap
        relapsed = gap > GAP_GROWTH_LIMIT * best and gap > self.initial_gap / GAP_GROWTH_LIMIT
        self.poor = self.poor + 1 if gap > self.initial_gap or relapsed else 0
        self.best_gap = min(best, gap)
        return self.poor >= POOR_CERTIFICATES_LIMIT


def ending_of(certificate: Certificate, *, goal: float | None, watch: DivergenceWatch) -> tuple[Outcome, str] | None:
    """The outcome and its reason if the run ends with this certificate, else None; `watch` takes its gap."""
    if (reached := reached_gap(certificate, goal)) is not None:
        return reached
    if watch.diverges(certificate.gap):
        cure = "set h to fewer samples, or raise lambda"
        return Outcome.DIVERGED, f"the duality gap grows instead of falling; {cure}"
    return None
