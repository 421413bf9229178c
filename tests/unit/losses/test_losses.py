"""One suite for every loss: values against derivatives, conjugates against their definition, steps against grids."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fenchel_common.errors import InvalidInput
from fenchel_common.losses import FEASIBILITY_SLACK, LOSSES, Loss, loss_named

Array = NDArray[np.float64]

losses = pytest.mark.parametrize("loss", LOSSES.values(), ids=list(LOSSES))
any_loss = st.sampled_from(list(LOSSES.values()))
any_label = st.sampled_from([-1.0, 1.0])
predictions = st.floats(-50.0, 50.0)
fractions = st.floats(0.0, 1.0)
curvatures = st.one_of(st.just(0.0), st.floats(1e-9, 1e9))


def one(value: float) -> Array:
    return np.array([value])


def dual_objective(loss: Loss, alpha: Array, y: Array, ip: Array, curvature: Array, delta: Array) -> Array:
    return -loss.conjugate(alpha + delta, y) - delta * ip - curvature / 2.0 * delta**2


@losses
@pytest.mark.parametrize("label", [-1.0, 1.0])
def test_subgradient_is_minus_the_numerical_derivative(loss: Loss, label: float) -> None:
    z = np.linspace(-4.0, 4.0, 400)  # an even count keeps clear of the kink at margin 1
    y = np.full_like(z, label)
    step = 1e-6
    slope = (loss.value(z + step, y) - loss.value(z - step, y)) / (2.0 * step)
    np.testing.assert_allclose(loss.subgradient(z, y), -slope, atol=2e-6)


@losses
def test_conjugate_is_the_supremum_of_its_definition(loss: Loss) -> None:
    z = np.linspace(-40.0, 40.0, 400_001)
    for b in (0.0, 0.1, 0.5, 0.9, 1.0):
        for label in (-1.0, 1.0):
            y = one(label)
            supremum = np.max(-b * label * z - loss.value(z, np.full_like(z, label)))
            assert loss.conjugate(b * y, y)[0] == pytest.approx(supremum, abs=1e-7)


@losses
def test_conjugate_is_infinite_beyond_the_slack_and_the_end_value_within_it(loss: Loss) -> None:
    y = np.array([1.0, -1.0, 1.0, -1.0])
    outside = y * np.array([-1e-6, -1e-6, 1.0 + 1e-6, 1.0 + 1e-6])
    assert np.isinf(loss.conjugate(outside, y)).all()
    ends = np.array([0.0, 0.0, 1.0, 1.0])
    barely = y * (ends + np.array([-1.0, -1.0, 1.0, 1.0]) * FEASIBILITY_SLACK)
    np.testing.assert_array_equal(loss.conjugate(barely, y), loss.conjugate(y * ends, y))


@losses
def test_loss_is_nonnegative_and_lipschitz(loss: Loss) -> None:
    z = np.linspace(-30.0, 30.0, 10_001)
    for label in (-1.0, 1.0):
        y = np.full_like(z, label)
        values = loss.value(z, y)
        assert (values >= 0.0).all()
        assert (np.abs(np.diff(values) / np.diff(z)) <= loss.lipschitz + 1e-12).all()
        assert (np.abs(loss.subgradient(z, y)) <= loss.lipschitz).all()


def test_a_loss_that_does_not_state_its_slope_has_none() -> None:
    """Certificates, and the noise on a released model, would be wrong by an inherited one."""
    assert not hasattr(Loss, "lipschitz")


@given(loss=any_loss, label=any_label, z=predictions, b=fractions)
def test_fenchel_young_inequality(loss: Loss, label: float, z: float, b: float) -> None:
    y = one(label)
    alpha = b * y
    slack = loss.value(one(z), y) + loss.conjugate(alpha, y) + alpha * z
    assert slack[0] >= -1e-12


@given(loss=any_loss, label=any_label, z=predictions)
def test_fenchel_young_equality_at_the_subgradient(loss: Loss, label: float, z: float) -> None:
    y = one(label)
    u = loss.subgradient(one(z), y)
    slack = loss.value(one(z), y) + loss.conjugate(u, y) + u * z
    assert abs(slack[0]) <= 1e-12 * max(1.0, abs(z))


@given(loss=any_loss, label=any_label, b=fractions, ip=predictions, curvature=curvatures)
def test_dual_step_beats_a_fine_grid(loss: Loss, label: float, b: float, ip: float, curvature: float) -> None:
    y, alpha, products, bend = one(label), one(b * label), one(ip), one(curvature)
    delta = loss.dual_step(alpha, y, products, bend)
    best = dual_objective(loss, alpha, y, products, bend, delta)
    grid = label * np.linspace(0.0, 1.0, 2001) - alpha[0]
    ones = np.ones_like(grid)
    rivals = dual_objective(loss, alpha * ones, y * ones, products * ones, bend * ones, grid)
    assert np.isfinite(best[0])
    assert best[0] >= rivals.max() - 1e-11 * max(1.0, curvature, abs(ip))


@given(
    loss=any_loss,
    label=any_label,
    b=fractions,
    ip=predictions,
    curvature=curvatures,
    scale=st.sampled_from([1e-3, 0.25, 1.0]),
)
def test_theory_step_beats_a_fine_grid(
    loss: Loss, label: float, b: float, ip: float, curvature: float, scale: float
) -> None:
    y, alpha, products, bend = one(label), one(b * label), one(ip), one(curvature)
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
    alpha, ip, curvature = y * rng.random(200), 3.0 * rng.standard_normal(200), np.exp(3.0 * rng.standard_normal(200))
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
    with pytest.raises(InvalidInput, match=r"y: .*-1 and \+1.*map"):
        loss.check_labels(np.array(labels))


def test_an_unknown_loss_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match=r"loss: 'huber' is unknown.*hinge.*logistic"):
        loss_named("huber")
