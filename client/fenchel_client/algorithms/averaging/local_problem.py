"""A party's own problem in algorithms that solve one each round, and how near a point is to its solution.

Objective   h(θ) + μ/2 ‖θ‖² − ⟨c, θ⟩,  h(θ) = s Σ l_i(x_i·θ)
Dual        maximise −s Σ l_i*(−α_i) − μ/2 ‖θ(α)‖²,  θ(α) = (c + s Σ α_i x_i)/μ

(3.1) of the DualFL paper with c = ν ζ_j. Its criterion Γ of (3.6) compares θ_j with the dual point ν(ζ_j − θ_j), and is
infinite unless that point is in the domain of g_j*: with ν = μ, the span of the rows. So it cannot be used at whatever
point a solver has arrived. But it is finite at θ(α) for every feasible α, and

    Γ(θ(α)) ≤ s Σ [l_i(x_i·θ(α)) + l_i*(−α_i) + α_i x_i·θ(α)],

with equality for ν = μ and α_i = −l_i'(x_i·θ) of a smooth loss, where it is the Bregman distance of h from θ to θ(α)
and needs no conjugate. A solver therefore returns θ(α), not its iterate θ, and stops when this is small enough. For a
smooth loss θ(α) = θ − ∇/μ, a gradient step.

Shapes: X (n, m), y (n,), θ and c (m,) or (m, k), predictions (n,) or (n, k).
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fenchel_common.objectives import Matrix

Array = NDArray[np.float64]


class LocalLoss(Protocol):
    """A convex loss of a prediction."""

    def value(self, z: Array, y: Array, /) -> Array: ...

    def subgradient(self, z: Array, y: Array, /) -> Array:
        """u with −u ∈ ∂l(z)."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Iterate:
    """A point θ of a smooth problem with what a solver needs there.

    Attributes
    ----------
    z
        Predictions x_i·θ.
    losses
        l_i(z_i), (n,).
    alpha
        −l_i'(z_i), of the shape of `z`.
    gradient
        Of the objective, of the shape of θ; `slope` has its predictions.
    """

    theta: Array
    z: Array
    losses: Array
    alpha: Array
    gradient: Array
    slope: Array


@dataclass(frozen=True, slots=True, eq=False)
class LocalProblem:
    """`scale` is s, `mu` the strong convexity, `shift` c."""

    X: Matrix
    y: Array
    loss: LocalLoss
    scale: float
    mu: float
    shift: Array

    def predictions(self, theta: Array) -> Array:
        return np.asarray(self.X @ theta, dtype=np.float64)

    def point(self, alpha: Array) -> Array:
        """θ(α)"""
        return (self.shift + self._pull(alpha)) / self.mu

    def iterate(self, theta: Array, z: Array) -> Iterate:
        """A point, given its predictions too."""
        alpha = self.loss.subgradient(z, self.y)
        gradient = self.mu * theta - self.shift - self._pull(alpha)
        return Iterate(theta, z, self.loss.value(z, self.y), alpha, gradient, self.predictions(gradient))

    def value(self, theta: Array, losses: Array) -> float:
        """The objective."""
        ridge = self.mu / 2.0 * float(np.vdot(theta, theta))
        return self.scale * float(losses.sum()) + ridge - float(np.vdot(self.shift, theta))

    def distance(self, at: Iterate, step: float) -> float:
        """The Bregman distance of h from θ to θ − step·∇."""
        moved = at.z - step * at.slope
        # α·(z' − z) with the sample's classes summed up.
        ahead = (at.alpha * at.slope).reshape(len(self.y), -1).sum(axis=1) * -step
        return self.scale * float((self.loss.value(moved, self.y) - at.losses + ahead).sum())

    def rounding(self, losses: Array) -> float:
        """Below this a gap is rounding error."""
        return 8.0 * float(np.finfo(np.float64).eps) * (1.0 + self.scale * float(losses.sum()))

    def _pull(self, alpha: Array) -> Array:
        """s Σ α_i x_i"""
        return self.scale * np.asarray(self.X.T @ alpha, dtype=np.float64)
