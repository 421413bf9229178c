"""Corrective HyFDCA in storms: honest parties and servers that die at any moment never lock each other out."""

from typing import Final

import numpy as np
import pytest

from fenchel_common.data.partition import partition
from support.corrective import (
    CASE,
    FIXED_POINT,
    LOSSES,
    Ascent,
    chained,
    error_of,
    settings,
    simulation,
    state_of,
)
from support.keys import cipher, run_key
from support.problems import Problem, problem
from support.simulation import Simulation
from support.storms import Storm

GRIDS: Final = [(2, 2), (4, 1), (1, 3)]
SEEDS: Final = 20
STORMY_ROUNDS: Final = 10


def storm(case: Problem, *, seed: int, grid: tuple[int, int]) -> Simulation:
    """Thirty rounds of absences, failures and restarts, announced and silent, and servers that die; then calm."""
    run = simulation(case, grid)
    run.lenient = True
    rng = np.random.default_rng(seed)
    names = sorted(run.names)
    run.absent = lambda at, _phase, _who: at <= 30 and rng.random() < 0.02
    ascent = Ascent(run, case)
    for _ in range(30):
        if rng.random() < 0.2:
            run.restore(run.server.snapshot())
        restarted = frozenset(client for client in names if rng.random() < 0.05)
        for client in restarted:
            run.restart(client)
        if rng.random() < 0.1:
            run.restart(names[int(rng.integers(len(names)))])
        there = frozenset(client for client in names if rng.random() < 0.92)
        before = run.alpha(case.ids)
        run.round(available=there, restarted=restarted)
        ascent.check()
        own_rows = [case.ids.index(sample) for client in run.names - there for sample in run.shards[client].ids]
        np.testing.assert_array_equal(run.alpha(case.ids)[own_rows], before[own_rows])
    assert ascent.certificates > 0
    while (ascent.check().metrics.gap or 1.0) > 1e-3:
        run.round()
        assert len(run.reports) < 80
    return run


@pytest.mark.parametrize(("loss", "grid"), [("hinge", (2, 2)), ("smoothed_hinge", (4, 1)), ("logistic", (2, 2))])
def test_d_never_falls_and_certificates_hold_through_a_storm(loss: str, grid: tuple[int, int]) -> None:
    run = storm(problem(**CASE, loss=loss), seed=5, grid=grid)
    state = state_of(run)
    assert state.collapses > 3
    assert state.relative_rounds > 3


def weathered(storm: Storm, case: Problem, *, rounds: int = STORMY_ROUNDS) -> None:
    """D never falls in the storm; afterwards the run is certified within three rounds, and has one model."""
    dual = case.dual(storm.alpha(case.ids))
    for _ in range(rounds):
        storm.stormy_round()
        now = case.dual(storm.alpha(case.ids))
        assert now >= dual - FIXED_POINT
        dual = max(dual, now)
    assert storm.refusals <= {"the server left out records"}
    for _ in range(3):
        storm.calm_round()
    metrics = storm.reports[-1].metrics
    assert metrics.absences == {}
    assert metrics.gap is not None
    assert error_of(storm, case) <= metrics.gap


@pytest.mark.parametrize("seed", range(SEEDS))
def test_kills_in_every_phase_lock_nobody_out(seed: int) -> None:
    """Partial participation, killed clients, lost results and killed servers, at random, with tags."""
    case = problem(**{**CASE, "rows": 40}, loss=LOSSES[seed % len(LOSSES)])
    grid, labels = GRIDS[seed % len(GRIDS)], ("all", "first")[seed % 2]
    shards = partition(case.data, grid=grid, labels="first" if labels == "first" and grid[1] > 1 else "all")
    if seed % 5 == 4:
        case, shards = chained()
    weathered(Storm.of(shards, settings(case), seed=seed), case)


def test_kills_under_a_real_key_lock_nobody_out() -> None:
    case = problem(**{**CASE, "rows": 40})
    chosen = settings(case, privacy="sealed")
    storm = Storm.of(partition(case.data, grid=(2, 2)), chosen, seed=3, cipher=cipher(), key=run_key())
    weathered(storm, case, rounds=6)
    assert storm.attempt > 2
    assert sum(storm.processes.values()) > 1
