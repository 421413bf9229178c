"""The ε-insensitive loss, of support vector regression."""

from typing import Final

import numpy as np

from fenchel_common.losses.base import Array
from fenchel_common.losses.residual import ResidualLoss


class EpsilonInsensitive(ResidualLoss):
    """ψ(r) = max(0, |r| − ε), ε = 0.1; ψ*(a) = ε·|a| for |a| ≤ 1."""

    name = "epsilon_insensitive"
    TUBE: Final = 0.1
    lipschitz = 1.0
    rests = True

    def _residual_value(self, residual: Array) -> Array:
        return np.maximum(0.0, np.abs(residual) - self.TUBE)

    def _residual_slope(self, residual: Array) -> Array:
        return np.where(np.abs(residual) > self.TUBE, np.sign(residual), 0.0)

    def _residual_conjugate(self, a: Array) -> Array:
        return self.TUBE * np.abs(a)

    def _residual_conjugate_curvature(self, a: Array) -> Array:
        return np.where(a == 0.0, np.inf, 0.0)

    def _best_dual(self, a: Array, residual: Array, curvature: Array) -> Array:
        # Within ε of the kink at t = 0 the maximiser is 0; on either side of it the objective is a parabola, or a line
        # where a row of zeros has no curvature: then the maximiser is an end of the interval.
        slope = residual + curvature * a
        beyond = np.sign(slope) * np.maximum(0.0, np.abs(slope) - self.TUBE)
        ends = np.where(beyond != 0.0, np.copysign(np.inf, beyond), 0.0)
        best = np.divide(beyond, curvature, out=ends, where=curvature > 0.0)
        return np.asarray(np.clip(best, -1.0, 1.0), dtype=np.float64)
