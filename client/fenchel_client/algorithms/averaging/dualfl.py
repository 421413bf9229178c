"""DualFL at a party: a local problem with a shifted gradient, solved as exactly as the theory asks.

Local problem   (3.1): f_j(θ) − ν ⟨ζ_j, θ⟩, f_j(θ) = K/N Σ l_i(x_i·θ) + μ/2 ‖θ‖², over party j's rows
Update          v_j ← ζ_j − θ_j, where ξ_j = ν v_j is the dual variable (6.9a); ζ_j by (3.3)
Stopping rule   Γ^{n,j} is at most the tolerance of (3.7) or (3.8), which the server tells
State           the model θ = −1/K Σ v_j (3.2), θ of one round earlier, and Σ v_j
Memory          v_j and its last change

Reference: Park and Xu, DualFL, Algorithm 1; `fenchel_common.algorithms.averaging.dualfl` derives the form with v_j.
"""

import math

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.averaging.local_solvers import LocalSolution
from fenchel_client.algorithms.averaging.proximal import ConsensusClient, solve
from fenchel_client.algorithms.averaging.work import Contribution, Job, State, Update
from fenchel_common.algorithms.averaging.dualfl import (
    BETA,
    CHANGE,
    CRITERION_MET,
    DUAL,
    PREVIOUS,
    SMOOTHNESS,
    TOLERANCE,
    TOTAL,
    DualflSettings,
)
from fenchel_common.algorithms.averaging.proximal import CLIENTS, SAMPLE_WEIGHT
from fenchel_common.algorithms.averaging.rails import MODEL, MODEL_FORMAT
from fenchel_common.objectives import Matrix

Array = NDArray[np.float64]

NORM_PRECISION = 0.05
"""The most by which L is too large, relatively; ρ = ν/L need not be known more exactly."""
NORM_DOUBT = 1e-9
"""The probability, at most, that L is too small."""


def control_variate(dual: Array, change: Array, theta: Array, previous: Array, beta: float) -> Array:
    """ζ_j by (3.3), from v_j, its last change, and the model now and one round earlier."""
    return (1.0 + beta) * (dual + theta) - beta * (dual - change + previous)


def local_step(
    settings: DualflSettings, X: Matrix, y: Array, variate: Array, dual: Array, *, loss_weight: float, tolerance: float
) -> LocalSolution:
    """θ_j of (3.1) for the control variate ζ_j.

    The solver starts at ζ_j − v_j, the point that leaves the dual variable unchanged: the solution after convergence.

    Parameters
    ----------
    variate, dual
        ζ_j and v_j, (m·width,).
    loss_weight
        K/N.
    """
    return solve(
        settings,
        X,
        y,
        scale=loss_weight,
        mu=settings.strong_convexity,
        shift=settings.duality * variate,
        start=variate - dual,
        tolerance=tolerance,
    )


def smoothness(settings: DualflSettings, X: Matrix, *, loss_weight: float) -> float:
    """L of f_j: K/N · ‖X‖² times the loss's curvature, plus μ; ‖X‖² rounded up, as ρ ≤ ν/L needs."""
    assert settings.curvature is not None, "only a smooth loss has a curvature"
    return loss_weight * squared_norm_above(X) * settings.curvature + settings.strong_convexity


def squared_norm_above(X: Matrix) -> float:
    """A number from ‖X‖² to ‖X‖²/(1 − `NORM_PRECISION`), by the power method on XᵀX from a random direction.

    After t steps the method is below (1 − ε)‖X‖² with a probability of at most √r (1 − ε)^(t−1/2), r the smaller of the
    two sides of X (Kuczyński and Woźniakowski 1992, Theorem 4.1). Steps are taken until that is `NORM_DOUBT`.
    """
    steps = math.ceil(math.log(math.sqrt(min(X.shape)) / NORM_DOUBT) / -math.log1p(-NORM_PRECISION) + 0.5)
    direction: Array = np.random.default_rng(0).standard_normal((X.shape[1],))
    norm = 0.0
    for _ in range(steps):
        length = float(np.linalg.norm(direction))
        if length == 0.0:
            return 0.0
        direction = np.asarray(X.T @ (X @ (direction / length)), dtype=np.float64)
        norm = float(np.linalg.norm(direction))
    return norm / (1.0 - NORM_PRECISION)


class DualflClient(ConsensusClient[DualflSettings]):
    """The client half of DualFL."""

    _smoothness: float | None = None

    def train(self, state: State, job: Job) -> Contribution:
        loss_weight, dual = job.told[SAMPLE_WEIGHT], job.kept[DUAL]
        variate = control_variate(dual, job.kept[CHANGE], state[MODEL], state[PREVIOUS], job.told[BETA])
        solved = local_step(
            self.settings, self.X, self.labels(), variate, dual, loss_weight=loss_weight, tolerance=job.told[TOLERANCE]
        )
        # Rounded here, so that the changes add up to the dual variable without any further error.
        following = MODEL_FORMAT.rounded(variate - solved.theta)
        reported = {CRITERION_MET: float(solved.met)}
        if self.settings.asks_smoothness:
            if self._smoothness is None:
                self._smoothness = smoothness(self.settings, self.X, loss_weight=loss_weight)
            reported[SMOOTHNESS] = self._smoothness
        return Contribution({CHANGE: following - dual, DUAL: following}, reported)

    def apply(self, state: State, update: Update) -> State:
        total = state[TOTAL] + update.sums[CHANGE]
        return {MODEL: -total / update.told[CLIENTS], PREVIOUS: state[MODEL], TOTAL: total}
