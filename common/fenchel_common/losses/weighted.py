"""A loss that counts the samples of one class more than those of the other."""

import numpy as np

from fenchel_common.errors import InvalidInput
from fenchel_common.losses.base import LARGEST_CHANGE, Array, Fit, Loss


class ClassWeighted(Loss):
    """c·l(z), with c = `positive_weight` for the label +1 and 1 for −1.

    The conjugate is c·l*(−α/c), hence feasible dual variables, subgradients and dual steps are c times those of l at
    α/c, with the curvature c times as large.
    """

    regression = False

    def __init__(self, loss: Loss, positive_weight: float) -> None:
        if loss.regression:
            raise InvalidInput(f"loss: {loss.name} has no classes to weight")
        largest = max(positive_weight, 1.0)
        self._loss, self._positive = loss, positive_weight
        self.name = loss.name
        self.lipschitz = largest * loss.lipschitz
        self.conjugate_modulus = loss.conjugate_modulus / largest
        self.rests = loss.rests

    @property
    def dual_change(self) -> float:
        return min(self.lipschitz, LARGEST_CHANGE)

    def value(self, z: Array, y: Array) -> Array:
        return self._weights(y) * self._loss.value(z, y)

    def subgradient(self, z: Array, y: Array) -> Array:
        return self._weights(y) * self._loss.subgradient(z, y)

    def conjugate(self, alpha: Array, y: Array) -> Array:
        c = self._weights(y)
        return c * self._loss.conjugate(alpha / c, y)

    def conjugate_curvature(self, alpha: Array, y: Array) -> Array:
        c = self._weights(y)
        return self._loss.conjugate_curvature(alpha / c, y) / c

    def feasible(self, alpha: Array, y: Array | None) -> Array:
        if y is None:
            return np.clip(alpha, -self.lipschitz, self.lipschitz)
        c = self._weights(y)
        nearest = self._loss.feasible(alpha / c, y)
        # Bit for bit what it was where it is feasible: parties without labels, who know no c, compute with the same.
        return np.where(nearest == alpha / c, alpha, c * nearest)

    def dual_step(self, alpha: Array, y: Array, ip: Array, curvature: Array) -> Array:
        c = self._weights(y)
        return c * self._loss.dual_step(alpha / c, y, ip, c * curvature)

    def check_labels(self, labels: Array) -> None:
        self._loss.check_labels(labels)

    def fit_sum(self, z: Array, y: Array) -> float:
        return self._loss.fit_sum(z, y)

    def fit(self, mean: float) -> Fit:
        return self._loss.fit(mean)

    @property
    def at_zero(self) -> None:
        return None

    def _weights(self, y: Array) -> Array:
        return np.where(y > 0.0, self._positive, 1.0)
