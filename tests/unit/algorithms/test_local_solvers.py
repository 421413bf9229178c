"""The solvers of a party's own problem, and the gap that ends them."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import csr_array

from fenchel_client.algorithms.averaging.local_problem import LocalLoss, LocalProblem
from fenchel_client.algorithms.averaging.local_solvers import SOLVERS
from fenchel_common.losses import LOSSES
from fenchel_common.losses.multinomial import Multinomial

Array = NDArray[np.float64]

RNG = np.random.default_rng(5)
X = RNG.standard_normal((40, 6))
SIGNS = np.where(X @ RNG.standard_normal(6) + RNG.standard_normal(40) > 0.0, 1.0, -1.0)
CLASSES = RNG.integers(0, 3, size=40).astype(np.float64)
SMOOTH = ("logistic", "smoothed_hinge", "multinomial")
FITTING = [
    *((solver, loss) for solver in ("accelerated", "lbfgs") for loss in SMOOTH),
    *(("dual", loss) for loss in ("logistic", "smoothed_hinge", "hinge")),
]


def problem(loss: str, *, mu: float = 0.05) -> LocalProblem:
    if loss == "multinomial":
        used: LocalLoss = Multinomial(3)
        return LocalProblem(X, CLASSES, used, 1.0 / 40, mu, RNG_SHIFT[:18].reshape(6, 3))
    return LocalProblem(X, SIGNS, LOSSES[loss], 1.0 / 40, mu, RNG_SHIFT[:6])


RNG_SHIFT = 0.02 * np.random.default_rng(6).standard_normal(18)


def objective(local: LocalProblem, theta: Array) -> float:
    return local.value(theta, local.loss.value(local.predictions(theta), local.y))


@pytest.mark.parametrize(("solver", "loss"), FITTING)
def test_a_solver_meets_the_gap_that_it_is_asked_for_and_the_gap_bounds_the_error(solver: str, loss: str) -> None:
    """Γ ≥ E(θ) − min E by weak duality, Proposition 3.1 of the DualFL paper."""
    local = problem(loss)
    best = SOLVERS[solver](local, np.zeros_like(local.shift), tolerance=1e-14, iterations=20_000)
    assert best.met
    optimum = objective(local, best.theta)
    for tolerance in (1e-2, 1e-5, 1e-8):
        solved = SOLVERS[solver](local, np.zeros_like(local.shift), tolerance=tolerance, iterations=20_000)
        assert solved.met
        assert -1e-13 <= objective(local, solved.theta) - optimum <= solved.gap <= tolerance


@pytest.mark.parametrize("loss", SMOOTH)
def test_solvers_agree(loss: str) -> None:
    local = problem(loss)
    names = [solver for solver, fitting in FITTING if fitting == loss]
    found = [SOLVERS[name](local, np.zeros_like(local.shift), tolerance=1e-14, iterations=20_000) for name in names]
    for solved in found[1:]:
        assert solved.theta == pytest.approx(found[0].theta, abs=1e-6)


def test_the_gap_is_that_of_equation_3_6() -> None:
    """Γ(θ) = E(θ) + g*(ν(ζ − θ)) + ν/2 ‖θ‖², with g* by another maximisation; ν = μ and c = νζ."""
    local = problem("logistic")
    solved = SOLVERS["accelerated"](local, np.zeros(6), tolerance=1e-3, iterations=100)
    xi = local.shift - local.mu * solved.theta

    def minus(theta: Array) -> tuple[float, Array]:
        z = local.predictions(theta)
        pull = local.scale * X.T @ local.loss.subgradient(z, local.y)
        return local.scale * float(local.loss.value(z, local.y).sum()) - float(xi @ theta), -pull - xi

    conjugate = -float(minimize(minus, np.zeros(6), jac=True, method="BFGS", options={"gtol": 1e-9}).fun)
    gamma = objective(local, solved.theta) + conjugate + local.mu / 2.0 * float(solved.theta @ solved.theta)
    assert solved.gap == pytest.approx(gamma, abs=1e-10)


@pytest.mark.parametrize(("solver", "loss"), FITTING)
def test_a_solver_that_runs_out_of_iterations_says_so(solver: str, loss: str) -> None:
    local = problem(loss, mu=1e-4)
    solved = SOLVERS[solver](local, np.zeros_like(local.shift), tolerance=1e-12, iterations=2)
    assert not solved.met
    assert solved.iterations <= 2
    assert np.isfinite(solved.theta).all()


@pytest.mark.parametrize("solver", ["accelerated", "lbfgs"])
def test_a_start_at_the_solution_costs_next_to_nothing(solver: str) -> None:
    local = problem("logistic")
    solved = SOLVERS[solver](local, np.zeros(6), tolerance=1e-14, iterations=1000)
    again = SOLVERS[solver](local, solved.theta, tolerance=1e-10, iterations=1000)
    assert again.iterations <= 1


@pytest.mark.parametrize(("solver", "loss"), FITTING)
def test_sparse_rows_give_what_dense_rows_give(solver: str, loss: str) -> None:
    local = problem(loss)
    sparse = replace(local, X=csr_array(X))
    found = [
        SOLVERS[solver](each, np.zeros_like(local.shift), tolerance=1e-12, iterations=20_000)
        for each in (local, sparse)
    ]
    assert found[1].theta == pytest.approx(found[0].theta, abs=1e-6)


def test_rows_of_zeros_leave_the_shift_alone() -> None:
    for solver, loss in FITTING:
        local = problem(loss)
        empty = replace(local, X=np.zeros_like(X))
        solved = SOLVERS[solver](empty, np.zeros_like(local.shift), tolerance=1e-12, iterations=1000)
        assert solved.met
        assert solved.theta == pytest.approx(local.shift / local.mu)
