"""The logistic loss."""

from typing import Final

import numpy as np

from fenchel_common.errors import FenchelError
from fenchel_common.losses.base import Array
from fenchel_common.losses.margin import MarginLoss

MAXIMUM_STEPS: Final = 200  # bisection alone needs fewer from any bracket of doubles
TOLERANCE: Final = 1e-14


class Logistic(MarginLoss):
    """φ(m) = log(1 + exp(−m)), with φ*(−b) = b·log b + (1 − b)·log(1 − b)."""

    name = "logistic"
    lipschitz = 1.0
    rests = False
    conjugate_modulus = 4.0

    def _margin_value(self, margin: Array) -> Array:
        return np.logaddexp(0.0, -margin)

    def _margin_descent(self, margin: Array) -> Array:
        return _expit(-margin)

    def _margin_conjugate(self, b: Array) -> Array:
        return _entropy_term(b) + _entropy_term(1.0 - b)

    def _margin_conjugate_curvature(self, b: Array) -> Array:
        variance = b * (1.0 - b)
        return np.divide(1.0, variance, out=np.full_like(b, np.inf), where=variance > 0.0)

    def _best_dual(self, b: Array, margin: Array, curvature: Array) -> Array:
        """Newton's method on the log-odds, kept inside a bracket.

        With t = σ(v) the optimality condition is F(v) = v + m + curvature·(σ(v) − b) = 0. F' lies between 1 and
        1 + curvature/4, so the root is unique and |F| bounds the distance to it; in t itself the derivative would be
        unbounded at both ends of the interval. F is at most 0 at v = −m − curvature·(1 − b) and at least 0 at
        v = −m + curvature·b. A Newton step that leaves the bracket, or is longer than half of the step before it, is
        replaced by the bracket's middle, which bounds the number of steps for every curvature.
        """
        low = -margin - curvature * np.maximum(1.0 - b, 0.0)
        high = -margin + curvature * np.maximum(b, 0.0)
        v = np.clip(-margin, low, high)
        moved = high - low
        for _ in range(MAXIMUM_STEPS):
            sigma = _expit(v)
            residual = v + margin + curvature * (sigma - b)
            low = np.where(residual <= 0.0, v, low)
            high = np.where(residual >= 0.0, v, high)
            newton = v - residual / (1.0 + curvature * sigma * (1.0 - sigma))
            length = np.abs(newton - v)
            near = TOLERANCE * np.maximum(1.0, np.abs(v))
            usable = (newton > low) & (newton < high) & (length <= 0.5 * moved)
            following = np.where(usable | (length <= near), newton, 0.5 * (low + high))
            moved = np.abs(following - v)
            v = following
            if (moved <= near).all():
                return _expit(v)
        raise FenchelError(
            "the logistic dual step did not converge; the inner products or row norms are out of any plausible range"
        )


# Imported in the functions: it costs every party seven megabytes, and the other losses do without it.


def _expit(v: Array) -> Array:
    """1/(1 + exp(−v))."""
    from scipy.special import expit

    return np.asarray(expit(v), dtype=np.float64)


def _entropy_term(b: Array) -> Array:
    """b·log b, and 0 at b = 0."""
    from scipy.special import xlogy

    return np.asarray(xlogy(b, b), dtype=np.float64)
