"""Losses with a weight for each sample: the same tests as for their parts, and scikit-learn's weights."""

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import LinearSVC

from fenchel_common.algorithms.corrective.settings import CorrectiveSettings
from fenchel_common.algorithms.dual import alpha_format
from fenchel_common.data.datasets import load_dataset
from fenchel_common.errors import InvalidConfig, InvalidInput
from fenchel_common.labelscaling import LabelScaling
from fenchel_common.losses import LOSSES, Loss, loss_named
from fenchel_common.losses.weighted import Weighted
from fenchel_common.objectives import primal
from fenchel_deploy.experiments.centralized import solve_centralized

Array = NDArray[np.float64]

LARGEST = 4.0
losses = pytest.mark.parametrize("loss", LOSSES.values(), ids=lambda loss: loss.name)
weights = pytest.mark.parametrize("weight", [0.25, 3.0])


def duals(loss: Loss, weight: float, label: float, count: int) -> Array:
    """Feasible dual variables, from one end of their interval to the other; up to 5 where it has no end."""
    end = min(loss.lipschitz, 5.0)
    return weight * (np.linspace(-end, end, count) if loss.regression else label * np.linspace(0.0, end, count))


def pairs(label: float, weight: float, count: int) -> Array:
    return np.tile([label, weight], (count, 1))


@losses
@weights
@pytest.mark.parametrize("label", [-1.0, 1.0])
def test_value_conjugate_and_steps_fit_each_other(loss: Loss, weight: float, label: float) -> None:
    weighted = Weighted(loss, LARGEST)
    z = np.linspace(-40.0, 40.0, 400_001)
    values = weighted.value(z, pairs(label, weight, len(z)))
    grid = duals(loss, weight, label, 2001)
    y = pairs(label, weight, len(grid))
    conjugates = weighted.conjugate(grid, y)
    for position in (0, 200, 1000, 1800, 2000):
        assert conjugates[position] == pytest.approx(np.max(-grid[position] * z - values), abs=1e-6)
    for ip, curvature in ((0.3, 0.7), (-2.0, 0.0), (1.5, 40.0)):
        start = grid[600:601]
        step = weighted.dual_step(start, y[:1], np.array([ip]), np.array([curvature]))
        rivals = -conjugates - (grid - start) * ip - curvature / 2.0 * (grid - start) ** 2
        reached = -weighted.conjugate(start + step, y[:1]) - step * ip - curvature / 2.0 * step**2
        assert reached[0] >= rivals.max() - 1e-9
    some = pairs(label, weight, 401)
    u = weighted.subgradient(z[::1000], some)
    slack = values[::1000] + weighted.conjugate(u, some) + u * z[::1000]
    np.testing.assert_allclose(slack, 0.0, atol=1e-9 * 40.0**2)


@losses
@weights
def test_slope_modulus_and_format_allow_for_the_largest_weight(loss: Loss, weight: float) -> None:
    weighted = Weighted(loss, LARGEST)
    assert weighted.lipschitz == LARGEST * loss.lipschitz
    for label in (-1.0, 1.0):
        alpha = duals(loss, weight, label, 13)[1:-1]
        curvature = weighted.conjugate_curvature(alpha, pairs(label, weight, len(alpha)))
        assert (curvature >= weighted.conjugate_modulus - 1e-12).all()
        assert np.ptp(alpha) < alpha_format(weighted).bound


def test_feasible_dual_variables_keep_their_bits_and_others_become_the_nearest() -> None:
    weighted = Weighted(loss_named("hinge"), 1.0)
    alpha = np.array([0.1, 0.31, -0.1, -0.7, -1.5])
    y = np.array([[1.0, 0.3], [1.0, 0.3], [1.0, 0.3], [-1.0, 1.0], [-1.0, 1.0]])
    np.testing.assert_array_equal(weighted.feasible(alpha, y), [0.1, 0.3, 0.0, -0.7, -1.0])
    np.testing.assert_array_equal(weighted.feasible(alpha, None), [0.1, 0.31, -0.1, -0.7, -1.0])


