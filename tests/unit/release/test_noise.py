"""How much noise a released model needs: the sensitivity of the optimum, and the Gaussian mechanism."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.stats import norm

from fenchel_client.release import check_rows, with_noise
from fenchel_common.algorithms.corrective.settings import CorrectiveSettings
from fenchel_common.errors import Refusal
from fenchel_common.layout import MAX_CLIENTS
from fenchel_common.losses import LOSSES
from fenchel_common.objectives import primal
from fenchel_common.release import ReleaseNoise, balanced_gap, gaussian_sigma, longest, model_sensitivity
from fenchel_deploy.experiments.centralized import solve_centralized

Array = NDArray[np.float64]

ROWS, COLUMNS, ROW_BOUND = 40, 3, 0.8


def bounded_table(seed: int) -> tuple[Array, Array]:
    """Rows of norm exactly the bound."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(ROWS, COLUMNS))
    y = np.where(X @ rng.normal(size=COLUMNS) + rng.normal(size=ROWS) >= 0, 1.0, -1.0)
    return ROW_BOUND * X / np.linalg.norm(X, axis=1, keepdims=True), y


def optimum(X: Array, y: Array, *, loss: str, lambda_: float) -> Array:
    return solve_centralized(X, y, loss=LOSSES[loss], lambda_=lambda_).w


@pytest.mark.parametrize("lambda_", [0.02, 0.5])
@pytest.mark.parametrize("loss", ["hinge", "smoothed_hinge", "logistic", "huber", "epsilon_insensitive"])
def test_no_replaced_row_moves_the_optimum_farther_than_the_sensitivity(loss: str, lambda_: float) -> None:
    """‖w*(D) − w*(D')‖ ≤ 2LR/(λN) for data sets that differ in one row and its label."""
    bound = model_sensitivity(lambda_=lambda_, samples=ROWS, row_bound=ROW_BOUND, gap=0.0)
    moved = []
    for seed in (1, 2):
        X, y = bounded_table(seed)
        w = optimum(X, y, loss=loss, lambda_=lambda_)
        for row, label in ((X[0], -y[0]), (-X[0], y[0]), (ROW_BOUND * w / np.linalg.norm(w), -1.0), (0.0 * X[0], 1.0)):
            other, labels = X.copy(), y.copy()
            # A number to predict may be anything, which the bound must cover.
            other[0], labels[0] = row, 100.0 * label if LOSSES[loss].regression else label
            moved.append(float(np.linalg.norm(optimum(other, labels, loss=loss, lambda_=lambda_) - w)))
    assert bound / 10 < max(moved) <= bound * (1 + 1e-6), "and rows were replaced that matter"


def test_the_sensitivity_is_reached_where_every_sample_is_inside_the_margin() -> None:
    """There w* = 1/(λN) Σ y_i x_i, and turning one row round moves it by exactly 2R/(λN)."""
    X, y = bounded_table(0)
    turned = X.copy()
    turned[0] = -X[0]
    moved = optimum(turned, y, loss="hinge", lambda_=2.0) - optimum(X, y, loss="hinge", lambda_=2.0)
    bound = model_sensitivity(lambda_=2.0, samples=ROWS, row_bound=ROW_BOUND, gap=0.0)
    assert np.linalg.norm(moved) == pytest.approx(bound, rel=1e-5)


@pytest.mark.parametrize(("loss", "lambda_"), [("hinge", 2.0), ("hinge", 0.02), ("logistic", 0.02)])
def test_a_model_with_a_certified_gap_is_within_half_of_what_the_gap_adds(loss: str, lambda_: float) -> None:
    """‖w − w*‖ ≤ √(2·gap/λ), by λ-strong convexity; where the hinge is linear around w*, it is as far as that."""
    X, y = bounded_table(1)
    w = optimum(X, y, loss=loss, lambda_=lambda_)
    best = primal(X, y, w, loss=LOSSES[loss], lambda_=lambda_)
    gap = 1e-4
    allowed = model_sensitivity(lambda_=lambda_, samples=ROWS, row_bound=0.0, gap=gap) / 2
    directions = np.random.default_rng(2).normal(size=(50, COLUMNS))
    for direction in directions / np.linalg.norm(directions, axis=1, keepdims=True):
        beyond = primal(X, y, w + 1.001 * allowed * direction, loss=LOSSES[loss], lambda_=lambda_) - best
        assert beyond > gap, "whoever is farther has a larger gap"
        if lambda_ == 2.0:
            within = primal(X, y, w + 0.999 * allowed * direction, loss=LOSSES[loss], lambda_=lambda_) - best
            assert within < gap


