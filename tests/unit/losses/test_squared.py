"""The squared loss, beside its numerical derivative."""

import numpy as np
import pytest

from fenchel_common.errors import InvalidInput
from fenchel_common.losses.squared import Squared


def test_the_subgradient_is_minus_the_derivative() -> None:
    z, y = np.array([-2.0, 0.3, 4.0]), np.array([1.0, -1.0, 2.5])
    loss = Squared()
    slope = (loss.value(z + 1e-6, y) - loss.value(z - 1e-6, y)) / 2e-6
    np.testing.assert_allclose(loss.subgradient(z, y), -slope, atol=1e-8)


def test_labels_that_are_no_numbers_are_refused() -> None:
    Squared().check_labels(np.array([0.5, -3.0]))
    with pytest.raises(InvalidInput, match="finite"):
        Squared().check_labels(np.array([np.nan]))
