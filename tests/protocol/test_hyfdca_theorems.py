"""The theorems of the HyFDCA paper, on the algorithm as it runs: settings, tasks, fixed-point sums and all.

They bound expectations over the draws of samples and clients, so means over many draws are compared, with three
standard errors allowed. λ is about 1 and rows have norms of at most 1: at small λ the bounds say nothing.
"""

import math
from collections.abc import Callable
from unittest.mock import patch

import numpy as np
import pytest
from numpy.typing import NDArray

from fenchel_common.algorithms.hyfdca import rounds
from fenchel_common.algorithms.hyfdca.draw import draw_samples
from fenchel_common.algorithms.hyfdca.messages import SampleRange
from fenchel_common.algorithms.hyfdca.settings import HyfdcaSettings
from fenchel_common.data.partition import partition
from fenchel_common.objectives import primal_point
from support.problems import Problem, problem
from support.simulation import Simulation

Array = NDArray[np.float64]
LIPSCHITZ = 1.0


def theory(case: Problem, **values: object) -> HyfdcaSettings:
    return HyfdcaSettings.parse(
        {
            "local": "theory",
            "privacy": "paper",
            "loss": case.loss.name,
            "lambda": case.lambda_,
            "certificate_every": 0,
            "stop": {"gap": None},
            **values,
        }
    )


def dual_errors(case: Problem, simulation: Simulation, count: int) -> Array:
    """ε_D after 0, 1, …, `count` rounds."""
    errors = [case.optimum - case.dual(np.zeros(len(case.ids)))]
    for _ in range(count):
        simulation.round()
        errors.append(case.optimum - case.dual(simulation.alpha(case.ids)))
    return np.array(errors)


def mean_and_error(samples: Array) -> tuple[Array, Array]:
    return samples.mean(axis=0), samples.std(axis=0, ddof=1) / math.sqrt(len(samples))


def corrected_t0(initial: float, G: float, rate: float) -> int:
    """⌈log(ε_0/G)/rate⌉, where `rate` is H/N or PH/N; the paper's t_0 lacks the division."""
    return max(0, math.ceil(math.log(initial / G) / rate))


def drawing_from(seed: int) -> Callable[..., tuple[SampleRange, ...]]:
    """`draw_samples` with another seed than that of the run."""
    return lambda cohort, share, **values: draw_samples(cohort, share, **{**values, "seed": seed})


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.parametrize("rounds_before", [0, 2, 12])
def test_one_round_gains_what_the_proof_of_theorem_4_4_says(loss: str, rounds_before: int) -> None:
    """E[D(α^t) − D(α^{t−1})] ≥ s·H/N·(P − D) − s²·H/N·G^{t−1} for every s in [0, 1] (equation 6), 100 draws."""
    case = problem(rows=60, columns=6, loss=loss, lambda_=0.5)
    X, y = case.data.X, case.data.y
    H, N = 9, len(y)
    simulation = Simulation.of(partition(case.data, grid=(2, 2)), theory(case, h=H))
    for _ in range(rounds_before):
        simulation.round()
    snapshot, alpha = simulation.server.snapshot(), simulation.alpha(case.ids)
    before = case.dual(alpha)
    w = primal_point(X, alpha, lambda_=case.lambda_)
    gap = case.primal(w) - before
    G = float(((case.loss.subgradient(X @ w, y) - alpha) ** 2).sum()) / (2 * N * case.lambda_)
    gains = []
    for seed in range(100):
        simulation.restore(snapshot)
        for client in sorted(simulation.names):
            simulation.restart(client)  # a client repeats a round a few times only
        with patch.object(rounds, "draw_samples", drawing_from(1000 + seed)):
            simulation.round()
        simulation.reports.pop()
        gains.append(case.dual(simulation.alpha(case.ids)) - before)
    mean, error = mean_and_error(np.array(gains))
    promises = [s * H / N * gap - s**2 * H / N * G for s in np.linspace(0.0, 1.0, 101)]
    assert max(promises) > 0.0
    assert mean >= max(promises) - 3.0 * error


@pytest.mark.parametrize(("lambda_", "H"), [(1.0, 20), (10.0, 5)])
def test_theorem_4_5_bounds_the_hybrid_run_with_all_clients(lambda_: float, H: int) -> None:
    """E[ε_D^t] ≤ 2G/(1 + H/(2N)·(t − t_0)) for t ≥ t_0, with the corrected t_0."""
    case = problem(lambda_=lambda_)
    N, G, count = len(case.ids), 2.0 * LIPSCHITZ**2 / lambda_, 45
    shards = partition(case.data, grid=(2, 2))
    runs = [dual_errors(case, Simulation.of(shards, theory(case, h=H, seed=seed)), count) for seed in range(10)]
    mean, error = mean_and_error(np.array(runs))
    t0 = corrected_t0(mean[0], G, H / N)
    assert t0 < count - 10
    for t in range(t0, count + 1):
        assert mean[t] <= 2.0 * G / (1.0 + H / (2.0 * N) * (t - t0)) + 3.0 * error[t]


