"""What the SCAFF-PD paper claims of its synthetic robust regression (C.1), and of its parameters."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import NonlinearConstraint, minimize

from fenchel_client.algorithms.averaging.descent import descend
from fenchel_client.algorithms.averaging.scaffpd import local_update
from fenchel_common.algorithms.averaging.scaffpd import Pace
from fenchel_deploy.papers.saddle import saddle_point
from fenchel_server.algorithms.averaging.simplex import Ambiguity, project_onto_capped_simplex, project_onto_simplex
from support.robust import drfa, robust_regression, scaffpd

Array = NDArray[np.float64]

STEPS = 100  # as printed in C.1
SETTINGS = [(sigma, rho) for sigma in (0.01, 0.1) for rho in (0.01, 0.05, 0.1)]


def pace(*, step: float = 3e-3, steps: int = STEPS, sigma: float = 10.0, theta: float = 0.5) -> Pace:
    return Pace(tau=step * steps, sigma=sigma, theta=theta)


@pytest.mark.parametrize(("sigma", "rho"), SETTINGS)
def test_it_converges_linearly_to_the_exact_saddle_point(sigma: float, rho: float) -> None:
    """Theorem 3.5 and Figure 2: one setting for all, 1e-10 within 26 rounds and 1e-15 within 40."""
    clients, ambiguity = robust_regression(sigma), Ambiguity(rho)
    solution, weights = saddle_point(clients, ambiguity)
    course = scaffpd(clients, ambiguity, pace(), rounds=40, steps=STEPS, solution=solution)
    errors = np.array(course.errors)
    assert errors[-1] < 1e-15
    np.testing.assert_allclose(course.weights, weights, atol=1e-6)
    slopes = np.diff(np.log10(errors[[5, 15, 25, 35]])) / 10.0
    assert (slopes < -0.3).all()  # at least half a digit of ‖x − x*‖ every four rounds, to the end


@pytest.mark.parametrize(("sigma", "rho"), [(0.01, 0.1), (0.1, 0.01)])
def test_drfa_is_slower_by_more_than_four_times_as_many_rounds(sigma: float, rho: float) -> None:
    """Figure 2, with the best steps of a grid for DRFA: SCAFF-PD has 1e-10 after 23 to 26 rounds.

    DRFA is at 1e-6 (σ = 0.01) and 3e-5 (σ = 0.1) after 100.
    """
    clients, ambiguity = robust_regression(sigma), Ambiguity(rho)
    solution, _ = saddle_point(clients, ambiguity)
    ours = scaffpd(clients, ambiguity, pace(), rounds=30, steps=STEPS, solution=solution).rounds_to(1e-10)
    assert ours <= 26
    for step in (1e-3, 3e-3):
        theirs = drfa(clients, ambiguity, rounds=4 * ours, steps=STEPS, step=step, sigma=1.0, solution=solution, seed=1)
        assert min(theirs.errors) > 1e-8


def test_more_local_steps_need_fewer_rounds() -> None:
    """Figure 5 (right), at the same local step size; measured: 365, 91 and 18 rounds for 5, 20 and 100 steps."""
    clients, ambiguity = robust_regression(0.1), Ambiguity(0.05)
    solution, _ = saddle_point(clients, ambiguity)
    rounds = [
        scaffpd(
            clients, ambiguity, pace(steps=steps, sigma=3.0), rounds=limit, steps=steps, solution=solution
        ).rounds_to(1e-8)
        for steps, limit in ((5, 450), (20, 120), (100, 40))
    ]
    assert 450 >= rounds[0] > 2 * rounds[1] > 4 * rounds[2]


def test_heterogeneity_does_not_stop_it() -> None:
    """Figure 5 (left) and Remark 3.7: δ_i of deviation 0.01 to 0.1 and beyond."""
    for sigma in (0.03, 0.3):
        clients, ambiguity = robust_regression(sigma), Ambiguity(0.1)
        solution, _ = saddle_point(clients, ambiguity)
        course = scaffpd(clients, ambiguity, pace(sigma=1.0), rounds=60, steps=STEPS, solution=solution)
        assert course.errors[-1] < 1e-6


def test_corrected_steps_have_no_drift_at_the_saddle_point() -> None:
    """Algorithm 2: at x* with c = Σ λ_i ∇f_i(x*) = 0, every local step is g_i(u) − c_i = 0 whatever J."""
    clients, ambiguity = robust_regression(0.1), Ambiguity(0.1)
    solution, _ = saddle_point(clients, ambiguity)
    for client in clients:
        change = local_update(client, solution, np.zeros(10), step=1e-2, steps=50)
        assert np.abs(change).max() < 1e-12
        assert np.abs(descend(client, solution, step=1e-2, steps=50) - solution).max() > 1e-2


def test_agnostic_learning_converges_as_one_over_the_square_of_rounds() -> None:
    """Theorem 3.1 under Condition 3.1, for ρ = 0: R²·‖x^R − x*‖² stays bounded."""
    clients = robust_regression(0.1)
    everyone = np.arange(5)

    def bound(point: Array) -> Array:
        return np.array([point[-1] - clients[number].value(point[:-1]) for number in everyone])

    def slope(point: Array) -> Array:
        return np.array([[*-clients[number].gradient(point[:-1]), 1.0] for number in everyone])

    def largest(point: Array) -> tuple[float, Array]:
        return float(point[-1]), np.eye(11)[-1]

    exact = minimize(
        largest,
        np.array([*np.zeros(10), 50.0]),
        jac=True,
        constraints=[NonlinearConstraint(bound, 0.0, np.inf, jac=slope)],
        method="SLSQP",
        options={"maxiter": 300, "ftol": 1e-14},
    )
    solution = np.asarray(exact.x[:-1])
    start = Pace(tau=0.1, sigma=1.0, theta=1.0, strong_convexity=0.1)
    course = scaffpd(clients, Ambiguity(0.0), start, rounds=200, steps=10, solution=solution)
    scaled = np.array(course.errors) * np.arange(201) ** 2
    assert scaled[100:].max() <= scaled[10:100].max()
    assert course.errors[-1] < 1e-5


def test_the_mean_of_the_worst_share_is_reached_too() -> None:
    """The CVaR set: at the end no λ_i is above 1/(αN), and the largest losses have the weight."""
    clients = robust_regression(0.3)
    ambiguity = Ambiguity.cvar(0.4, 5)
    start = Pace(tau=0.1, sigma=0.5, theta=1.0, strong_convexity=0.1)
    course = scaffpd(clients, ambiguity, start, rounds=150, steps=10)
    losses = np.array([client.value(course.x) for client in clients])
    assert course.weights.max() <= 0.5 + 1e-12
    best = float(np.sort(losses)[-2:].mean())
    assert float(course.weights @ losses) == pytest.approx(best, rel=1e-2)


def test_condition_3_1_has_the_growth_of_lemma_e_3() -> None:
    """(E.25) and (E.27): τ_r σ_r is constant, θ_r = σ_{r−1}/σ_r, γ_r ≥ μ²τ_0²γ_0 r²/9."""
    first = current = Pace(tau=0.5, sigma=2.0, theta=1.0, strong_convexity=0.3)
    for r in range(1, 400):
        following = current.next()
        assert following.tau * following.sigma == pytest.approx(first.tau * first.sigma)
        assert following.theta == pytest.approx(current.sigma / following.sigma)
        gamma, gamma_0 = following.sigma / following.tau, first.sigma / first.tau
        assert gamma == pytest.approx(current.sigma / current.tau * (1.0 + 0.3 * current.tau))
        assert gamma >= 0.3**2 * first.tau**2 * gamma_0 * r**2 / 9.0
        current = following


def test_condition_3_2_meets_the_inequalities_of_lemma_e_8_and_its_rate() -> None:
    """(E.49) with π = θσL_λx, and ‖x^R − x*‖² falls at least as θ^R (Theorem 3.5)."""
    clients, ambiguity = robust_regression(0.1, ridge=1.0), Ambiguity(0.1)
    solution, _ = saddle_point(clients, ambiguity)
    curvatures = [np.asarray(2.0 * client.X.T @ client.X / len(client.y) + np.eye(10)) for client in clients]
    mu = min(float(np.linalg.eigvalsh(curvature)[0]) for curvature in curvatures)
    smoothness = max(float(np.linalg.eigvalsh(curvature)[-1]) for curvature in curvatures)
    # L_λx bounds the gradients where the iterates are: between the start and a little beyond the solution.
    ends = [np.array([client.gradient(x) for client in clients]) for x in (np.zeros(10), solution)]
    coupling = max(float(np.linalg.norm(end, 2)) for end in ends)
    rule = Pace.strongly_concave(mu_x=mu, mu_dual=0.5, smoothness=smoothness, coupling=coupling)
    tau, sigma, theta = rule.tau, rule.sigma, rule.theta
    pi = theta * sigma * coupling
    slack = 1.0 + 1e-9
    assert (1.0 / (2 * tau) + mu / 8.0) * slack >= 1.0 / (2 * tau * theta)
    assert (1.0 / (2 * sigma) + 0.5 / 2.0) * slack >= 1.0 / (2 * sigma * theta)
    assert slack / tau >= 12.0 * smoothness + 2.0 * pi * theta * coupling
    assert slack / sigma >= theta * coupling / pi
    course = scaffpd(clients, ambiguity, rule, rounds=600, steps=2, solution=solution)
    assert course.errors[600] <= course.errors[0] * theta**600 * 10.0


def test_noisy_local_gradients_lead_near_the_saddle_point() -> None:
    """(3.2): the error stays at a level that falls with the steps τ; full gradients have none."""
    clients, ambiguity = robust_regression(0.1), Ambiguity(0.1)
    solution, _ = saddle_point(clients, ambiguity)
    levels = []
    for step, rounds in ((0.02, 40), (0.002, 150)):
        chosen = pace(step=step, steps=20, sigma=1.0)
        course = scaffpd(clients, ambiguity, chosen, rounds=rounds, steps=20, solution=solution, batch=10, seed=3)
        levels.append(np.mean(course.errors[-20:]))
    assert levels[1] < levels[0] / 2.0 < 1e-2


def test_the_chi_squared_dual_step_is_the_printed_argmin() -> None:
    """Algorithm 1 (2): optimality on the simplex, ⟨∇, e_i⟩ equal where λ_i > 0 and not smaller where λ_i = 0."""
    rng = np.random.default_rng(0)
    for rho in (0.0, 0.03, 1.0):
        weights, losses, sigma = rng.dirichlet(np.ones(7)), 3.0 * rng.random(7), 0.7
        found = Ambiguity(rho).dual_step(weights, losses, sigma)
        slopes = rho * (7 * found - 1.0) - losses + (found - weights) / sigma
        assert found.sum() == pytest.approx(1.0)
        assert (found >= 0.0).all()
        level = slopes[found > 0.0].mean()
        np.testing.assert_allclose(slopes[found > 0.0], level, atol=1e-12)
        assert (slopes[found == 0.0] >= level).all()


def test_projections_are_the_nearest_points() -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        count = int(rng.integers(2, 12))
        point, cap = rng.standard_normal(count) * rng.choice([0.1, 1.0, 10.0]), rng.uniform(1.0 / count, 1.0)
        for found, limit in ((project_onto_simplex(point), 1.0), (project_onto_capped_simplex(point, cap), cap)):
            assert found.sum() == pytest.approx(1.0)
            assert found.min() >= 0.0
            assert found.max() <= limit
            for other in rng.dirichlet(np.full(count, 3.0), size=20):
                if other.max() <= limit:
                    assert (point - found) @ (other - found) <= 1e-9
    np.testing.assert_allclose(project_onto_capped_simplex(np.array([5.0, 0.0, -3.0]), 1.0 / 3.0), 1.0 / 3.0)
