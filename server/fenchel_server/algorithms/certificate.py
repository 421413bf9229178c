"""The duality-gap certificate, and a bound on its error by fixed point."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from fenchel_common.algorithms.dual import PRODUCT_FORMAT
from fenchel_common.layout import FederationLayout
from fenchel_common.losses import Deviation, Fit
from fenchel_common.metrics import R2, RMSE, RoundMetrics
from fenchel_server.contract import Outcome


@dataclass(frozen=True, slots=True)
class Certificate:
    """P(w), D(α) and the gap that bounds the distance to the optimum, fixed-point error included."""

    primal: float
    dual: float
    gap: float
    gap_error: float
    fit: Fit


def reached_gap(certificate: Certificate, goal: float | None) -> tuple[Outcome, str] | None:
    """The outcome and its reason if the gap is at most the `goal`, else None; a run without a goal has None."""
    if goal is not None and certificate.gap <= goal:
        return Outcome.CONVERGED, f"the duality gap is at most {goal:g}"
    return None


def with_certificate(metrics: RoundMetrics, certificate: Certificate | None, notes: Iterable[str]) -> RoundMetrics:
    """The metrics of a round with its certificate, if there is one, and with the notes that are not empty."""
    metrics = replace(metrics, note="; ".join(note for note in notes if note))
    if certificate is None:
        return metrics
    return replace(
        metrics,
        primal=certificate.primal,
        dual=certificate.dual,
        gap=certificate.gap,
        gap_error=certificate.gap_error,
        accuracy=certificate.fit.accuracy,
        figures=fit_figures(certificate.fit),
    )


def fit_figures(fit: Fit) -> dict[str, float]:
    """The figures of a round that say how well its model predicts numbers; empty for classes."""
    return {name: value for name, value in ((RMSE, fit.rmse), (R2, fit.r2)) if value is not None}


@dataclass(frozen=True, slots=True)
class Rounding:
    """Bounds on the errors that fixed point causes in the figures of a certificate.

    α itself is exact: the parties use the fixed-point numbers themselves. The parties' w, called w̃, is the sum of the
    rounded contributions to w(α). P is evaluated at w̃, which is a valid model like any other; D is evaluated at α.

    Attributes
    ----------
    predictions
        The errors of predictions by rounded inner products. Each holder's part of an inner product has an error of at
        most half a unit.
    model
        δ ≥ ‖w̃ − w(α)‖.
    figures
        The error of each of the figures as a sum of rounded contributions.
    """

    predictions: Deviation
    model: float
    figures: float

    @classmethod
    def of(cls, layout: FederationLayout, *, contributions: int) -> "Rounding":
        """The bounds for a federation in which each of the figures is the sum of `contributions` contributions."""
        off = [
            len(block.features) * PRODUCT_FORMAT.error_bound(len(block.holders)) ** 2 for block in layout.feature_blocks
        ]
        return cls(
            predictions=rounded_products(layout),
            model=math.sqrt(sum(off)),
            figures=PRODUCT_FORMAT.error_bound(contributions),
        )


def rounded_products(layout: FederationLayout) -> Deviation:
    """The most by which rounding the inner products changes the predictions."""
    shared = [block for block in layout.blocks if block.id in layout.sample_index.shared]
    off = [(block.size, PRODUCT_FORMAT.error_bound(len(block.holders))) for block in shared]
    return Deviation(
        mean=sum(size * error for size, error in off) / layout.sample_count,
        root_mean_square=math.sqrt(sum(size * error**2 for size, error in off) / layout.sample_count),
    )
