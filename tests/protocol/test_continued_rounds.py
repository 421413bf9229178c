"""Runs of all parties in which parties come and go: they go on with rounds of pairs, from the anchor on record."""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pytest

from fenchel_common.data.partition import partition
from fenchel_common.errors import Refusal
from fenchel_common.ids import ClientId
from fenchel_deploy.inprocess.layouts import IN_CLEAR
from fenchel_server.algorithms.partial import continued
from fenchel_server.algorithms.partial.continued import CONTINUED, WholeRunServer
from fenchel_server.contract import Outcome
from support.corrective import LOSSES, settings
from support.halves import half_a_round
from support.keys import MASKS, cipher, run_key
from support.partial import FIXED_POINT, error_of
from support.problems import Problem, problem
from support.simulation import Simulation, WholeRun
from support.storms import StormOfWholeRun

CASE: Final[dict[str, Any]] = {"rows": 60, "columns": 8, "lambda_": 0.01}
GRIDS: Final = [(2, 2), (4, 1), (1, 3)]
FIRST: Final = ClientId("party-00")
STOP: Final = {"gap": 1e-3, "rounds": 300}


def whole_run(case: Problem, grid: tuple[int, int], **values: Any) -> WholeRun:
    return WholeRun.of(partition(case.data, grid=grid), settings(case, **values))


def whoever_is_there(run: Simulation, *, seed: int, chance: float = 0.8) -> Iterator[frozenset[ClientId]]:
    """In every round others are there."""
    rng = np.random.default_rng(seed)
    while True:
        yield frozenset(client for client in sorted(run.names) if rng.random() < chance)


def come_and_go(run: Simulation, rounds: int, *, seed: int = 5, chance: float = 0.8) -> None:
    """The first rounds; in the calls for more of them, the same parties are there in the same rounds."""
    there = whoever_is_there(run, seed=seed, chance=chance)
    for _ in run.reports:
        next(there)
    while len(run.reports) < rounds:
        run.round(available=next(there))


class Certificates:
    """Watches a run: every certificate bounds the error of its model, and none is worse than the one before."""

    def __init__(self, run: Simulation, case: Problem) -> None:
        self._run, self._case = run, case
        self._primal, self._gap = np.inf, np.inf

    def check(self) -> None:
        metrics = self._run.reports[-1].metrics
        if metrics.gap is None:
            return
        assert metrics.primal is not None
        assert metrics.gap_error is not None
        assert error_of(self._run, self._case) <= metrics.gap
        assert metrics.primal <= self._primal + FIXED_POINT
        assert metrics.gap <= self._gap + 2.0 * metrics.gap_error + FIXED_POINT
        self._primal, self._gap = metrics.primal, metrics.gap


@pytest.mark.parametrize(("grid", "loss"), [*((grid, "hinge") for grid in GRIDS), ((2, 2), "logistic")])
def test_whoever_comes_and_goes_the_optimum_is_certified(grid: tuple[int, int], loss: str) -> None:
    case = problem(**CASE, loss=loss)
    run = whole_run(case, grid, stop=STOP)
    there, certificates = whoever_is_there(run, seed=5), Certificates(run, case)
    while run.round(available=next(there)).outcome is None:
        certificates.check()
    assert run.reports[-1].outcome is Outcome.CONVERGED
    assert sum(CONTINUED in report.metrics.note for report in run.reports) == 1
    assert len(run.reports) < 60


