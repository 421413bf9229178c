"""Losses that count one class more: the same tests as for their parts, and scikit-learn's class weights."""

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from fenchel_common.algorithms.corrective.settings import CorrectiveSettings
from fenchel_common.algorithms.dual import alpha_format
from fenchel_common.data.datasets import load_dataset
from fenchel_common.errors import InvalidConfig, InvalidInput
from fenchel_common.losses import LOSSES, Loss, loss_named
from fenchel_common.losses.weighted import ClassWeighted
from fenchel_common.objectives import primal
from fenchel_deploy.experiments.centralized import solve_centralized

Array = NDArray[np.float64]

MARGIN_LOSSES = [loss for loss in LOSSES.values() if not loss.regression]
losses = pytest.mark.parametrize("loss", MARGIN_LOSSES, ids=lambda loss: loss.name)
weights = pytest.mark.parametrize("weight", [0.25, 3.0])


def duals(loss: Loss, weight: float, label: float, count: int) -> Array:
    """Feasible dual variables, from one end of their interval to the other; up to 5 where it has no end."""
    c = weight if label > 0.0 else 1.0
    return label * np.linspace(0.0, c * min(loss.lipschitz, 5.0), count)


@losses
@weights
@pytest.mark.parametrize("label", [-1.0, 1.0])
def test_value_conjugate_and_steps_fit_each_other(loss: Loss, weight: float, label: float) -> None:
    weighted = ClassWeighted(loss, weight)
    z = np.linspace(-40.0, 40.0, 400_001)
    values = weighted.value(z, np.full_like(z, label))
    grid = duals(loss, weight, label, 2001)
    y = np.full_like(grid, label)
    conjugates = weighted.conjugate(grid, y)
    for position in (0, 200, 1000, 1800, 2000):
        assert conjugates[position] == pytest.approx(np.max(-grid[position] * z - values), abs=1e-6)
    for ip, curvature in ((0.3, 0.7), (-2.0, 0.0), (1.5, 40.0)):
        start = grid[600:601]
        step = weighted.dual_step(start, y[:1], np.array([ip]), np.array([curvature]))
        rivals = -conjugates - (grid - start) * ip - curvature / 2.0 * (grid - start) ** 2
        reached = -weighted.conjugate(start + step, y[:1]) - step * ip - curvature / 2.0 * step**2
        assert reached[0] >= rivals.max() - 1e-9
    u = weighted.subgradient(z[::1000], np.full(401, label))
    slack = values[::1000] + weighted.conjugate(u, np.full(401, label)) + u * z[::1000]
    np.testing.assert_allclose(slack, 0.0, atol=1e-9 * 40.0**2)


@losses
@weights
def test_slope_modulus_and_format_allow_for_the_larger_weight(loss: Loss, weight: float) -> None:
    weighted, largest = ClassWeighted(loss, weight), max(weight, 1.0)
    assert weighted.lipschitz == largest * loss.lipschitz
    for label in (-1.0, 1.0):
        alpha = duals(loss, weight, label, 13)[1:-1]
        y = np.full_like(alpha, label)
        assert (weighted.conjugate_curvature(alpha, y) >= weighted.conjugate_modulus - 1e-12).all()
        assert np.abs(alpha).max() < alpha_format(weighted).bound


def test_feasible_dual_variables_keep_their_bits_and_others_become_the_nearest() -> None:
    weighted = ClassWeighted(loss_named("hinge"), 0.3)
    alpha, y = np.array([0.1, 0.31, -0.1, -0.7, -1.5]), np.array([1.0, 1.0, 1.0, -1.0, -1.0])
    np.testing.assert_array_equal(weighted.feasible(alpha, y), [0.1, 0.3, 0.0, -0.7, -1.0])
    np.testing.assert_array_equal(weighted.feasible(alpha, None), [0.1, 0.31, -0.1, -0.7, -1.0])


@pytest.mark.parametrize("name", ["hinge", "logistic"])
def test_the_optimum_is_that_of_class_weights_in_scikit_learn(name: str) -> None:
    data = load_dataset("breast_cancer")
    lambda_, weight = 1e-2, 4.0
    loss = CorrectiveSettings.parse({"loss": name, "positive_weight": weight}).loss_function
    solution = solve_centralized(data.X, data.y, loss=loss, lambda_=lambda_)
    options = {"C": 1.0 / (lambda_ * len(data.y)), "class_weight": {1.0: weight, -1.0: 1.0}, "fit_intercept": False}
    if name == "hinge":
        model = LinearSVC(loss="hinge", tol=1e-10, max_iter=1_000_000, random_state=0, **options)
    else:
        model = LogisticRegression(tol=1e-10, max_iter=10_000, **options)
    reached = primal(data.X, data.y, model.fit(data.X, data.y).coef_[0], loss=loss, lambda_=lambda_)
    assert reached == pytest.approx(solution.primal, rel=1e-7)


def test_numbers_have_no_classes_to_weight() -> None:
    with pytest.raises(InvalidConfig, match="positive_weight: huber predicts numbers and has no classes"):
        CorrectiveSettings.parse({"loss": "huber", "positive_weight": 2.0})
    with pytest.raises(InvalidInput, match="squared has no classes"):
        ClassWeighted(loss_named("squared"), 2.0)


def test_without_a_weight_the_loss_is_the_plain_one() -> None:
    assert CorrectiveSettings.parse({"loss": "hinge"}).loss_function is LOSSES["hinge"]
