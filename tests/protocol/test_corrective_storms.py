"""Corrective HyFDCA in storms: honest parties and servers that die at any moment never lock each other out."""

from typing import Any, Final

import numpy as np
import pytest

from fenchel_common.data.partition import partition
from fenchel_common.errors import Refusal
from fenchel_common.ids import ClientId, RoundId
from support.corrective import (
    CASE,
    FIXED_POINT,
    LOSSES,
    PHASES,
    Ascent,
    chained,
    error_of,
    settings,
    simulation,
    state_of,
)
from support.halves import half_a_round
from support.keys import cipher, run_key
from support.problems import Problem, problem
from support.simulation import Simulation

GRIDS: Final = [(2, 2), (4, 1), (1, 3)]
SEEDS: Final = 20
STORMY_ROUNDS: Final = 10
CLIENT_KILLED, RESULT_LOST, ABSENT, SERVER_KILLED = 0.03, 0.03, 0.1, 0.35
"""Chances: before and after each answer of a client; of each result; of each client in a round; of each round."""


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


class Storm(Simulation):
    """A run whose clients are killed before and after answers, and whose server is killed in all phases.

    As a driver does, it tells the server which clients have another process than in the last round that was committed.

    Attributes
    ----------
    processes, begun, known
        The number of each client's process: now, when the round began, and in the last committed round.
    refusals
        Why processes that were younger than a round refused a task of it.
    """

    def __init__(self, *args: Any, seed: int, **values: Any) -> None:
        self.rng = np.random.default_rng(seed)
        self.raging = False
        super().__init__(*args, **values)
        self.processes = dict.fromkeys(sorted(self.names), 0)
        self.begun: dict[ClientId, int] = {}
        self.known: dict[ClientId, int] = {}
        self.refusals: set[str] = set()

    def answer(self, round_id: RoundId, phase: str, client: ClientId, body: bytes) -> bytes | None:
        self._kill_perhaps(client)
        try:
            result = super().answer(round_id, phase, client, body)
        except Refusal as refusal:
            if self.processes[client] == self.begun[client]:
                raise
            self.refusals.add(str(refusal))
            return None
        self._kill_perhaps(client)
        return None if self._strikes(RESULT_LOST) else result

    def stormy_round(self) -> None:
        """A round that is tried again, each time with other clients, until the server lives to its end."""
        committed, round_id = self.server.snapshot(), len(self.reports) + 1
        self.raging = True
        while self._strikes(SERVER_KILLED):
            there, restarted = self._clients()
            until = str(self.rng.choice([*PHASES, ""]))
            half_a_round(self, round_id, until=until, available=there, restarted=restarted)
            self.restore(committed)
            self.known = {}
        self._commit()

    def calm_round(self) -> None:
        self.raging = False
        self._commit()

    def _commit(self) -> None:
        there, restarted = self._clients()
        self.round(available=there, restarted=restarted)
        self.known |= self.begun

    def _clients(self) -> tuple[frozenset[ClientId], frozenset[ClientId]]:
        """The clients with which a round begins, and those whose process the server knows to be new."""
        self.begun = {client: process for client, process in self.processes.items() if not self._strikes(ABSENT)}
        restarted = {client for client, process in self.begun.items() if self.known.get(client, process) != process}
        return frozenset(self.begun), frozenset(restarted)

    def _strikes(self, chance: float) -> bool:
        return self.raging and bool(self.rng.random() < chance)

    def _kill_perhaps(self, client: ClientId) -> None:
        if self._strikes(CLIENT_KILLED):
            self.restart(client)
            self.processes[client] += 1


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