def test_the_t0_that_theorem_4_5_prints_is_too_early_where_the_first_error_exceeds_g() -> None:
    """The erratum: at λ = 10 the printed t_0 = ⌈log(ε_0/G)⌉ lets the bound fall below the error itself."""
    case = problem(lambda_=10.0)
    H, G = 5, 2.0 * LIPSCHITZ**2 / 10.0
    mean, error = mean_and_error(
        np.array(
            [
                dual_errors(case, Simulation.of(partition(case.data, grid=(2, 2)), theory(case, h=H, seed=seed)), 3)
                for seed in range(6)
            ]
        )
    )
    printed = math.ceil(math.log(mean[0] / G))
    assert printed < corrected_t0(mean[0], G, H / len(case.ids))
    assert mean[printed] > 2.0 * G + 3.0 * error[printed]


@pytest.mark.parametrize(("lambda_", "H"), [(1.0, 10), (10.0, 5)])
def test_theorem_4_8_bounds_the_horizontal_run_with_random_clients(lambda_: float, H: int) -> None:
    """E[ε_D^t] ≤ 2G/(1 + PH/(2N)·(t − t_0)) for t ≥ t_0; K = 4 clients of equal size, P = 2 of them a round."""
    case = problem(lambda_=lambda_)
    N, P, G, count = len(case.ids), 2, 2.0 * LIPSCHITZ**2 / lambda_, 45
    shards = partition(case.data, grid=(4, 1))
    settings = [theory(case, h=H, seed=seed, participation="fraction:0.5") for seed in range(10)]
    mean, error = mean_and_error(np.array([dual_errors(case, Simulation.of(shards, s), count) for s in settings]))
    t0 = corrected_t0(mean[0], G, P * H / N)
    assert t0 < count - 10
    for t in range(t0, count + 1):
        assert mean[t] <= 2.0 * G / (1.0 + P * H / (2.0 * N) * (t - t0)) + 3.0 * error[t]


@pytest.mark.parametrize("fraction", [1.0, 0.75])
def test_theorem_4_11_bounds_the_vertical_run_with_sets_in_turn(fraction: float) -> None:
    """E[ε_D^t] ≤ (J_1 + J_2·(ln(t − C + 1) + 1))/t^{H/N} for t ≥ C; Q = 4 clients in C = 2 sets, γ_t = 1/t.

    λ = 10, where the bound falls well below the error at the start and so says something.
    """
    case = problem(rows=40, lambda_=10.0)
    N, C, count = len(case.ids), 2, 120
    H = int(fraction * N)
    settings = [theory(case, h=H, seed=seed, participation=f"cyclic:{C}") for seed in range(4)]
    shards = partition(case.data, grid=(1, 4))
    mean, error = mean_and_error(np.array([dual_errors(case, Simulation.of(shards, s), count) for s in settings]))
    J1 = C ** (H / N) * mean[C - 1]
    J2 = 2.0 * H * LIPSCHITZ**2 * (C + 1) / (N * case.lambda_) * ((C - 1) ** 4 + 2 * (C - 1) ** 2 + 1)
    bounds = [(J1 + J2 * (math.log(t - C + 1) + 1.0)) / t ** (H / N) for t in range(C, count + 1)]
    assert bounds[-1] < 0.5 * mean[0]
    for t in range(C, count + 1):
        assert mean[t] <= bounds[t - C] + 3.0 * error[t]


@pytest.mark.parametrize(
    ("grid", "participation", "h", "note"),
    [
        ((2, 2), "all", 5, ""),
        ((4, 1), "all", 5, ""),
        ((4, 1), "fraction:0.5", 5, ""),
        ((1, 4), "cyclic:2", 5, ""),
        ((2, 2), "fraction:0.5", 5, "no theorem covers fraction:0.5"),
        ((2, 2), "cyclic:2", 5, "no theorem covers cyclic:2"),
        ((4, 1), "cyclic:2", 5, "random subsets"),
        ((1, 4), "cyclic:3", 5, "sets of equal size"),
        ((3, 1), "fraction:0.5", 5, "equally many samples"),
        ((3, 1), "all", 27, "every client updates equally many"),
    ],
)
def test_a_report_says_so_where_no_theorem_covers_the_run(
    grid: tuple[int, int], participation: str, h: int, note: str
) -> None:
    case = problem()
    settings = theory(case, h=h, participation=participation)
    report = Simulation.of(partition(case.data, grid=grid), settings).round()
    assert note in report.metrics.note
    assert bool(note) == bool(report.metrics.note)


def test_a_report_says_that_the_practical_variant_has_no_theorem() -> None:
    case = problem()
    report = Simulation.of(partition(case.data, grid=(2, 2)), theory(case, local="paper")).round()
    assert "no convergence theorem" in report.metrics.note