@pytest.mark.parametrize("grid", [(2, 2), (4, 1)])
def test_corrective_rounds_alone_would_stand_still(grid: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    case = problem(**CASE)
    errors = []
    for most in (2, 10_000):
        monkeypatch.setattr(continued, "MOST_COLLAPSES", most)
        run = whole_run(case, grid)
        come_and_go(run, 30, chance=0.5)
        errors.append(error_of(run, case))
    assert errors[0] < 1e-2
    assert errors[1] > 0.5


def test_one_that_leaves_and_returns_and_one_that_restarts_are_no_reason_yet() -> None:
    case = problem(**CASE)
    run = whole_run(case, (2, 2))
    run.run(3)
    run.round(available=run.names - {FIRST})
    run.run(6)
    assert not run.goes_on_with_pairs
    run.restart(FIRST)
    run.round(restarted=frozenset({FIRST}))
    assert run.goes_on_with_pairs


def test_what_happens_only_now_and_then_is_no_reason() -> None:
    case = problem(**CASE)
    run = whole_run(case, (2, 2))
    for number in range(1, 31):
        restarted = frozenset({FIRST}) if number % 6 == 0 else frozenset()
        for client in restarted:
            run.restart(client)
        run.round(restarted=restarted)
    assert not run.goes_on_with_pairs


@pytest.mark.parametrize(("grid", "level"), [((2, 2), "sealed"), ((2, 2), "masks"), ((4, 1), "paper")])
def test_ciphers_and_levels_give_the_same_model(grid: tuple[int, int], level: str) -> None:
    case = problem(**{**CASE, "rows": 40})
    shards, models = partition(case.data, grid=grid), []
    for chosen in ("plain", level):
        values: dict[str, Any] = {"key": MASKS if chosen == "masks" else IN_CLEAR}
        if chosen in ("paper", "sealed"):
            values = {"cipher": cipher(), "key": run_key()}
        privacy = "sealed" if chosen == "masks" else chosen
        run = WholeRun.of(shards, settings(case, privacy=privacy), **values)
        come_and_go(run, 9)
        assert run.goes_on_with_pairs
        models.append(run.model())
    np.testing.assert_array_equal(models[0], models[1])


@pytest.mark.parametrize("phase", ["pair_duals", ""])
def test_a_server_lost_in_the_first_round_of_pairs_or_after_it_goes_on_bit_for_bit(phase: str) -> None:
    case = problem(**CASE)
    whole, killed = (whole_run(case, (2, 2)) for _ in range(2))
    come_and_go(whole, 14)
    first = next(one.metrics.round for one in whole.reports if CONTINUED in one.metrics.note)
    for round_id in (first, first + 2):
        come_and_go(killed, round_id - 1)
        there = whoever_is_there(killed, seed=5)
        for _ in range(round_id - 1):
            next(there)
        snapshot = killed.server.snapshot()
        half_a_round(killed, round_id, until=phase, available=next(there))
        killed.restore(snapshot)
    come_and_go(killed, 14)
    assert [one.metrics for one in killed.reports] == [one.metrics for one in whole.reports]
    np.testing.assert_array_equal(killed.model(), whole.model())


@pytest.mark.parametrize("grid", GRIDS)
def test_a_party_that_has_lost_its_memory_goes_through_all_rounds_of_pairs_again(grid: tuple[int, int]) -> None:
    case = problem(**CASE)
    whole, broken = (whole_run(case, grid) for _ in range(2))
    come_and_go(whole, 14)
    there = whoever_is_there(broken, seed=5)
    for number in range(1, 15):
        restarted = frozenset(broken.names) if number == 11 and broken.goes_on_with_pairs else frozenset()
        for client in sorted(restarted):
            broken.restart(client)
        broken.round(available=next(there), restarted=restarted)
    assert broken.goes_on_with_pairs
    np.testing.assert_array_equal(broken.model(), whole.model())


def test_parties_without_labels_take_part() -> None:
    case = problem(**CASE)
    run = WholeRun.of(partition(case.data, grid=(2, 2), labels="first"), settings(case, stop=STOP))
    there, certificates = whoever_is_there(run, seed=2), Certificates(run, case)
    while run.round(available=next(there)).outcome is None:
        certificates.check()
    assert run.reports[-1].outcome is Outcome.CONVERGED


@pytest.mark.parametrize("seed", range(3))
def test_kills_in_every_phase_lock_nobody_out(seed: int) -> None:
    case = problem(**{**CASE, "rows": 40}, loss=LOSSES[seed % len(LOSSES)])
    run = StormOfWholeRun.of(partition(case.data, grid=GRIDS[seed % len(GRIDS)]), settings(case), seed=seed)
    certificates = Certificates(run, case)
    for _ in range(14):
        run.stormy_round()
        certificates.check()
    assert run.goes_on_with_pairs
    assert run.refusals <= {"the server left out records"}
    for _ in range(3):
        run.calm_round()
        certificates.check()
    assert run.reports[-1].metrics.absences == {}
    assert run.reports[-1].metrics.gap is not None


def test_no_corrective_round_follows_a_round_of_pairs() -> None:
    case = problem(**CASE)
    run = whole_run(case, (2, 2))
    come_and_go(run, 8)
    server = run.server
    assert isinstance(server, WholeRunServer)
    pairs = server._pairs
    assert pairs is not None
    pairs._round_choices = lambda: b""  # type: ignore[method-assign]
    with pytest.raises(Refusal, match="go on to the end of the run"):
        run.round()
