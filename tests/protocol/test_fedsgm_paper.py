"""What the FedSGM paper claims, on its breast cancer experiment: n = 10, E = 5, T = 100, ε = 0.1, three seeds.

The columns are standardised to variance 1/30, so that η = 9 here is η = 0.3 on columns of variance 1.
η was chosen among several: at small step sizes both switchings violate the constraint in about as many rounds.
"""

from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import NonlinearConstraint, minimize

from fenchel_client.algorithms.averaging.constraints import ConstrainedProblem, constrained_problem
from fenchel_client.algorithms.averaging.fedsgm import local_change
from fenchel_common.algorithms.averaging.compression import (
    Lanes,
    largest_coordinates,
    most_wanted,
    on_coordinates,
    random_coordinates,
    scaled_to_coordinates,
)
from fenchel_common.algorithms.averaging.fedsgm import FedsgmSettings
from fenchel_common.data.datasets import load_dataset
from fenchel_common.data.heterogeneous import stratified_rows
from fenchel_server.algorithms.averaging.fedsgm import switching_weight

Array = NDArray[np.float64]
Switching = Literal["hard", "soft"]

CLIENTS, LOCAL_STEPS, ROUNDS, TOLERANCE, SEEDS = 10, 5, 100, 0.1, 3
STEP = 9.0
MINORITY = -1


@dataclass(frozen=True)
class Trajectory:
    constraints: Array
    objectives: Array
    model: Array

    @property
    def violations(self) -> int:
        return int(np.count_nonzero(self.constraints > TOLERANCE))


def breast_cancer_clients(seed: int) -> list[ConstrainedProblem]:
    """The loss on the majority class is minimised, that on the minority class is bounded."""
    data = load_dataset("breast_cancer")
    settings = FedsgmSettings.parse({"constrained_label": MINORITY})
    split = stratified_rows(data.y, CLIENTS, seed=seed)
    return [constrained_problem(settings, data.X[rows], data.y[rows]) for rows in split]


def algorithm_1(
    clients: list[ConstrainedProblem],
    *,
    rule: Switching,
    kept: int | None = None,
    beta: float = 2.0 / TOLERANCE,
    seed: int = 0,
) -> Trajectory:
    """Algorithm 1 in the open; with `kept`, Rand-K with coordinates of its own for each client, as in the paper."""
    rng = np.random.default_rng(seed)
    length = load_dataset("breast_cancer").X.shape[1]
    w = total = np.zeros(length)
    weight = 0.0
    constraints, objectives = np.zeros(ROUNDS), np.zeros(ROUNDS)
    for t in range(ROUNDS):
        constraints[t] = np.mean([client.constraint(w)[0] for client in clients])
        objectives[t] = np.mean([client.objective(w)[0] for client in clients])
        switch = switching_weight(float(constraints[t]) - TOLERANCE, rule=rule, beta=beta)
        total, weight = total + (1.0 - switch) * w, weight + 1.0 - switch
        changes = [local_change(client, w, switch=switch, step=STEP, steps=LOCAL_STEPS) for client in clients]
        if kept is not None:
            changes = [scaled_to_coordinates(change, random_coordinates(length, kept, rng)) for change in changes]
        w = w - STEP * np.mean(changes, axis=0)
    return Trajectory(constraints, objectives, total / weight)


@pytest.fixture(scope="module")
def runs() -> dict[tuple[Switching, int | None], list[Trajectory]]:
    clients = [breast_cancer_clients(seed) for seed in range(SEEDS)]
    rules: tuple[Switching, ...] = ("hard", "soft")
    return {
        (rule, kept): [algorithm_1(clients[seed], rule=rule, kept=kept, seed=seed) for seed in range(SEEDS)]
        for rule in rules
        for kept in (None, 15)
    }


Runs = dict[tuple[Switching, int | None], list[Trajectory]]


@pytest.mark.parametrize("kept", [None, 15], ids=["uncompressed", "rand_k"])
@pytest.mark.parametrize("rule", ["hard", "soft"])
def test_both_switchings_reach_feasibility(runs: Runs, rule: Switching, kept: int | None) -> None:
    """Figure 1: every seed gets to g ≤ ε within a few rounds, and the objective goes on falling."""
    for run in runs[rule, kept]:
        first = int(np.flatnonzero(run.constraints <= TOLERANCE)[0])
        assert first <= 20
        assert run.constraints[-10:].mean() <= 1.1 * TOLERANCE
        assert run.objectives[-1] < 0.8 * run.objectives[first]


