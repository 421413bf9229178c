"""The multinomial logistic loss."""

import numpy as np
import pytest

from fenchel_common.errors import InvalidInput
from fenchel_common.losses import LOSSES
from fenchel_common.losses.multinomial import Multinomial

SCORES = np.random.default_rng(0).standard_normal((5, 4)) * 3.0
LABELS = np.array([0.0, 3.0, 1.0, 2.0, 3.0])


def test_minus_the_subgradient_is_the_derivative() -> None:
    loss, step = Multinomial(4), 1e-6
    for column in range(4):
        beside = step * np.eye(4)[column]
        numerical = (loss.value(SCORES + beside, LABELS) - loss.value(SCORES - beside, LABELS)) / (2.0 * step)
        assert -loss.subgradient(SCORES, LABELS)[:, column] == pytest.approx(numerical, abs=1e-8)


def test_two_classes_are_the_logistic_loss_of_the_difference_of_the_scores() -> None:
    scores, labels = SCORES[:, :2], np.array([0.0, 1.0, 1.0, 0.0, 1.0])
    expected = LOSSES["logistic"].value(scores[:, 1] - scores[:, 0], 2.0 * labels - 1.0)
    assert Multinomial(2).value(scores, labels) == pytest.approx(expected, rel=1e-12)


def test_huge_scores_do_not_overflow() -> None:
    scores = np.array([[1e6, 0.0, -1e6]])
    assert Multinomial(3).value(scores, np.array([2.0])) == pytest.approx([2e6])
    assert Multinomial(3).subgradient(scores, np.array([2.0])) == pytest.approx(np.array([[-1.0, 0.0, 1.0]]))


def test_labels_outside_the_classes_are_refused_without_being_shown() -> None:
    Multinomial(3).check_labels(np.array([0.0, 2.0]))
    with pytest.raises(InvalidInput, match="labels 0 to 2") as error:
        Multinomial(3).check_labels(np.array([0.0, 17.0]))
    assert "17" not in str(error.value)
