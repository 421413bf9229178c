"""The lower bound on P without regularisation of the intercept, against problems whose optimum is known."""

from functools import cache

import numpy as np
import pytest
from sklearn.svm import SVC

from fenchel_client.algorithms.corrective.measures import _balance
from fenchel_client.algorithms.corrective.settlement import RoundFigures
from fenchel_common.losses import LOSSES
from fenchel_common.objectives import dual, primal_point

RNG = np.random.default_rng(5)
X = RNG.normal(size=(80, 3))
Y = np.where(np.arange(80) < 8, 1.0, -1.0)
LAMBDA, CONSTANT = 0.05, 3.0
HINGE = LOSSES["hinge"]


def bound(alpha: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> float:
    """D with the constant feature, less the shortfall."""
    rows = np.hstack([X, np.full((80, 1), CONSTANT)])
    w = primal_point(rows, alpha, lambda_=LAMBDA)
    sides = np.split(_balance(alpha, Y, np.linalg.norm(X, axis=1), HINGE) / 80, 2)
    figures = RoundFigures([], [], 0.0, 0.0, 0.0, 80, 40, tuple(side.tolist() for side in sides))
    shortfall = figures.shortfall(float(np.linalg.norm(w)), lambda_=LAMBDA)
    assert shortfall >= 0.0
    return dual(rows, Y, alpha, loss=HINGE, lambda_=LAMBDA) - shortfall


@cache
def optimum() -> float:
    solved = SVC(kernel="linear", C=1.0 / (LAMBDA * 80), tol=1e-6).fit(X, Y)
    w, b = np.ravel(solved.coef_), float(np.ravel(solved.intercept_)[0])
    return float(LAMBDA / 2 * w @ w + HINGE.value(X @ w + b, Y).mean())


@pytest.mark.parametrize("seed", range(30))
def test_no_feasible_dual_variables_give_a_bound_above_the_optimum_with_an_intercept(seed: int) -> None:
    rng = np.random.default_rng(seed)
    alpha = Y * rng.random(80) * rng.random()
    assert bound(alpha) <= optimum()
    assert bound(np.where(Y > 0, alpha, 0.0)) <= optimum()
    assert bound(np.where(Y < 0, alpha, 0.0)) <= optimum()


def test_dual_variables_that_sum_to_zero_have_next_to_no_shortfall() -> None:
    alpha = np.where(Y > 0, 0.9, -0.1)
    rows = np.hstack([X, np.full((80, 1), CONSTANT)])
    assert bound(alpha) == pytest.approx(dual(rows, Y, alpha, loss=HINGE, lambda_=LAMBDA), abs=1e-5)
    assert bound(np.zeros(80)) == 0.0