@pytest.mark.parametrize("kept", [None, 15], ids=["uncompressed", "rand_k"])
def test_soft_switching_violates_in_at_most_half_as_many_rounds(runs: Runs, kept: int | None) -> None:
    """Section 4 says about 4 times fewer; measured here: 26.7 against 6.0 rounds of 100."""
    hard = np.mean([run.violations for run in runs["hard", kept]])
    soft = np.mean([run.violations for run in runs["soft", kept]])
    assert soft <= hard / 2.0
    assert 2.5 <= hard / soft <= 7.0


@pytest.mark.parametrize("kept", [None, 15], ids=["uncompressed", "rand_k"])
def test_soft_switching_swings_less_around_the_tolerance(runs: Runs, kept: int | None) -> None:
    """Section 4: "hard switching frequently oscillates around the tolerance"."""
    swings = {
        rule: np.mean([np.abs(np.diff(run.constraints[ROUNDS // 2 :])).mean() for run in runs[rule, kept]])
        for rule in ("hard", "soft")
    }
    assert swings["soft"] < swings["hard"] / 4.0


@pytest.mark.parametrize("rule", ["hard", "soft"])
def test_the_averaged_iterate_is_an_epsilon_solution(runs: Runs, rule: Switching) -> None:
    """Theorems 6 and 7: g(w̄) ≤ ε and f(w̄) − f* ≤ ε; here even with f* of min f subject to g ≤ ε, and half of ε.

    The theorems' f* is subject to g ≤ 0, which the logistic loss never meets; it would be larger.
    """
    clients = breast_cancer_clients(0)

    def objective(w: Array) -> tuple[float, Array]:
        parts = [client.objective(w) for client in clients]
        return float(np.mean([value for value, _ in parts])), np.mean([slope for _, slope in parts], axis=0)

    def constraint(w: Array) -> Array:
        return np.array([np.mean([client.constraint(w)[0] for client in clients])])

    def slope(w: Array) -> Array:
        return np.asarray(np.mean([client.constraint(w)[1] for client in clients], axis=0))

    run = runs[rule, None][0]
    bound = NonlinearConstraint(constraint, -np.inf, TOLERANCE, jac=slope)
    best = minimize(objective, run.model, jac=True, constraints=[bound], method="SLSQP", options={"maxiter": 60})
    assert constraint(np.asarray(best.x)) <= TOLERANCE + 1e-3
    assert constraint(run.model) <= TOLERANCE
    assert objective(run.model)[0] - float(best.fun) <= TOLERANCE / 2.0


def test_soft_switching_becomes_hard_as_beta_grows() -> None:
    """Section 3: min{1, [1 + βz]₊} tends to 1{z>0} away from z = 0; for z > 0 the two agree for every β."""
    for excess in (-0.3, -1e-3, 1e-9, 0.2):
        sharp = switching_weight(excess, rule="soft", beta=1e6)
        assert sharp == switching_weight(excess, rule="hard", beta=20.0)
    assert switching_weight(-0.05, rule="soft", beta=20.0) == 0.0
    assert switching_weight(-0.025, rule="soft", beta=20.0) == pytest.approx(0.5)
    assert switching_weight(0.0, rule="soft", beta=20.0) == 1.0


def test_rand_k_is_unbiased_with_the_variance_of_assumption_2() -> None:
    """E[C(x)] = x and E‖C(x) − x‖² = (d/K − 1)‖x‖², by all sets of K = 2 of d = 6 coordinates."""
    x = np.array([3.0, -1.0, 0.5, 0.0, 2.0, -4.0])
    sets = [np.array(chosen) for chosen in combinations(range(6), 2)]
    images = np.array([scaled_to_coordinates(x, chosen) for chosen in sets])
    np.testing.assert_allclose(images.mean(axis=0), x, atol=1e-12)
    assert ((images - x) ** 2).sum(axis=1).mean() == pytest.approx((6 / 2 - 1) * (x @ x))


@pytest.mark.parametrize(("shared", "alike"), [(True, True), (True, False), (False, True), (False, False)])
def test_lemma_3_holds_with_q_over_n_for_own_coordinates_and_with_q_for_shared_ones(shared: bool, alike: bool) -> None:
    """With independent C_j the mean squared error is q/n · mean ‖x_j‖²; with one set for all it is q ‖mean x_j‖²."""
    rng, count, length, kept, draws = np.random.default_rng(0), 10, 12, 3, 4000
    q = length / kept - 1.0
    vectors = np.tile(rng.standard_normal(length), (count, 1)) if alike else rng.standard_normal((count, length))
    mean = vectors.mean(axis=0)
    errors = []
    for _ in range(draws):
        sets = [random_coordinates(length, kept, rng) for _ in range(1 if shared else count)] * (count if shared else 1)
        images = [scaled_to_coordinates(x, chosen) for x, chosen in zip(vectors, sets, strict=True)]
        errors.append(((np.mean(images, axis=0) - mean) ** 2).sum())
    average = float((vectors**2).sum(axis=1).mean())
    expected = q * float(mean @ mean) if shared else q / count * average
    assert np.mean(errors) == pytest.approx(expected, rel=0.1)
    assert (np.mean(errors) > 5.0 * q / count * average) == (shared and alike), "the bound as the paper prints it fails"


def test_the_shared_seed_picks_every_set_of_coordinates_equally_often() -> None:
    rng = np.random.default_rng(0)
    draws = [tuple(random_coordinates(5, 2, rng)) for _ in range(4000)]
    counts = np.array([draws.count(pair) for pair in combinations(range(5), 2)])
    assert counts.sum() == 4000
    assert np.abs(counts - 400).max() < 5 * np.sqrt(400)


def test_top_k_contracts_and_error_feedback_loses_nothing() -> None:
    """‖C(x) − x‖² ≤ (1 − K/d)‖x‖²; what was sent and what is left out add up to all that was to be sent."""
    rng = np.random.default_rng(1)
    residual = sent_in_all = wanted_in_all = np.zeros(12)
    for _ in range(30):
        x = rng.standard_normal(12) + 0.1
        wanted = x + residual
        sent = on_coordinates(wanted, largest_coordinates(wanted, 3))
        assert ((wanted - sent) ** 2).sum() <= (1 - 3 / 12) * (wanted @ wanted) + 1e-12
        residual, sent_in_all, wanted_in_all = wanted - sent, sent_in_all + sent, wanted_in_all + x
    np.testing.assert_allclose(sent_in_all + residual, wanted_in_all, atol=1e-12)


def test_the_coordinates_that_most_clients_want_are_picked() -> None:
    votes = [np.array([4, 1, 7]), np.array([1, 4, 2]), np.array([9, 1, 4])]
    assert most_wanted(votes, 2, 10).tolist() == [1, 4]
    assert most_wanted(votes, 3, 10).tolist() == [1, 4, 9]


def test_quantising_is_unbiased_and_its_error_is_below_one_level() -> None:
    lanes = Lanes.of(reach=1.0, levels=7, headroom=4, clients=3)
    x = np.array([0.13, -0.9, 0.0, 2.0, -3.99, 0.5])
    rng = np.random.default_rng(2)
    images = np.array([lanes.quantised(x, rng) for _ in range(20_000)]) * lanes.step
    assert np.abs(images - x).max() <= lanes.step
    assert np.abs(images.mean(axis=0) - x).max() < 5 * lanes.step / np.sqrt(20_000)


def test_sums_of_packed_slots_are_the_sums_of_the_levels() -> None:
    rng = np.random.default_rng(3)
    lanes = Lanes.of(reach=0.7, levels=15, headroom=4, clients=10)
    assert lanes.in_a_slot == 4
    levels = rng.integers(-lanes.limit, lanes.limit + 1, size=(10, 30))
    levels[:, :4] = lanes.limit
    levels[:, 4:8] = -lanes.limit
    slots = np.sum([lanes.packed(level) for level in levels], axis=0)
    assert len(slots) == 8
    np.testing.assert_allclose(lanes.unpacked(slots, 30), levels.sum(axis=0) * lanes.step, rtol=1e-15)


def test_a_client_has_as_many_rows_of_each_class_as_the_others() -> None:
    y = load_dataset("breast_cancer").y
    split = stratified_rows(y, CLIENTS, seed=0)
    assert sorted(np.concatenate(split)) == list(range(569))
    for label in (-1.0, 1.0):
        counts = [np.count_nonzero(y[rows] == label) for rows in split]
        assert max(counts) - min(counts) <= 1
