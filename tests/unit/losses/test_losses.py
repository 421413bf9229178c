"""One suite for every loss: values against derivatives, conjugates against their definition, steps against grids."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fenchel_common.algorithms.dual import ALPHA_FORMAT, alpha_format
from fenchel_common.errors import InvalidInput
from fenchel_common.losses import FEASIBILITY_SLACK, LOSSES, Deviation, Fit, Loss, loss_named

Array = NDArray[np.float64]

losses = pytest.mark.parametrize("loss", LOSSES.values(), ids=list(LOSSES))
CLASSES, NUMBERS = (-1.0, 1.0), (-1.0, 1.0, 0.0, 2.5)
any_case = st.sampled_from(
    [(loss, label) for loss in LOSSES.values() for label in (NUMBERS if loss.regression else CLASSES)]
)
predictions = st.floats(-50.0, 50.0)
fractions = st.floats(0.0, 1.0)
curvatures = st.one_of(st.just(0.0), st.floats(1e-9, 1e9))


def one(value: float) -> Array:
    return np.array([value])


def labels_of(loss: Loss) -> tuple[float, ...]:
    return NUMBERS if loss.regression else CLASSES


def duals_of(loss: Loss, label: float, fractions_: Array) -> Array:
    """Feasible dual variables, from one end of their interval to the other; up to 5 where it has no end."""
    end = min(loss.lipschitz, 5.0)
    return end * (2.0 * fractions_ - 1.0) if loss.regression else end * label * fractions_


def dual_objective(loss: Loss, alpha: Array, y: Array, ip: Array, curvature: Array, delta: Array) -> Array:
    return -loss.conjugate(alpha + delta, y) - delta * ip - curvature / 2.0 * delta**2


@losses
def test_subgradient_is_minus_the_numerical_derivative(loss: Loss) -> None:
    z = np.linspace(-4.0, 4.0, 400)  # an even count keeps clear of the kinks
    step = 1e-6
    for label in labels_of(loss):
        y = np.full_like(z, label)
        slope = (loss.value(z + step, y) - loss.value(z - step, y)) / (2.0 * step)
        np.testing.assert_allclose(loss.subgradient(z, y), -slope, atol=2e-6)


@losses
def test_conjugate_is_the_supremum_of_its_definition(loss: Loss) -> None:
    z = np.linspace(-40.0, 40.0, 400_001)
    for label in labels_of(loss):
        for alpha in duals_of(loss, label, np.array([0.0, 0.1, 0.5, 0.9, 1.0])):
            supremum = np.max(-alpha * z - loss.value(z, np.full_like(z, label)))
            assert loss.conjugate(one(alpha), one(label))[0] == pytest.approx(supremum, abs=1e-7)


@losses
def test_conjugate_is_infinite_beyond_the_slack_and_the_end_value_within_it(loss: Loss) -> None:
    for label in labels_of(loss):
        slope = loss.lipschitz
        low, high = (-slope, slope) if loss.regression else sorted((0.0, label * slope))
        for end, outwards in ((low, -1.0), (high, 1.0)):
            if not np.isfinite(end):
                continue
            assert np.isinf(loss.conjugate(one(end + outwards * 1e-6), one(label))).all()
            barely = one(end + outwards * FEASIBILITY_SLACK)
            np.testing.assert_array_equal(loss.conjugate(barely, one(label)), loss.conjugate(one(end), one(label)))
            np.testing.assert_array_equal(loss.feasible(one(end + outwards), one(label)), one(end))


@losses
def test_loss_is_nonnegative_and_as_steep_and_as_curved_as_it_states(loss: Loss) -> None:
    z = np.linspace(-30.0, 30.0, 10_001)
    for label in labels_of(loss):
        y = np.full_like(z, label)
        values, slopes = loss.value(z, y), -loss.subgradient(z, y)
        assert (values >= 0.0).all()
        assert (np.abs(np.diff(values) / np.diff(z)) <= loss.lipschitz + 1e-12).all()
        assert (np.abs(slopes) <= loss.lipschitz).all()
        if loss.conjugate_modulus > 0.0:
            assert (np.diff(slopes) / np.diff(z) <= 1.0 / loss.conjugate_modulus + 1e-9).all()
        else:
            assert np.isfinite(loss.lipschitz), "the error of a certificate has a bound"


@losses
def test_the_curvature_of_the_conjugate_is_its_second_derivative(loss: Loss) -> None:
    step = 1e-4
    for label in labels_of(loss):
        alpha = duals_of(loss, label, np.linspace(0.05, 0.95, 12))
        y = np.full_like(alpha, label)
        sides = loss.conjugate(alpha + step, y) + loss.conjugate(alpha - step, y)
        second = (sides - 2.0 * loss.conjugate(alpha, y)) / step**2
        np.testing.assert_allclose(loss.conjugate_curvature(alpha, y), second, rtol=1e-4, atol=1e-6)
        assert (loss.conjugate_curvature(alpha, y) >= loss.conjugate_modulus).all()


@losses
def test_predictions_that_are_off_change_the_mean_loss_by_no_more_than_the_bound(loss: Loss) -> None:
    rng = np.random.default_rng(8)
    for scale in (1e-6, 1e-2, 3.0):
        y = rng.choice(np.array(labels_of(loss)), 400)
        z = 3.0 * rng.standard_normal(400)
        off = scale * rng.standard_normal(400)
        deviation = Deviation(float(np.abs(off).mean()), float(np.sqrt((off**2).mean())))
        before, after = (float(loss.value(at, y).mean()) for at in (z, z + off))
        # The worst case is a change against the slope everywhere, which this bound must cover too.
        uphill = float(loss.value(z - np.abs(off) * np.sign(loss.subgradient(z, y)), y).mean())
        bound = loss.mean_error(deviation, mean_loss=before)
        assert max(abs(after - before), abs(uphill - before)) <= bound + 1e-12


def test_a_loss_that_does_not_state_its_slope_has_none() -> None:
    """Certificates, and the noise on a released model, would be wrong by an inherited one."""
    assert not hasattr(Loss, "lipschitz")


@given(case=any_case, z=predictions, b=fractions)
def test_fenchel_young_inequality(case: tuple[Loss, float], z: float, b: float) -> None:
    loss, label = case
    y, alpha = one(label), duals_of(loss, label, one(b))
    slack = loss.value(one(z), y) + loss.conjugate(alpha, y) + alpha * z
    assert slack[0] >= -1e-12


@given(case=any_case, z=predictions)
def test_fenchel_young_equality_at_the_subgradient(case: tuple[Loss, float], z: float) -> None:
    loss, label = case
    y = one(label)
    u = loss.subgradient(one(z), y)
    slack = loss.value(one(z), y) + loss.conjugate(u, y) + u * z
    assert abs(slack[0]) <= 1e-12 * max(1.0, z**2)


@given(case=any_case, b=fractions, ip=predictions, curvature=curvatures)
def test_dual_step_beats_a_fine_grid(case: tuple[Loss, float], b: float, ip: float, curvature: float) -> None:
    loss, label = case
    y, alpha, products, bend = one(label), duals_of(loss, label, one(b)), one(ip), one(curvature)
    delta = loss.dual_step(alpha, y, products, bend)
    best = dual_objective(loss, alpha, y, products, bend, delta)
    grid = duals_of(loss, label, np.linspace(0.0, 1.0, 2001)) - alpha[0]
    ones = np.ones_like(grid)
    rivals = dual_objective(loss, alpha * ones, y * ones, products * ones, bend * ones, grid)
    assert np.isfinite(best[0])
    assert best[0] >= rivals.max() - 1e-11 * max(1.0, curvature, abs(ip))


@given(
    case=any_case,
    b=fractions,
    ip=predictions,
    curvature=curvatures,
    scale=st.sampled_from([1e-3, 0.25, 1.0]),
)
def test_theory_step_beats_a_fine_grid(
    case: tuple[Loss, float], b: float, ip: float, curvature: float, scale: float
) -> None:
    loss, label = case
    y, alpha, products, bend = one(label), duals_of(loss, label, one(b)), one(ip), one(curvature)
    s = loss.theory_step(alpha, y, products, bend, scale)
    direction = scale * (loss.subgradient(products, y) - alpha)
    assert 0.0 <= s[0] <= 1.0
    best = dual_objective(loss, alpha, y, products, bend, s * direction)
    grid = np.linspace(0.0, 1.0, 1001) * direction
    ones = np.ones_like(grid)
    rivals = dual_objective(loss, alpha * ones, y * ones, products * ones, bend * ones, grid)
    assert best[0] >= rivals.max() - 1e-11 * max(1.0, curvature, abs(ip))


@losses
def test_dual_step_is_zero_at_its_own_fixed_point(loss: Loss) -> None:
    rng = np.random.default_rng(3)
    y = np.where(rng.random(200) < 0.5, 1.0, -1.0)
    alpha, ip = loss.feasible(y * rng.random(200), y), 3.0 * rng.standard_normal(200)
    curvature = np.exp(3.0 * rng.standard_normal(200))
    delta = loss.dual_step(alpha, y, ip, curvature)
    again = loss.dual_step(alpha + delta, y, ip + curvature * delta, curvature)
    np.testing.assert_allclose(again, 0.0, atol=1e-11)


def test_hinge_step_is_the_corrected_closed_form() -> None:
    y, alpha, ip, curvature = np.array([1.0, -1.0]), np.array([0.2, -0.2]), np.array([0.4, -0.4]), np.array([2.0, 2.0])
    expected = y * np.clip(y * alpha + (1.0 - y * ip) / curvature, 0.0, 1.0) - alpha
    np.testing.assert_array_equal(loss_named("hinge").dual_step(alpha, y, ip, curvature), expected)


def test_logistic_step_solves_the_optimality_condition_closely() -> None:
    rng = np.random.default_rng(5)
    y = np.where(rng.random(500) < 0.5, 1.0, -1.0)
    alpha, ip, curvature = y * rng.random(500), 4.0 * rng.standard_normal(500), np.exp(4.0 * rng.standard_normal(500))
    t = y * (alpha + loss_named("logistic").dual_step(alpha, y, ip, curvature))
    inner = (t > 1e-6) & (t < 1.0 - 1e-6)
    odds = np.log(t[inner] / (1.0 - t[inner]))
    condition = odds + (y * ip)[inner] + curvature[inner] * (t - y * alpha)[inner]
    # A change of t by one unit in the last place moves the condition by curvature + 1/(t(1-t)) such units.
    scale = curvature[inner] + 1.0 / (t * (1.0 - t))[inner]
    assert inner.sum() > 300
    assert (np.abs(condition) <= 1e-13 * scale + 1e-13 * np.abs(ip[inner])).all()


@losses
@pytest.mark.parametrize("labels", [[0.0, 1.0], [1.0, 2.0], [np.nan, 1.0]])
def test_labels_other_than_plus_and_minus_one_are_refused_with_the_cure(loss: Loss, labels: list[float]) -> None:
    if loss.regression:
        loss.check_labels(np.array([0.0, -7.5]))
        labels = [np.nan, 1.0]
    with pytest.raises(InvalidInput, match="y: .*finite" if loss.regression else r"y: .*-1 and \+1.*map"):
        loss.check_labels(np.array(labels))


@losses
def test_the_fit_is_the_accuracy_or_the_root_of_the_mean_squared_error(loss: Loss) -> None:
    z, y = np.array([0.5, -2.0, 3.0, 0.0]), np.array([1.0, 1.0, -1.0, 1.0])
    fit = loss.fit(loss.fit_sum(z, y) / 4.0)
    assert fit == (Fit(rmse=math.sqrt(26.25 / 4.0)) if loss.regression else Fit(accuracy=0.5))


def test_formats_of_dual_variables_follow_from_the_loss() -> None:
    assert {name: alpha_format(loss).bound for name, loss in LOSSES.items()} == {
        **dict.fromkeys(LOSSES, ALPHA_FORMAT.bound),
        "huber": 4.0,
        "epsilon_insensitive": 4.0,
        "squared": 4096.0,
        "squared_hinge": 4096.0,
    }


def test_an_unknown_loss_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match=r"loss: 'cubic' is unknown.*hinge.*logistic"):
        loss_named("cubic")
