"""The base class of losses: the primal value, the dual value and the exact one-dimensional dual step.

The problem and its dual, for samples x_i with labels y_i (equations 1 and 2 of the HyFDCA paper)::

    P(w) = λ/2 ‖w‖² + 1/N Σ l_i(x_i·w)
    D(α) = −λ/2 ‖w(α)‖² − 1/N Σ l_i*(−α_i),    w(α) = 1/(λN) Σ α_i x_i

A loss of a margin y·z, for labels −1 and +1, derives from `MarginLoss`; a loss of a residual y − z, for numbers as
labels, from `ResidualLoss`.

Signs follow the proofs of the paper: the "subgradient" u satisfies l(z) = −l*(−u) − u z, that is −u ∈ ∂l(z). So every
dual variable lies between −L and L, with L the steepest slope of l.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# A dual variable that is a sum of fixed-point numbers may leave its interval by a unit or two of 2^-32. It then counts
# as the nearer end of the interval; a dual variable further out is infeasible, and its conjugate is infinite.
FEASIBILITY_SLACK: Final = 2.0**-31
LARGEST_CHANGE: Final = 2048.0
"""The public bound of dual variables and their changes for a loss whose slope has none."""


@dataclass(frozen=True, slots=True)
class Deviation:
    """Upper bounds on the errors of the predictions of all samples: their mean and their root mean square."""

    mean: float
    root_mean_square: float

    def plus(self, other: "Deviation") -> "Deviation":
        """The bounds for the sum of two errors."""
        return Deviation(self.mean + other.mean, self.root_mean_square + other.root_mean_square)

    def times(self, factor: float) -> "Deviation":
        """The bounds for errors that are larger by a factor."""
        return Deviation(factor * self.mean, factor * self.root_mean_square)


@dataclass(frozen=True, slots=True)
class Fit:
    """How well a model predicts: the accuracy of classes, or the root of the mean squared error of numbers.

    `r2` is the share of the variance of these numbers that the model explains, where the run knows it.
    """

    accuracy: float | None = None
    rmse: float | None = None
    r2: float | None = None


class Loss(ABC):
    """A convex, non-negative loss that is zero, or tends to zero, somewhere.

    All methods are pure functions. They take and return arrays of one shape (n,), whose numbers must be finite; labels
    y must have passed `check_labels`. Every loss has a bounded slope (`lipschitz`) or a bounded second derivative
    (`conjugate_modulus` above 0): the error of a certificate by fixed point is derived from one of them.
    """

    name: str
    lipschitz: float
    """L, the steepest slope of l, or infinity. Certificates, the noise on a released model and the formats of dual
    variables depend on it, so each loss states it."""
    conjugate_modulus: float = 0.0
    """The least second derivative of l*: how strongly convex it is. That of l is at most its inverse."""
    rests: bool
    """Whether the best dual variable of a sample can stay exactly the same while the model changes."""
    regression: bool
    """Whether the labels are numbers to predict; otherwise they are −1 and +1, and predictions are right or wrong."""

    @property
    @abstractmethod
    def dual_change(self) -> float:
        """A public bound of |α| and of the distance of two feasible α; the format of their vectors follows from it."""

    @abstractmethod
    def value(self, z: Array, y: Array) -> Array:
        """l(z) for predictions z."""

    @abstractmethod
    def subgradient(self, z: Array, y: Array) -> Array:
        """u with −u ∈ ∂l(z): the dual variable that fits the prediction z."""

    @abstractmethod
    def conjugate(self, alpha: Array, y: Array) -> Array:
        """l*(−α); infinite outside the domain, up to `FEASIBILITY_SLACK`."""

    @abstractmethod
    def conjugate_curvature(self, alpha: Array, y: Array) -> Array:
        """The second derivative of l*(−α) in α; infinite where it has none, and at the ends of the domain."""

    @abstractmethod
    def feasible(self, alpha: Array, y: Array | None) -> Array:
        """The feasible dual variables nearest to α; for a party without labels, feasible with some label."""

    @abstractmethod
    def dual_step(self, alpha: Array, y: Array, ip: Array, curvature: Array) -> Array:
        """The Δ that maximises −l*(−(α+Δ)) − Δ·ip − curvature/2·Δ².

        Parameters
        ----------
        ip
            x·w, the prediction that the step starts from.
        curvature
            ‖x‖²/(λN) in the practical variant (Algorithm 5, line 6); zero is allowed.
        """

    def theory_step(self, alpha: Array, y: Array, ip: Array, curvature: Array, scale: float | Array) -> Array:
        """The s ∈ [0, 1] of Algorithm 3, for the direction d = scale·(u − α).

        It maximises −l*(−(α+s·d)) − s·d·ip − curvature/2·(s·d)² with scale = c_k·γ_t and curvature = ‖x‖²/λ. As a
        function of Δ = s·d this is the concave objective of `dual_step`, so its maximiser on the segment from 0 to
        d is the point of the segment nearest to the unconstrained one.
        """
        direction = scale * (self.subgradient(ip, y) - alpha)
        best = self.dual_step(alpha, y, ip, curvature)
        moving = direction != 0.0
        return np.clip(np.divide(best, direction, out=np.zeros_like(best), where=moving), 0.0, 1.0)

    @abstractmethod
    def check_labels(self, labels: Array) -> None:
        """Refuses labels that this loss cannot take, as `InvalidInput`, without showing them. Called before a run."""

    @abstractmethod
    def fit_sum(self, z: Array, y: Array) -> float:
        """The number of correct predictions; with a loss of regression, the sum of squared errors."""

    @abstractmethod
    def fit(self, mean: float) -> Fit:
        """How well a model predicts, from the mean of `fit_sum` over all samples."""

    @property
    @abstractmethod
    def at_zero(self) -> float | None:
        """l(0), if it is the same for all labels."""

    def mean_error(self, off: Deviation, *, mean_loss: float) -> float:
        """The most by which the mean loss changes if the predictions change by `off`.

        A slope of at most L gives L·mean. Without such a bound the second derivative is at most β = 1/μ, μ the modulus
        of l*. Since l ≥ 0, then l'² ≤ 2β·l, and the change is at most √(2β·mean_loss)·rms + β/2·rms² (Cauchy, Schwarz).
        """
        if math.isfinite(self.lipschitz):
            return self.lipschitz * off.mean
        smoothness = 1.0 / self.conjugate_modulus
        steepest = math.sqrt(2.0 * smoothness * max(mean_loss, 0.0))
        return steepest * off.root_mean_square + smoothness / 2.0 * off.root_mean_square**2
