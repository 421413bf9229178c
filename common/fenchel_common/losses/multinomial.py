"""The multinomial logistic loss: one score for each of k classes, labels 0 … k − 1."""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fenchel_common.errors import InvalidInput
from fenchel_common.losses.base import Array


class Multinomial:
    """l(z) = log Σ_c exp(z_c) − z_y, for scores z (n, k) and labels y (n,); (7.1) of the DualFL paper.

    Its gradient is p − e_y with p = softmax(z), and its Hessian diag(p) − p pᵀ ≤ 1/2.
    """

    name: ClassVar[str] = "multinomial"
    regression: ClassVar[bool] = False

    def __init__(self, classes: int) -> None:
        self.classes = classes

    def value(self, z: Array, y: Array) -> Array:
        """l(z) of each row of scores, (n,)."""
        shifted = z - z.max(axis=1, keepdims=True)
        return np.asarray(np.log(np.exp(shifted).sum(axis=1)) - shifted[_own(y)], dtype=np.float64)

    def subgradient(self, z: Array, y: Array) -> Array:
        """u (n, k) with −u = ∇l(z), signs as for the losses of a margin."""
        odds = np.exp(z - z.max(axis=1, keepdims=True))
        u: Array = odds / -odds.sum(axis=1, keepdims=True)
        u[_own(y)] += 1.0
        return u

    def check_labels(self, labels: Array) -> None:
        """Refuses labels other than the classes, without showing them."""
        if not np.isin(labels, np.arange(self.classes)).all():
            raise InvalidInput(f"y: the multinomial loss takes the labels 0 to {self.classes - 1}, as `classes` says")


def _own(y: Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The indices, in an array (n, k), of the scores of the labels."""
    return np.arange(len(y)), y.astype(np.int64)
