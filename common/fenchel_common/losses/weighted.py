"""A loss that counts each sample by a weight of its own."""

from typing import Final

import numpy as np

from fenchel_common.errors import InvalidInput
from fenchel_common.losses.base import LARGEST_CHANGE, Array, Fit, Loss

SMALLEST_WEIGHT: Final = 1e-3
LARGEST_WEIGHT: Final = 1e3
"""Weights lie between these two. Smaller ones would magnify the rounding of dual variables beyond use."""


class Weighted(Loss):
    """s·l(z), with a weight s for each sample.

    Its labels y are (n, 2): the label of l and the weight of each sample. The conjugate is s·l*(−α/s), hence feasible
    dual variables, subgradients and dual steps are s times those of l at α/s, with the curvature s times as large.

    Parameters
    ----------
    largest
        A public bound of the weights; slope, modulus and formats follow from it.
    """

    def __init__(self, loss: Loss, largest: float) -> None:
        self._loss, self._largest = loss, largest
        self.name = loss.name
        self.lipschitz = largest * loss.lipschitz
        self.conjugate_modulus = loss.conjugate_modulus / largest
        self.rests = loss.rests
        self.regression = loss.regression

    @property
    def dual_change(self) -> float:
        return min(self._largest * self._loss.dual_change, LARGEST_CHANGE)

    def value(self, z: Array, y: Array) -> Array:
        label, s = _parts(y)
        return s * self._loss.value(z, label)

    def subgradient(self, z: Array, y: Array) -> Array:
        label, s = _parts(y)
        return s * self._loss.subgradient(z, label)

    def conjugate(self, alpha: Array, y: Array) -> Array:
        label, s = _parts(y)
        return s * self._loss.conjugate(alpha / s, label)

    def conjugate_curvature(self, alpha: Array, y: Array) -> Array:
        label, s = _parts(y)
        return self._loss.conjugate_curvature(alpha / s, label) / s

    def feasible(self, alpha: Array, y: Array | None) -> Array:
        if y is None:
            return self._largest * self._loss.feasible(alpha / self._largest, None)
        label, s = _parts(y)
        nearest = self._loss.feasible(alpha / s, label)
        # Bit for bit what it was where it is feasible: parties without labels, who know no s, compute with the same.
        return np.where(nearest == alpha / s, alpha, s * nearest)

    def dual_step(self, alpha: Array, y: Array, ip: Array, curvature: Array) -> Array:
        label, s = _parts(y)
        return s * self._loss.dual_step(alpha / s, label, ip, s * curvature)

    def check_labels(self, labels: Array) -> None:
        label, s = _parts(labels)
        self._loss.check_labels(label)
        check_weights(s, largest=self._largest)

    def fit_sum(self, z: Array, y: Array) -> float:
        """As that of l: every sample counts once."""
        return self._loss.fit_sum(z, y[:, 0])

    def fit(self, mean: float) -> Fit:
        return self._loss.fit(mean)

    @property
    def at_zero(self) -> None:
        return None


def _parts(y: Array) -> tuple[Array, Array]:
    """The labels and the weights."""
    return y[:, 0], y[:, 1]


def check_weights(weights: Array, *, largest: float) -> None:
    """Raises `InvalidInput`, which shows no weight, unless all are between `SMALLEST_WEIGHT` and `largest`."""
    if not ((weights >= SMALLEST_WEIGHT) & (weights <= largest)).all():
        raise InvalidInput(
            f"weights: must be from {SMALLEST_WEIGHT:g} to {largest:g}; leave out samples that are not to count, "
            "divide the weights by a common number, or raise largest_weight in the [settings] of the run"
        )
