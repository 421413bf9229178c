"""Hinge losses: the support vector machine's, a smoothed one whose derivative has no jump, and the squared one."""

import math
from typing import Final

import numpy as np

from fenchel_common.losses.base import Array
from fenchel_common.losses.margin import MarginLoss


class Hinge(MarginLoss):
    """φ(m) = max(0, 1 − m), with φ*(−b) = −b."""

    name = "hinge"
    lipschitz = 1.0
    rests = True

    def _margin_value(self, margin: Array) -> Array:
        return np.maximum(0.0, 1.0 - margin)

    def _margin_descent(self, margin: Array) -> Array:
        return np.where(margin < 1.0, 1.0, 0.0)

    def _margin_conjugate(self, b: Array) -> Array:
        return -b

    def _margin_conjugate_curvature(self, b: Array) -> Array:
        return np.zeros_like(b)

    def _best_dual(self, b: Array, margin: Array, curvature: Array) -> Array:
        # The closed form of the paper, with its lost factors ‖x‖² and y restored. A row of zeros has no curvature
        # and its objective is linear: the maximiser is an end of the interval.
        slope = 1.0 - margin
        ends = np.where(slope > 0.0, np.inf, np.where(slope < 0.0, -np.inf, 0.0))
        step = np.divide(slope, curvature, out=ends, where=curvature > 0.0)
        return np.clip(b + step, 0.0, 1.0)


class SmoothedHinge(MarginLoss):
    """The hinge with its kink replaced by a parabola over [1 − S, 1], S = 1.

    φ(m) = 0 for m ≥ 1, (1 − m)²/(2S) for 1 − S ≤ m ≤ 1, 1 − m − S/2 below; φ*(−b) = −b + S·b²/2.
    """

    name = "smoothed_hinge"
    lipschitz = 1.0
    rests = True
    SMOOTHING: Final = 1.0
    conjugate_modulus = SMOOTHING

    def _margin_value(self, margin: Array) -> Array:
        short = np.maximum(0.0, 1.0 - margin)
        return np.where(short > self.SMOOTHING, short - self.SMOOTHING / 2.0, short**2 / (2.0 * self.SMOOTHING))

    def _margin_descent(self, margin: Array) -> Array:
        return np.clip((1.0 - margin) / self.SMOOTHING, 0.0, 1.0)

    def _margin_conjugate(self, b: Array) -> Array:
        return -b + self.SMOOTHING * b**2 / 2.0

    def _margin_conjugate_curvature(self, b: Array) -> Array:
        return np.full_like(b, self.SMOOTHING)

    def _best_dual(self, b: Array, margin: Array, curvature: Array) -> Array:
        return np.clip((1.0 - margin + curvature * b) / (self.SMOOTHING + curvature), 0.0, 1.0)


class SquaredHinge(MarginLoss):
    """φ(m) = max(0, 1 − m)², with φ*(−b) = −b + b²/4 for every b ≥ 0."""

    name = "squared_hinge"
    lipschitz = math.inf
    conjugate_modulus = 0.5
    rests = True

    def _margin_value(self, margin: Array) -> Array:
        return np.maximum(0.0, 1.0 - margin) ** 2

    def _margin_descent(self, margin: Array) -> Array:
        return 2.0 * np.maximum(0.0, 1.0 - margin)

    def _margin_conjugate(self, b: Array) -> Array:
        return -b + b**2 / 4.0

    def _margin_conjugate_curvature(self, b: Array) -> Array:
        return np.full_like(b, 0.5)

    def _best_dual(self, b: Array, margin: Array, curvature: Array) -> Array:
        return np.maximum(0.0, (1.0 - margin + curvature * b) / (0.5 + curvature))
