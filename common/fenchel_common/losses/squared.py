"""The squared loss, of ridge regression."""

import math

import numpy as np

from fenchel_common.losses.base import Array
from fenchel_common.losses.residual import ResidualLoss


class Squared(ResidualLoss):
    """ψ(r) = r², as in the robust regression of SCAFF-PD, C.1, with ψ*(a) = a²/4."""

    name = "squared"
    lipschitz = math.inf
    conjugate_modulus = 0.5
    rests = False

    def _residual_value(self, residual: Array) -> Array:
        return residual**2

    def _residual_slope(self, residual: Array) -> Array:
        return 2.0 * residual

    def _residual_conjugate(self, a: Array) -> Array:
        return a**2 / 4.0

    def _residual_conjugate_curvature(self, a: Array) -> Array:
        return np.full_like(a, 0.5)

    def _best_dual(self, a: Array, residual: Array, curvature: Array) -> Array:
        return np.asarray((residual + curvature * a) / (0.5 + curvature), dtype=np.float64)
