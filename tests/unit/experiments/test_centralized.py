"""The reference solver: certified by its own gap, and equal to scikit-learn where that solves the same problem."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import csr_array
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import LinearSVC, LinearSVR

from fenchel_common.data.datasets import load_dataset
from fenchel_common.losses import LOSSES, Loss, loss_named
from fenchel_common.objectives import dual, primal, primal_point
from fenchel_deploy.experiments.centralized import solve_centralized

Array = NDArray[np.float64]


@pytest.mark.parametrize("loss", LOSSES.values(), ids=list(LOSSES))
@pytest.mark.parametrize("lambda_", [1.0, 1e-2, 1e-4, 1e-6])
def test_the_gap_is_certified(loss: Loss, lambda_: float) -> None:
    data = load_dataset("breast_cancer")
    solution = solve_centralized(data.X, data.y, loss=loss, lambda_=lambda_)
    point = primal_point(data.X, solution.alpha, lambda_=lambda_)
    gap = primal(data.X, data.y, point, loss=loss, lambda_=lambda_)
    gap -= dual(data.X, data.y, solution.alpha, loss=loss, lambda_=lambda_)
    assert -1e-13 <= gap <= 1e-9 * solution.primal
    assert solution.primal == primal(data.X, data.y, solution.w, loss=loss, lambda_=lambda_)


def test_hinge_agrees_with_liblinear() -> None:
    data = load_dataset("breast_cancer")
    lambda_, hinge = 1e-2, loss_named("hinge")
    solution = solve_centralized(data.X, data.y, loss=hinge, lambda_=lambda_)
    C = 1.0 / (lambda_ * len(data.y))
    svm = LinearSVC(C=C, loss="hinge", fit_intercept=False, tol=1e-10, max_iter=1_000_000, random_state=0)
    svm.fit(data.X, data.y)
    assert primal(data.X, data.y, svm.coef_[0], loss=hinge, lambda_=lambda_) == pytest.approx(solution.primal, rel=1e-7)
    np.testing.assert_allclose(solution.w, svm.coef_[0], atol=1e-3)


def test_logistic_agrees_with_scikit_learn() -> None:
    data = load_dataset("breast_cancer")
    lambda_ = 1e-2
    solution = solve_centralized(data.X, data.y, loss=loss_named("logistic"), lambda_=lambda_)
    model = LogisticRegression(C=1.0 / (lambda_ * len(data.y)), fit_intercept=False, tol=1e-10, max_iter=10_000)
    model.fit(data.X, data.y)
    np.testing.assert_allclose(solution.w, model.coef_[0], atol=1e-5)


def regression_data() -> tuple[Array, Array]:
    """Progression of diabetes after a year, in standard deviations from its mean."""
    X, y = load_diabetes(return_X_y=True)
    return X / np.sqrt((X**2).sum(axis=1).mean()), (y - y.mean()) / y.std()


def test_squared_hinge_agrees_with_liblinear() -> None:
    data = load_dataset("breast_cancer")
    lambda_ = 1e-2
    solution = solve_centralized(data.X, data.y, loss=loss_named("squared_hinge"), lambda_=lambda_)
    svm = LinearSVC(C=1.0 / (lambda_ * len(data.y)), fit_intercept=False, tol=1e-12, max_iter=1_000_000, dual=False)
    svm.fit(data.X, data.y)
    np.testing.assert_allclose(solution.w, svm.coef_[0], atol=1e-5)


def test_squared_agrees_with_ridge_regression() -> None:
    X, y = regression_data()
    lambda_ = 1e-2
    solution = solve_centralized(X, y, loss=loss_named("squared"), lambda_=lambda_)
    ridge = Ridge(alpha=lambda_ * len(y) / 2.0, fit_intercept=False, tol=1e-12).fit(X, y)
    np.testing.assert_allclose(solution.w, ridge.coef_, atol=1e-5)


def test_epsilon_insensitive_agrees_with_support_vector_regression() -> None:
    X, y = regression_data()
    lambda_, loss = 1e-2, loss_named("epsilon_insensitive")
    solution = solve_centralized(X, y, loss=loss, lambda_=lambda_)
    svr = LinearSVR(epsilon=0.1, C=1.0 / (lambda_ * len(y)), fit_intercept=False, tol=1e-8, max_iter=1_000_000)
    reached = primal(X, y, svr.fit(X, y).coef_, loss=loss, lambda_=lambda_)
    assert reached == pytest.approx(solution.primal, rel=1e-6)


def test_huber_agrees_with_a_minimiser_of_the_primal() -> None:
    X, y = regression_data()
    lambda_, loss = 1e-2, loss_named("huber")
    solution = solve_centralized(X, y, loss=loss, lambda_=lambda_)

    def objective(w: Array) -> tuple[float, Array]:
        residual = X @ w - y
        small = np.abs(residual) <= 1.0
        losses = np.where(small, residual**2 / 2.0, np.abs(residual) - 0.5)
        slopes = np.where(small, residual, np.sign(residual))
        return lambda_ / 2.0 * (w @ w) + losses.mean(), lambda_ * w + X.T @ slopes / len(y)

    found = minimize(objective, np.zeros(X.shape[1]), jac=True, method="L-BFGS-B", options={"ftol": 1e-15})
    assert found.fun == pytest.approx(solution.primal, rel=1e-8)
    np.testing.assert_allclose(solution.w, found.x, atol=1e-3)


@pytest.mark.parametrize("loss", [loss for loss in LOSSES.values() if loss.regression], ids=lambda loss: loss.name)
@pytest.mark.parametrize("lambda_", [1.0, 1e-2, 1e-4, 1e-6])
def test_the_gap_is_certified_for_numbers_as_labels(loss: Loss, lambda_: float) -> None:
    X, y = regression_data()
    solution = solve_centralized(X, y, loss=loss, lambda_=lambda_)
    assert -1e-13 <= solution.gap <= 1e-9 * solution.primal


def test_sparse_and_dense_data_give_the_same_optimum() -> None:
    data = load_dataset("breast_cancer")
    loss = loss_named("hinge")
    dense = solve_centralized(data.X, data.y, loss=loss, lambda_=1e-2)
    sparse = solve_centralized(csr_array(data.X), data.y, loss=loss, lambda_=1e-2)
    assert sparse.primal == pytest.approx(dense.primal, rel=2e-9)