def test_at_the_balanced_gap_data_and_gap_make_for_half_of_the_noise_each() -> None:
    settings = CorrectiveSettings.parse({"lambda": 0.02, "local": "corrective"})
    gap = balanced_gap(settings, samples=ROWS, row_bound=ROW_BOUND)
    whole, data = (
        model_sensitivity(lambda_=0.02, samples=ROWS, row_bound=longest(ROW_BOUND), gap=goal) for goal in (gap, 0.0)
    )
    assert whole == pytest.approx(2 * data)


@dataclass
class Lengths:
    """As much of an algorithm as tells how long rows are."""

    squared_norms: Array

    def preparation(self) -> bytes:
        return b""

    def first_book(self) -> None:
        return None

    def answer(self, phase: str, body: bytes, book: Any) -> bytes:  # noqa: ARG002 - of the interface
        return b""

    def final_model(self, state: bytes, book: Any) -> Array:  # noqa: ARG002 - of the interface
        return np.zeros(0)


@pytest.mark.parametrize("row_bound", [1e-4, 1e-3, 1.0, 300.0])
def test_a_row_at_the_bound_passes_however_its_length_is_rounded_and_none_beyond_what_the_noise_covers(
    row_bound: float,
) -> None:
    """Each of K holders rounds its part of ‖x‖² to a multiple of 2^-32."""
    noise = ReleaseNoise(1.0, 1e-5, row_bound, gap=1e-3, sensitivity=1.0, sigma=1.0)
    check_rows(Lengths(np.array([row_bound**2 + MAX_CLIENTS * 2.0**-33])), noise)
    beyond = longest(row_bound) ** 2
    with pytest.raises(Refusal, match="1 rows are longer"):
        check_rows(Lengths(np.array([row_bound**2, beyond - 0.9 * MAX_CLIENTS * 2.0**-33])), noise)


def delta_by_definition(epsilon: float, sigma: float, sensitivity: float) -> float:
    """The supremum over sets S of P(M(D) ∈ S) − e^ε·P(M(D') ∈ S): the integral of the positive part of p − e^ε·q."""

    def excess(x: float) -> float:
        p, q = norm.pdf(x, sensitivity, sigma), norm.pdf(x, 0.0, sigma)
        return float(max(p - math.exp(epsilon) * q, 0.0))

    edge = epsilon * sigma**2 / sensitivity + sensitivity / 2
    total, _ = quad(excess, edge, max(edge, sensitivity) + 12 * sigma, epsabs=0.0, epsrel=1e-9, limit=400)
    return float(total)


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0, 4.0, 20.0])
@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-9])
@pytest.mark.parametrize("sensitivity", [0.03, 7.0])
def test_the_noise_is_exactly_what_the_definition_of_differential_privacy_asks_for(
    epsilon: float, delta: float, sensitivity: float
) -> None:
    sigma = gaussian_sigma(epsilon=epsilon, delta=delta, sensitivity=sensitivity)
    assert delta_by_definition(epsilon, sigma, sensitivity) == pytest.approx(delta, rel=1e-4)
    assert delta_by_definition(epsilon, 0.98 * sigma, sensitivity) > delta
    mean = sensitivity / sigma
    by_formula = norm.cdf(mean / 2 - epsilon / mean) - math.exp(epsilon) * norm.cdf(-mean / 2 - epsilon / mean)
    assert by_formula == pytest.approx(delta, rel=1e-4)


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0])
def test_the_noise_is_less_than_the_classical_bound_where_that_holds(epsilon: float) -> None:
    classical = math.sqrt(2.0 * math.log(1.25 / 1e-5)) / epsilon
    assert 0.5 * classical < gaussian_sigma(epsilon=epsilon, delta=1e-5, sensitivity=1.0) < classical


def test_noise_has_the_standard_deviation_asked_for_and_is_drawn_anew_each_time() -> None:
    weights = np.full(20_000, 3.0)
    first, second = with_noise(weights, sigma=0.5), with_noise(weights, sigma=0.5)
    # Standard errors: 0.0035 of the mean, 0.0025 of the deviation.
    assert first.mean() == pytest.approx(3.0, abs=0.02)
    assert first.std() == pytest.approx(0.5, abs=0.015)
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.05
    assert np.array_equal(np.round(first * 2**21), first * 2**21), "a grid that hides how the sum was rounded"
