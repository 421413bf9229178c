"""Losses of a margin, for labels −1 and +1."""

from abc import abstractmethod

import numpy as np

from fenchel_common.errors import InvalidInput
from fenchel_common.losses.base import FEASIBILITY_SLACK, LARGEST_CHANGE, Array, Fit, Loss


class MarginLoss(Loss):
    """l(z) = φ(y·z), for a convex, non-negative and decreasing φ.

    The conjugate at −α depends on b = y·α alone. It is finite for 0 ≤ b ≤ L, with L the steepest slope of φ, which φ
    must reach or approach; L may be infinite. A subclass sets `name`, `lipschitz` and `rests` and implements the
    abstract methods, which the public methods call with margins m = y·z and with b = y·α.
    """

    regression = False

    @property
    def dual_change(self) -> float:
        return min(self.lipschitz, LARGEST_CHANGE)

    def value(self, z: Array, y: Array) -> Array:
        return self._margin_value(y * z)

    def subgradient(self, z: Array, y: Array) -> Array:
        return y * self._margin_descent(y * z)

    def conjugate(self, alpha: Array, y: Array) -> Array:
        b = y * alpha
        feasible = (b >= -FEASIBILITY_SLACK) & (b <= self.lipschitz + FEASIBILITY_SLACK)
        return np.where(feasible, self._margin_conjugate(np.clip(b, 0.0, self.lipschitz)), np.inf)

    def conjugate_curvature(self, alpha: Array, y: Array) -> Array:
        b = y * alpha
        inside = (b > 0.0) & (b < self.lipschitz)
        return np.where(inside, self._margin_conjugate_curvature(np.clip(b, 0.0, self.lipschitz)), np.inf)

    def feasible(self, alpha: Array, y: Array | None) -> Array:
        if y is None:
            return np.clip(alpha, -self.lipschitz, self.lipschitz)
        return np.asarray(y * np.clip(y * alpha, 0.0, self.lipschitz), dtype=np.float64)

    def dual_step(self, alpha: Array, y: Array, ip: Array, curvature: Array) -> Array:
        return y * self._best_dual(y * alpha, y * ip, curvature) - alpha

    def check_labels(self, labels: Array) -> None:
        if not np.isin(labels, (-1.0, 1.0)).all():
            raise InvalidInput(
                f"y: the {self.name} loss takes the labels -1 and +1 only; map the two classes to these values, or "
                "list the names of several classes in settings.classes"
            )

    def fit_sum(self, z: Array, y: Array) -> float:
        return float(np.count_nonzero((z >= 0.0) == (y > 0.0)))

    def fit(self, mean: float) -> Fit:
        return Fit(accuracy=mean)

    @property
    def at_zero(self) -> float:
        return float(self._margin_value(np.zeros(1))[0])

    @abstractmethod
    def _margin_value(self, margin: Array) -> Array:
        """φ(m), for any finite m."""

    @abstractmethod
    def _margin_descent(self, margin: Array) -> Array:
        """−φ'(m), or one of its values where φ has a kink; between 0 and L."""

    @abstractmethod
    def _margin_conjugate(self, b: Array) -> Array:
        """φ*(−b). The caller ensures 0 ≤ b ≤ L."""

    @abstractmethod
    def _margin_conjugate_curvature(self, b: Array) -> Array:
        """The second derivative of φ*(−b); infinite where it has none. The caller ensures 0 ≤ b ≤ L."""

    @abstractmethod
    def _best_dual(self, b: Array, margin: Array, curvature: Array) -> Array:
        """The t in [0, L] that maximises −φ*(−t) − (t − b)·m − curvature/2·(t − b)².

        b may lie outside [0, L] by `FEASIBILITY_SLACK`; curvature is at least 0. May raise `FenchelError` if an
        iterative method does not converge.
        """
