"""What the DualFL paper proves, checked on its pure functions: rates, duality, inexact local solvers."""

from itertools import islice

import numpy as np
import pytest
from numpy.typing import NDArray

from fenchel_client.algorithms.averaging.dualfl import smoothness
from fenchel_common.algorithms.averaging.dualfl import DualflSettings, gap_bound, next_momentum
from fenchel_common.data.datasets import load_dataset
from fenchel_common.losses import LOSSES
from fenchel_deploy.experiments.centralized import solve_centralized
from support.dualfl import Parts, epochs, errors

Array = NDArray[np.float64]

DATA = load_dataset("breast_cancer")
EXACT = 0.0
"""As exact as double precision allows."""


def parts(clients: int, *, by_label: bool = False) -> Parts:
    assert isinstance(DATA.X, np.ndarray)
    return Parts.split(DATA.X, DATA.y, clients, by_label=by_label)


def condition(split: Parts, settings: DualflSettings) -> float:
    """κ = L/μ"""
    largest = max(smoothness(settings, X, loss_weight=split.fraction) for X in split.X)
    return largest / settings.strong_convexity


@pytest.mark.parametrize("by_label", [False, True], ids=["alike", "one class each"])
@pytest.mark.parametrize("lambda_", [1e-2, 3e-3])
@pytest.mark.parametrize("loss", ["logistic", "smoothed_hinge"])
def test_smooth_problems_converge_at_the_rate_of_theorem_3_3(loss: str, lambda_: float, by_label: bool) -> None:
    """‖θ^(n) − θ*‖² ≲ (1 − 1/√κ)^n for ρ = 1/κ, ν = μ and local problems solved to (3.8)."""
    settings = DualflSettings.parse({"loss": loss, "lambda": lambda_})
    split = parts(4, by_label=by_label)
    kappa = condition(split, settings)
    optimum = split.minimiser(settings)
    found = errors(split, settings, 1.0 / kappa, 40, optimum)
    rate = 1.0 - kappa**-0.5
    # The first error stands for the constant of ≲; momentum makes single rounds go up and down.
    assert max(found[29:]) <= found[0] * rate**29
    assert min(found) > 1e-24


def test_more_rounds_are_needed_in_proportion_to_the_root_of_kappa_not_to_kappa() -> None:
    """The communication complexity O(√κ log 1/ε) of Theorem 3.3."""
    split = parts(4, by_label=True)
    rounds, kappas = [], []
    for lambda_ in (3e-2, 3e-4):
        settings = DualflSettings.parse({"loss": "smoothed_hinge", "lambda": lambda_, "gap_factor": 1e-4})
        kappa = condition(split, settings)
        optimum = split.minimiser(settings)
        found = errors(split, settings, 1.0 / kappa, 150, optimum)
        small = 1e-6 * float(optimum @ optimum)
        rounds.append(next(n for n in range(150) if max(found[n:]) <= small) + 1)
        kappas.append(kappa)
    assert kappas[1] / kappas[0] > 90.0
    assert rounds[1] / rounds[0] < 2.0 * (kappas[1] / kappas[0]) ** 0.5


@pytest.mark.parametrize("by_label", [False, True], ids=["alike", "one class each"])
def test_nonsmooth_problems_converge_like_one_over_n_squared(by_label: bool) -> None:
    """Theorem 3.2, hinge with ridge, ρ = 0: (6.13) and FISTA's bound give ‖θ^(n) − θ*‖² ≤ 4 ‖ξ*‖²/(K ν² (n + 1)²)."""
    lambda_, clients = 1e-2, 4
    settings = DualflSettings.parse({"loss": "hinge", "lambda": lambda_})
    split = parts(clients, by_label=by_label)
    X, y = np.concatenate(split.X), np.concatenate(split.y)
    central = solve_centralized(X, y, loss=LOSSES["hinge"], lambda_=lambda_)
    ends = np.cumsum([0, *(len(labels) for labels in split.y)])
    dual_norm = sum(
        float(np.sum((split.fraction * split.X[j].T @ central.alpha[ends[j] : ends[j + 1]]) ** 2))
        for j in range(clients)
    )
    found = np.array(errors(split, settings, 0.0, 60, central.w))
    n = np.arange(1, 61)
    assert (found <= 4.0 * dual_norm / (clients * lambda_**2 * (n + 1.0) ** 2)).all()
    assert found[-10:].max() <= found[4] * (5.0 / 50.0) ** 2


def test_the_criterion_of_theorem_3_2_is_met_in_every_epoch() -> None:
    settings = DualflSettings.parse({"loss": "hinge", "lambda": 1e-2, "gap_factor": 1.0})
    for n, epoch in enumerate(islice(epochs(parts(4), settings, 0.0), 30)):
        assert epoch.met
        assert max(epoch.gaps) <= gap_bound(n, clients=4, rho=0.0, nu=1e-2, gamma=settings.gamma)


