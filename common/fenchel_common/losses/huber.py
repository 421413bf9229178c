"""The Huber loss: quadratic for small residuals, linear for outliers."""

from typing import Final

import numpy as np

from fenchel_common.losses.base import Array
from fenchel_common.losses.residual import ResidualLoss


class Huber(ResidualLoss):
    """ψ(r) = r²/2 for |r| ≤ δ and δ·(|r| − δ/2) beyond, δ = 1; ψ*(a) = a²/2 for |a| ≤ δ."""

    name = "huber"
    THRESHOLD: Final = 1.0
    lipschitz = THRESHOLD
    conjugate_modulus = 1.0
    rests = True

    def _residual_value(self, residual: Array) -> Array:
        size = np.abs(residual)
        return np.where(size > self.THRESHOLD, self.THRESHOLD * (size - self.THRESHOLD / 2.0), residual**2 / 2.0)

    def _residual_slope(self, residual: Array) -> Array:
        return np.clip(residual, -self.THRESHOLD, self.THRESHOLD)

    def _residual_conjugate(self, a: Array) -> Array:
        return a**2 / 2.0

    def _residual_conjugate_curvature(self, a: Array) -> Array:
        return np.ones_like(a)

    def _best_dual(self, a: Array, residual: Array, curvature: Array) -> Array:
        return np.clip((residual + curvature * a) / (1.0 + curvature), -self.THRESHOLD, self.THRESHOLD)
