"""The local problem of a party, in algorithms that solve one in each round, and the gap of a point from its solution.

Objective   h(θ) + μ/2 ‖θ‖² − ⟨c, θ⟩,  h(θ) = s Σ l_i(x_i·θ)
Dual        maximise −s Σ l_i*(−α_i) − μ/2 ‖θ(α)‖²,  θ(α) = (c + s Σ α_i x_i)/μ

(3.1) of the DualFL paper with c = ν ζ_j. Its criterion Γ of (3.6) compares θ_j with the dual point ν(ζ_j − θ_j), and is
infinite unless that point is in the domain of g_j*: with ν = μ, the span of the rows. So it cannot be used at every
iterate of a solver. But it is finite at θ(α) for every feasible α, and

    Γ(θ(α)) ≤ s Σ [l_i(x_i·θ(α)) + l_i*(−α_i) + α_i x_i·θ(α)],

with equality for ν = μ and α_i = −l_i'(x_i·θ) of a smooth loss, where it is the Bregman distance of h from θ to θ(α)
and needs no conjugate. A solver therefore returns θ(α), not its iterate θ, and stops when this bound is small enough.
For a smooth loss θ(α) = θ − ∇/μ, a gradient step.

Shapes: X (n, m), y (n,), θ and c (m,) or (m, k), predictions (n,) or (n, k).
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fenchel_common.objectives import Matrix

Array = NDArray[np.float64]


class LocalLoss(Protocol):
    """A convex loss of predictions z, (n,) or (n, k), at labels y, (n,); both methods are pure."""

    def value(self, z: Array, y: Array, /) -> Array:
        """(n,) the loss of each sample."""
        ...

    def subgradient(self, z: Array, y: Array, /) -> Array:
        """u, of the shape of z, with −u_i ∈ ∂l_i(z_i)."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Iterate:
    """A point θ of a smooth problem, with its predictions, losses and gradient.

    Attributes
    ----------
    z
        Predictions x_i·θ.
    losses
        l_i(z_i), (n,).
    alpha
        −l_i'(z_i), of the shape of `z`.
    gradient
        The gradient of the objective, of the shape of θ.
    slope
        Predictions of the gradient, x_i·∇.
    """

    theta: Array
    z: Array
    losses: Array
    alpha: Array
    gradient: Array
    slope: Array


@dataclass(frozen=True, slots=True, eq=False)
class LocalProblem:
    """The problem of this module: `scale` is s, `mu` is μ, `shift` is c."""

    X: Matrix
    y: Array
    loss: LocalLoss
    scale: float
    mu: float
    shift: Array

    def predictions(self, theta: Array) -> Array:
        return np.asarray(self.X @ theta, dtype=np.float64)

    def point(self, alpha: Array) -> Array:
        """θ(α) of dual variables α."""
        return (self.shift + self._pull(alpha)) / self.mu

    def iterate(self, theta: Array, z: Array) -> Iterate:
        """The iterate at θ, given its predictions z."""
        alpha = self.loss.subgradient(z, self.y)
        gradient = self.mu * theta - self.shift - self._pull(alpha)
        return Iterate(theta, z, self.loss.value(z, self.y), alpha, gradient, self.predictions(gradient))

    def value(self, theta: Array, losses: Array) -> float:
        """The objective at θ, given the losses there."""
        ridge = self.mu / 2.0 * float(np.vdot(theta, theta))
        return self.scale * float(losses.sum()) + ridge - float(np.vdot(self.shift, theta))

    def distance(self, at: Iterate, step: float) -> float:
        """The Bregman distance of h from θ to θ − step·∇."""
        moved = at.z - step * at.slope
        # α·(z' − z), summed over the classes of each sample.
        ahead = (at.alpha * at.slope).reshape(len(self.y), -1).sum(axis=1) * -step
        return self.scale * float((self.loss.value(moved, self.y) - at.losses + ahead).sum())

    def rounding(self, losses: Array) -> float:
        """The bound below which a gap is rounding error."""
        return 8.0 * float(np.finfo(np.float64).eps) * (1.0 + self.scale * float(losses.sum()))

    def _pull(self, alpha: Array) -> Array:
        """s Σ α_i x_i"""
        return self.scale * np.asarray(self.X.T @ alpha, dtype=np.float64)