@pytest.mark.parametrize("rho", [0.0, 0.02])
def test_it_is_fista_on_the_dual(rho: float) -> None:
    """Lemma 6.5: ξ and η of (6.9) are those of Algorithm 2, whose proximal step (6.7) is here solved by Newton."""
    settings = DualflSettings.parse({"loss": "logistic", "lambda": 0.01})
    split, nu = parts(3, by_label=True), 0.01
    xi = eta = np.zeros((3, 30))
    theta = previous = np.zeros(30)
    t, beta = 1.0, 0.0
    for epoch in islice(epochs(split, settings, rho, tolerance=EXACT), 25):
        assert nu * (epoch.variates - (1.0 + beta) * theta + beta * previous) == pytest.approx(eta, abs=1e-8)
        # (6.7): the proximal step of length ν at η − ν∇F_d(η) = η − mean of η, by Moreau from the prox of g_j.
        forward = eta - eta.mean(axis=0)
        proximal = np.array([forward[j] - nu * _proximal_of_g(split, j, forward[j] / nu, nu) for j in range(3)])
        t, beta = next_momentum(t, rho)
        xi, eta = proximal, (1.0 + beta) * proximal - beta * xi
        theta, previous = epoch.theta, theta
        assert nu * epoch.duals == pytest.approx(xi, abs=1e-8)
        assert theta == pytest.approx(-xi.mean(axis=0) / nu, abs=1e-6)


def _proximal_of_g(split: Parts, j: int, centre: Array, nu: float) -> Array:
    """argmin g_j(θ) + ν/2 ‖θ − centre‖², g_j the losses of party j alone, by Newton's method."""
    X, y = split.X[j], split.y[j]
    theta = np.zeros_like(centre)
    for _ in range(50):
        odds = 1.0 / (1.0 + np.exp(y * (X @ theta)))
        gradient = nu * (theta - centre) - split.fraction * X.T @ (y * odds)
        hessian = nu * np.eye(len(theta)) + split.fraction * (X.T * (odds * (1.0 - odds))) @ X
        step = np.linalg.solve(hessian, gradient)
        theta = theta - step
        if float(np.abs(step).max()) < 1e-14:
            break
    return theta


def test_control_variates_sum_to_zero_and_give_the_average() -> None:
    """(6.10), and (3.2) by the dual variables."""
    settings = DualflSettings.parse({"loss": "hinge", "lambda": 1e-2})
    for epoch in islice(epochs(parts(5, by_label=True), settings, 0.0), 20):
        assert epoch.variates.sum(axis=0) == pytest.approx(np.zeros(30), abs=1e-9)
        assert (epoch.variates - epoch.duals).mean(axis=0) == pytest.approx(epoch.theta, abs=1e-9)


def test_a_smaller_nu_than_mu_converges_too() -> None:
    """Theorem 3.3 for ν < μ and ρ = ν/L."""
    settings = DualflSettings.parse({"loss": "logistic", "lambda": 1e-2, "nu": 5e-3})
    split = parts(4)
    rho = 5e-3 / (condition(split, settings) * 1e-2)
    found = errors(split, settings, rho, 40, split.minimiser(settings))
    assert max(found[29:]) <= found[0] * (1.0 - rho**0.5) ** 29


def test_without_strong_convexity_the_regularised_form_approaches_the_optimum_as_alpha_falls() -> None:
    """Theorem 4.2, ρ = α/(L + α), ν = α: ‖∇E(θ^(n))‖ ≤ (something that vanishes with n) + α ‖θ^α‖ of (4.5)."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 5))
    y = np.where(X @ rng.standard_normal(5) + 2.0 * rng.standard_normal(200) > 0.0, 1.0, -1.0)
    split = Parts.split(X, y, 4)
    gradients = []
    for alpha in (1e-1, 1e-2, 3e-3):
        settings = DualflSettings.parse({"loss": "logistic", "lambda": 0.0, "alpha": alpha})
        regularised = split.minimiser(settings)
        *_, last = islice(epochs(split, settings, 1.0 / condition(split, settings)), 100)
        whole = split.whole(settings, mu=0.0)
        gradient = whole.iterate(last.theta, whole.predictions(last.theta)).gradient
        gradients.append(float(np.linalg.norm(gradient)))
        assert gradients[-1] == pytest.approx(alpha * float(np.linalg.norm(regularised)), rel=0.05)
    assert gradients[0] > 5.0 * gradients[1] > 10.0 * gradients[2]


@pytest.mark.parametrize("solver", ["accelerated", "lbfgs"])
def test_local_iterations_grow_with_the_logarithm_of_the_accuracy(solver: str) -> None:
    """Theorem 3.5: M_n = O(√κ log N/ε)."""
    settings = DualflSettings.parse({"loss": "logistic", "lambda": 1e-2, "local_solver": solver})
    split = parts(4)
    kappa = condition(split, settings)
    for epoch in islice(epochs(split, settings, 1.0 / kappa), 40):
        assert epoch.met
        assert max(epoch.iterations) <= 10.0 * kappa**0.5
