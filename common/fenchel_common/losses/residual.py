"""Losses of a residual, for labels that are numbers: regression."""

import math
from abc import abstractmethod

import numpy as np

from fenchel_common.errors import InvalidInput
from fenchel_common.losses.base import FEASIBILITY_SLACK, LARGEST_CHANGE, Array, Fit, Loss


class ResidualLoss(Loss):
    """l(z) = ψ(y − z), for a convex, non-negative and even ψ with ψ(0) = 0.

    The conjugate is l*(−α) = ψ*(α) − α·y. It is finite for |α| ≤ L, with L the steepest slope of ψ, which ψ must reach
    or approach; L may be infinite. A subclass sets `name`, `lipschitz` and `rests` and implements the abstract methods.
    """

    regression = True

    @property
    def dual_change(self) -> float:
        return min(2.0 * self.lipschitz, LARGEST_CHANGE)

    def value(self, z: Array, y: Array) -> Array:
        return self._residual_value(y - z)

    def subgradient(self, z: Array, y: Array) -> Array:
        return self._residual_slope(y - z)

    def conjugate(self, alpha: Array, y: Array) -> Array:
        feasible = np.abs(alpha) <= self.lipschitz + FEASIBILITY_SLACK
        inside = np.clip(alpha, -self.lipschitz, self.lipschitz)
        return np.where(feasible, self._residual_conjugate(inside) - inside * y, np.inf)

    def conjugate_curvature(self, alpha: Array, y: Array) -> Array:
        del y
        return np.where(np.abs(alpha) < self.lipschitz, self._residual_conjugate_curvature(alpha), np.inf)

    def feasible(self, alpha: Array, y: Array | None) -> Array:
        del y
        return np.clip(alpha, -self.lipschitz, self.lipschitz)

    def dual_step(self, alpha: Array, y: Array, ip: Array, curvature: Array) -> Array:
        return self._best_dual(alpha, y - ip, curvature) - alpha

    def check_labels(self, labels: Array) -> None:
        if not np.isfinite(labels).all():
            raise InvalidInput(f"y: the {self.name} loss takes finite numbers only")

    def fit_sum(self, z: Array, y: Array) -> float:
        return float(((z - y) ** 2).sum())

    def fit(self, mean: float) -> Fit:
        return Fit(rmse=math.sqrt(max(mean, 0.0)))  # a sum of rounded contributions can be slightly below zero

    @property
    def at_zero(self) -> None:
        return None

    @abstractmethod
    def _residual_value(self, residual: Array) -> Array:
        """ψ(r), for any finite r."""

    @abstractmethod
    def _residual_slope(self, residual: Array) -> Array:
        """ψ'(r), or one of its values where ψ has a kink; between −L and L."""

    @abstractmethod
    def _residual_conjugate(self, a: Array) -> Array:
        """ψ*(a). The caller ensures |a| ≤ L."""

    @abstractmethod
    def _residual_conjugate_curvature(self, a: Array) -> Array:
        """The second derivative of ψ*(a); infinite where it has none. For |a| ≥ L any number will do."""

    @abstractmethod
    def _best_dual(self, a: Array, residual: Array, curvature: Array) -> Array:
        """The t in [−L, L] that maximises −ψ*(t) + (t − a)·r − curvature/2·(t − a)².

        a may lie outside [−L, L] by `FEASIBILITY_SLACK`; curvature is at least 0.
        """