@pytest.mark.parametrize("name", ["hinge", "logistic"])
@pytest.mark.parametrize("balanced", [False, True])
def test_the_optimum_is_that_of_class_and_sample_weights_in_scikit_learn(name: str, *, balanced: bool) -> None:
    """Balanced classes are compared without sample weights: newer versions of scikit-learn balance weighted counts."""
    data = load_dataset("breast_cancer")
    lambda_ = 1e-2
    own = None if balanced else np.random.default_rng(3).uniform(0.2, 3.0, size=len(data.y))
    chosen: object = "balanced" if balanced else {"positive": 4.0, "negative": 0.5}
    settings = CorrectiveSettings.parse({"loss": name, "class_weight": chosen, "sample_weights": not balanced})
    rules = settings.label_rules
    y, loss = LabelScaling.of_labels(rules, data.y).applied(data.y, own, rules), settings.loss_function
    solution = solve_centralized(data.X, y, loss=loss, lambda_=lambda_)
    options = {
        "C": 1.0 / (lambda_ * len(data.y)),
        "class_weight": "balanced" if balanced else {1.0: 4.0, -1.0: 0.5},
        "fit_intercept": False,
    }
    if name == "hinge":
        model = LinearSVC(loss="hinge", tol=1e-10, max_iter=1_000_000, random_state=0, **options)
    else:
        model = LogisticRegression(tol=1e-10, max_iter=10_000, **options)
    fitted = model.fit(data.X, data.y, sample_weight=own)
    reached = primal(data.X, y, fitted.coef_[0], loss=loss, lambda_=lambda_)
    assert reached == pytest.approx(solution.primal, rel=1e-6)


def test_the_optimum_of_standardised_numbers_is_that_of_scikit_learn() -> None:
    data = load_dataset("diabetes")
    own = np.random.default_rng(3).uniform(0.2, 3.0, size=len(data.y))
    raw, lambda_ = 150.0 + 77.0 * data.y, 1e-2
    settings = CorrectiveSettings.parse({"loss": "squared", "sample_weights": True, "target_scale": "standard"})
    rules = settings.label_rules
    scaling = LabelScaling.of_labels(rules, raw)
    solution = solve_centralized(data.X, scaling.applied(raw, own, rules), loss=settings.loss_function, lambda_=lambda_)
    ridge = Ridge(alpha=lambda_ * len(raw) / 2.0, fit_intercept=False, tol=1e-12)
    ridge.fit(data.X, raw - raw.mean(), sample_weight=own)
    predicted = scaling.shift + scaling.scale * (data.X @ solution.w)
    np.testing.assert_allclose(predicted, raw.mean() + ridge.predict(data.X), rtol=1e-6)


@pytest.mark.parametrize("weight", [0.0, 1e-4, 4.1, np.nan])
def test_weights_outside_their_bounds_are_refused_without_being_shown(weight: float) -> None:
    with pytest.raises(InvalidInput, match=r"weights: must be from 0\.001 to 4; .*raise largest_weight") as refused:
        Weighted(loss_named("hinge"), LARGEST).check_labels(np.array([[1.0, 1.0], [1.0, weight]]))
    assert "4.1" not in str(refused.value)


def test_a_loss_that_does_not_fit_the_settings_of_labels_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="class_weight: huber predicts numbers and has no classes"):
        CorrectiveSettings.parse({"loss": "huber", "class_weight": "balanced"})
    with pytest.raises(InvalidConfig, match="target_scale: hinge predicts classes"):
        CorrectiveSettings.parse({"loss": "hinge", "target_scale": "standard"})


@pytest.mark.parametrize(
    ("y", "largest", "reason"),
    [([1.0, 1.0], 20.0, "a class has no samples, or all of them"), ([1.0] * 20 + [-1.0], 5.0, "raise largest_weight")],
)
def test_classes_that_cannot_be_balanced_are_refused(y: list[float], largest: float, reason: str) -> None:
    settings = CorrectiveSettings.parse({"class_weight": "balanced", "largest_weight": largest})
    with pytest.raises(InvalidInput, match=reason):
        LabelScaling.of_labels(settings.label_rules, np.array(y))


def test_numbers_that_are_all_the_same_or_far_out_are_refused() -> None:
    rules = CorrectiveSettings.parse({"loss": "huber", "target_scale": "standard"}).label_rules
    with pytest.raises(InvalidInput, match="are the same"):
        LabelScaling.of_labels(rules, np.full(5, 3.0))
    y = np.zeros(300_000)
    y[0] = 1e6
    scaling = LabelScaling.of_labels(rules, y)
    scaling.check_outliers(y[1:])
    with pytest.raises(InvalidInput, match="more than 500 standard deviations from the mean"):
        scaling.check_outliers(y)


def test_without_a_weight_the_loss_is_the_plain_one() -> None:
    assert CorrectiveSettings.parse({"loss": "hinge"}).loss_function is LOSSES["hinge"]
