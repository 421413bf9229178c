"""A loss that leaves out some of the samples."""

import numpy as np
from numpy.typing import NDArray

from fenchel_common.errors import InvalidInput
from fenchel_common.losses.base import FEASIBILITY_SLACK, Array, Fit, Loss


class HeldOut(Loss):
    """l(z) of the samples that count, and zero for all others.

    Its labels y have one more column than those of l: 1 for a sample that counts, 0 for one that does not. The dual
    variable of the latter is zero.
    """

    def __init__(self, loss: Loss) -> None:
        self._loss = loss
        self.name = loss.name
        self.lipschitz = loss.lipschitz
        self.conjugate_modulus = loss.conjugate_modulus
        self.rests = loss.rests
        self.regression = loss.regression

    @property
    def dual_change(self) -> float:
        return self._loss.dual_change

    def value(self, z: Array, y: Array) -> Array:
        labels, counts = _parts(y)
        return np.where(counts, self._loss.value(z, labels), 0.0)

    def subgradient(self, z: Array, y: Array) -> Array:
        labels, counts = _parts(y)
        return np.where(counts, self._loss.subgradient(z, labels), 0.0)

    def conjugate(self, alpha: Array, y: Array) -> Array:
        labels, counts = _parts(y)
        left_out = np.where(np.abs(alpha) <= FEASIBILITY_SLACK, 0.0, np.inf)
        return np.where(counts, self._loss.conjugate(alpha, labels), left_out)

    def conjugate_curvature(self, alpha: Array, y: Array) -> Array:
        labels, counts = _parts(y)
        return np.where(counts, self._loss.conjugate_curvature(alpha, labels), np.inf)

    def feasible(self, alpha: Array, y: Array | None) -> Array:
        if y is None:
            return self._loss.feasible(alpha, None)
        labels, counts = _parts(y)
        return np.where(counts, self._loss.feasible(alpha, labels), 0.0)

    def dual_step(self, alpha: Array, y: Array, ip: Array, curvature: Array) -> Array:
        labels, counts = _parts(y)
        return np.where(counts, self._loss.dual_step(alpha, labels, ip, curvature), -alpha)

    def check_labels(self, labels: Array) -> None:
        inner, _ = _parts(labels)
        self._loss.check_labels(inner)
        if not np.isin(labels[:, -1], (0.0, 1.0)).all():
            raise InvalidInput("labels: a sample counts, or it does not")

    def fit_sum(self, z: Array, y: Array) -> float:
        """As that of l: over all samples."""
        return self._loss.fit_sum(z, _parts(y)[0])

    def fit(self, mean: float) -> Fit:
        return self._loss.fit(mean)

    @property
    def at_zero(self) -> None:
        return None


def with_counts(y: Array, counts: NDArray[np.bool_]) -> Array:
    """(n, c + 1) labels for `HeldOut`: those of l, and which samples count."""
    return np.column_stack([y, counts.astype(np.float64)])


def held_out(y: Array) -> NDArray[np.bool_]:
    """(n,) which samples do not count, from labels as `with_counts` gives them."""
    return np.asarray(y[:, -1] == 0.0)


def _parts(y: Array) -> tuple[Array, NDArray[np.bool_]]:
    """The labels as l takes them, and which samples count."""
    labels = y[:, :-1]
    return labels[:, 0] if labels.shape[1] == 1 else labels, y[:, -1] > 0.0
