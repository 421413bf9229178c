"""The duality gap that a party finds in the figures of a certificate, and what cannot be a gap."""

import math
from typing import Final

from fenchel_common.algorithms.dual import PRODUCT_FORMAT
from fenchel_common.algorithms.hyfdca.messages import Figures
from fenchel_common.algorithms.hyfdca.settings import HyfdcaSettings
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.errors import InvalidInput
from fenchel_common.losses import Deviation

ARITHMETIC_ERROR: Final = 1e-6
"""For floating point, and for dual variables that were corrected to the nearest feasible ones; relative to 1 + P."""


def checked_gap(figures: Figures, *, settings: HyfdcaSettings, layout: ClientLayout) -> float:
    """P − D; `InvalidInput` if it is negative beyond rounding.

    By weak duality P(w) ≥ D(α) for every w and every feasible α. So a lower P belongs to no model: the figures are of
    samples or of a model that do not fit together.
    """
    primal = figures.mean_loss + figures.regulariser
    gap = primal + figures.mean_conjugate + figures.regulariser
    if not gap >= -_tolerance(figures, settings, layout) - ARITHMETIC_ERROR * (1.0 + abs(primal)):
        raise InvalidInput("totals: the primal objective is below the dual one, which no honest run has")
    return gap


def _tolerance(figures: Figures, settings: HyfdcaSettings, layout: ClientLayout) -> float:
    """The most by which fixed point lowers P − D.

    Each inner product, each weight and each of the figures is a sum of at most as many rounded numbers as there are
    parties, and so is off by at most `unit`. The model is then off by at most δ = unit·√m. D has λ/2‖w̃‖² instead of
    λ/2‖w(α)‖², which differ by λ(‖w̃‖δ + δ²/2) at most. P − D is the sum of mean loss, mean conjugate and twice the
    regulariser.
    """
    unit = PRODUCT_FORMAT.error_bound(len(layout.clients))
    off = unit * math.sqrt(layout.feature_count)
    norm = math.sqrt(2.0 * (max(figures.regulariser, 0.0) + unit) / settings.lambda_)
    model = settings.lambda_ * (norm * off + off**2 / 2.0)
    losses = settings.loss_function.mean_error(Deviation(unit, unit), mean_loss=figures.mean_loss + unit)
    return losses + model + 4.0 * unit
