"""The squared loss, for regression and for labels −1 and +1."""

from typing import ClassVar

import numpy as np

from fenchel_common.errors import InvalidInput
from fenchel_common.losses.base import Array


class Squared:
    """l(z) = (z − y)², as in the robust regression of SCAFF-PD, C.1; its second derivative is 2."""

    name: ClassVar[str] = "squared"

    def value(self, z: Array, y: Array) -> Array:
        return (z - y) ** 2

    def subgradient(self, z: Array, y: Array) -> Array:
        """u with −u = l'(z), signs as for the losses of a margin."""
        return 2.0 * (y - z)

    def check_labels(self, labels: Array) -> None:
        """Refuses labels that are no numbers, without showing them."""
        if not np.isfinite(labels).all():
            raise InvalidInput("y: the squared loss takes finite numbers only")
