"""Differential privacy of a released model, by output perturbation.

The exact minimiser w* of P(w) = λ/2 ‖w‖² + 1/N Σ l_i(x_i·w), with L-Lipschitz losses and rows of ‖x_i‖ ≤ R, moves by at
most 2LR/(λN) when one row and its label are replaced by others. (At w* of the one data set the gradient of the other's
P, which is λ-strongly convex, is a difference of two terms l'·x/N.) A model whose certificate says P(w) − P(w*) ≤ gap
is within √(2·gap/λ) of w*, again by strong convexity, so that

    Δ = 2LR/(λN) + 2·√(2·gap/λ)

bounds how far the certified models of two such data sets are apart. Independent Gaussian noise of standard deviation σ
on every weight then is (ε, δ)-differentially private if and only if, with Φ the normal distribution function,

    Φ(Δ/(2σ) − εσ/Δ) − e^ε·Φ(−Δ/(2σ) − εσ/Δ) ≤ δ.

σ is the least that satisfies this, found by bisection: the analytic calibration, exact for every ε.

The noise protects one sample, across all parties that hold a part of it, against everyone who sees the released
weights. It does not protect P, D, gap and accuracy, which the server sees in every run, nor the model that the parties
keep. The fact that a model was released tells that all rows were short enough and that the gap was reached. The noise
is drawn in floating point. The server must follow the protocol.

References: Chaudhuri, Monteleoni, Sarwate, "Differentially Private Empirical Risk Minimization" (sensitivity); Balle,
Wang, "Improving the Gaussian Mechanism for Differential Privacy" (calibration).
"""

import math
from dataclasses import dataclass
from typing import Final, Self

from fenchel_common.algorithms.dual import PRODUCT_FORMAT
from fenchel_common.algorithms.settings import AlgorithmSettings
from fenchel_common.errors import InvalidConfig
from fenchel_common.layout import MAX_CLIENTS
from fenchel_common.losses import LOSSES

ROW_SLACK: Final = 1e-6
"""The fraction of its bound by which a row may be longer, because of rounding in floating point."""
NORM_ERROR: Final = PRODUCT_FORMAT.error_bound(MAX_CLIENTS)
"""The largest error of a squared length, up or down: the squared length of a shared row is a sum in fixed point."""
CALIBRATION: Final = 1e-12
"""The relative precision of σ. Apart from rounding, the computed σ is never below the exact one."""


@dataclass(frozen=True, slots=True)
class ReleaseNoise:
    """The guarantee of a noisy release and the noise that it takes; all fields are public.

    Attributes
    ----------
    row_bound
        R; a party with a longer row does not take part.
    gap
        The largest certified gap with which the model is released. It is the run's goal and not the gap that was
        reached, because σ must not depend on the data.
    """

    epsilon: float
    delta: float
    row_bound: float
    gap: float
    sensitivity: float
    sigma: float

    @classmethod
    def calibrated(
        cls,
        *,
        epsilon: float,
        delta: float,
        row_bound: float,
        gap: float | None,
        quorum: float,
        samples: int,
        settings: AlgorithmSettings,
    ) -> Self:
        """The noise of a run with these settings; raises `InvalidConfig` if Δ does not bound such a run's model."""
        goal = checked_goal(settings, gap=gap, quorum=quorum)
        sensitivity = model_sensitivity(
            lambda_=settings.lambda_,
            samples=samples,
            row_bound=longest(row_bound),
            gap=goal,
            lipschitz=settings.loss_function.lipschitz,
        )
        sigma = gaussian_sigma(epsilon=epsilon, delta=delta, sensitivity=sensitivity)
        return cls(epsilon, delta, row_bound, goal, sensitivity, sigma)


def checked_goal(settings: AlgorithmSettings, *, gap: float | None, quorum: float) -> float:
    """The gap that the run must reach; raises `InvalidConfig` if Δ does not bound such a run's model."""
    if not settings.privacy.encrypts_features:
        raise InvalidConfig("release: use privacy = 'sealed'; at other levels the server sees the model without noise")
    if not settings.family.bounds_model:
        raise InvalidConfig(
            "release: needs algorithm = 'hyfdca' with settings.local = 'corrective', which proves how far its model is "
            "from the optimum and lets every party see how long its rows are"
        )
    if settings.class_names:
        raise InvalidConfig(
            "release: the noise is for one model; a run of several classes cannot release models with it"
        )
    if quorum < 1.0:
        raise InvalidConfig(
            "release: needs round.quorum = 1.0, so that no run goes on without a party whose rows are long"
        )
    if not math.isfinite(settings.loss_function.lipschitz):
        bounded = [loss.name for loss in LOSSES.values() if math.isfinite(loss.lipschitz)]
        raise InvalidConfig(
            f"release: the slope of the loss {settings.loss} has no bound, so that no noise hides the effect of one "
            f"sample on the model; use one of {', '.join(bounded)}"
        )
    if gap is None:
        raise InvalidConfig("release: needs stop.gap, on which the noise depends")
    return gap


def longest(row_bound: float) -> float:
    """The greatest true length of a row that passes the check of its length.

    The check must pass every row within the bound, and a squared length can be off by `NORM_ERROR` up or down. So the
    check allows for the error once, and a row that passes can exceed that by the error again.
    """
    return math.sqrt((row_bound * (1.0 + ROW_SLACK)) ** 2 + 2.0 * NORM_ERROR)


def model_sensitivity(*, lambda_: float, samples: int, row_bound: float, gap: float, lipschitz: float = 1.0) -> float:
    """Δ: the largest L2 distance between the certified models of two data sets that differ in one sample."""
    return 2.0 * lipschitz * row_bound / (lambda_ * samples) + 2.0 * math.sqrt(2.0 * gap / lambda_)


def balanced_gap(settings: AlgorithmSettings, *, samples: int, row_bound: float) -> float:
    """The gap whose term in Δ equals the term of the data; with a larger gap, most of the noise is due to the gap."""
    return (settings.loss_function.lipschitz * longest(row_bound)) ** 2 / (2.0 * settings.lambda_ * samples**2)


def gaussian_sigma(*, epsilon: float, delta: float, sensitivity: float) -> float:
    """The least standard deviation that makes the Gaussian mechanism (ε, δ)-differentially private."""
    low, high = 0.0, 1.0
    while _delta_of(high, epsilon) > delta:
        low, high = high, 2.0 * high
    while high - low > CALIBRATION * high:
        middle = (low + high) / 2.0
        if _delta_of(middle, epsilon) > delta:
            low = middle
        else:
            high = middle
    return high * sensitivity


def _delta_of(sigma: float, epsilon: float) -> float:
    """The least δ that noise of standard deviation σ gives at sensitivity 1."""
    return _phi(0.5 / sigma - epsilon * sigma) - math.exp(epsilon) * _phi(-0.5 / sigma - epsilon * sigma)


def _phi(x: float) -> float:
    # By erfc, which keeps its relative precision in the tail, where δ lies.
    return 0.5 * math.erfc(-x / math.sqrt(2.0))
