"""The best model of corrective HyFDCA through absences, failures and restarts: the one on record is certified."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from fenchel_common.errors import Refusal
from fenchel_deploy.experiments.centralized import solve_centralized
from fenchel_server.algorithms.corrective.ending import UNREPORTED, VOID
from fenchel_server.algorithms.corrective.problems import UNCERTIFIED
from fenchel_server.contract import Outcome
from support.corrective import CASE, FIRST, FIXED_POINT, LAST, SECOND, Ascent, error_of, simulation
from support.halves import half_a_round
from support.problems import problem


def test_a_round_whose_best_model_was_not_told_whole_has_no_certificate_and_the_one_before_stays() -> None:
    """FIRST answers for features; the dual variables were on record before it failed."""
    case = problem(**CASE)
    calm, shaken = simulation(case), simulation(case)
    shaken.absent = lambda at, during, who: (at, during, who) == (4, "primal", FIRST)
    calm.run(4)
    shaken.run(3)
    model = shaken.model()
    ascent = Ascent(shaken, case)
    metrics = shaken.round().metrics
    assert (metrics.gap, metrics.note) == (None, UNCERTIFIED)
    assert metrics.absences == {FIRST: "primal: no result"}
    np.testing.assert_array_equal(shaken.model(), model)
    np.testing.assert_array_equal(shaken.alpha(case.ids), calm.alpha(case.ids))
    shaken.round()
    assert ascent.check().metrics.gap is not None
    assert shaken.reports[-1].metrics.absences == {}


def test_a_model_that_was_not_told_whole_twice_costs_no_round() -> None:
    """Everybody then gets the one on record from the server, whatever it remembers."""
    case = problem(**CASE)
    run = simulation(case)
    run.absent = lambda at, during, who: at in (4, 5) and during == "primal" and who == FIRST
    ascent = Ascent(run, case)
    for _ in range(7):
        run.round()
        ascent.check()
    assert [VOID in report.metrics.note for report in run.reports] == [False] * 7
    assert [report.metrics.gap is not None for report in run.reports] == [True] * 3 + [False] * 2 + [True] * 2


@pytest.mark.parametrize("grid", [(2, 2), (4, 1)])
def test_what_a_client_remembers_of_a_discarded_attempt_is_never_taken_for_the_record(grid: tuple[int, int]) -> None:
    """LAST answers a fourth round that the server forgets, misses its repetition, and is back when FIRST fails."""
    case = problem(**CASE)
    run = simulation(case, grid)
    run.run(3)
    snapshot = run.server.snapshot()
    half_a_round(run, 4, until="")
    run.restore(snapshot)
    run.absent = lambda at, during, who: (at, during, who) == (5, "primal", FIRST)
    ascent = Ascent(run, case)
    run.round(available=run.names - {LAST})
    ascent.check()
    for _ in range(4):
        run.round()
        ascent.check()
    assert ascent.certificates == 3


def test_a_closing_round_whose_model_was_not_told_whole_is_void_and_still_the_last() -> None:
    case = problem(**CASE)
    run = simulation(case, stop={"gap": None, "rounds": 3})
    run.run(3)
    model = run.model()
    run.absent = lambda at, during, who: (at, during, who) == (4, "primal", FIRST)
    report = run.round()
    assert report.outcome is None
    assert UNREPORTED in report.metrics.note
    np.testing.assert_array_equal(run.model(), model)
    with pytest.raises(Refusal, match="a round follows the one that was to be the last"):
        run.round(closing=True)


@pytest.mark.parametrize("grid", [(2, 2), (4, 1)])
def test_a_closing_round_without_everybody_leaves_the_best_model_on_record(grid: tuple[int, int]) -> None:
    case = problem(**{**CASE, "lambda_": 1e-3})
    run = simulation(case, grid)
    run.run(5)
    model = run.model()
    report = run.round(available=run.names - {LAST}, closing=True)
    assert (report.outcome, report.metrics.gap) == (Outcome.FINISHED, None)
    np.testing.assert_array_equal(run.model(), model)


def test_an_absence_of_one_round_leaves_the_best_model_on_record() -> None:
    case = problem(**{**CASE, "lambda_": 1e-3})
    run = simulation(case)
    run.run(5)
    model, error = run.model(), error_of(run, case)
    run.round(available=run.names - {LAST})
    np.testing.assert_array_equal(run.model(), model)
    run.round()
    assert error_of(run, case) <= error + FIXED_POINT


def test_while_somebody_stays_away_the_model_on_record_gets_better_on_the_rows_of_the_others() -> None:
    case = problem(**{**CASE, "lambda_": 1e-3})
    run = simulation(case, (4, 1))
    there = run.names - {LAST}
    rows = [case.ids.index(sample) for name in sorted(there) for sample in run.shards[name].ids]

    def seen() -> float:
        """P by the rows of those that are there."""
        w = run.weights(case.data.features)
        losses = case.loss.value(case.data.X[rows] @ w, case.data.y[rows])
        return case.lambda_ / 2.0 * float(w @ w) + float(losses.mean())

    run.run(3)
    before = seen()
    for _ in range(6):
        run.round(available=there)
        assert seen() <= before + FIXED_POINT
    assert seen() < before - 1e-3


def test_a_model_that_looked_better_while_somebody_was_away_is_not_certified_if_it_is_worse() -> None:
    """The rows of LAST are unlike the others: what is best without them is far from best with them."""
    case = problem(**{**CASE, "lambda_": 1e-3})
    y = np.where(np.arange(len(case.ids)) < 3 * len(case.ids) // 4, 1.0, -1.0) * case.data.y
    optimum = solve_centralized(case.data.X, y, loss=case.loss, lambda_=case.lambda_).primal
    case = replace(case, data=replace(case.data, y=y), labels=y, optimum=optimum)
    run = simulation(case, (4, 1), stop={"gap": None})
    ascent = Ascent(run, case)
    certified = worst = 0.0
    for round_id in range(1, 31):
        run.round(available=run.names - {LAST} if round_id > 5 and round_id % 6 else None)
        primal = case.primal(run.weights(case.data.features))
        found = ascent.check().metrics.primal
        if found is None:
            worst = max(worst, primal - certified)
        else:
            certified = found
            assert primal == pytest.approx(certified, abs=FIXED_POINT)
    assert ascent.certificates == 10
    assert worst > 1e-3, "else the test shows nothing"


def test_a_restart_takes_nothing_from_the_certified_gap() -> None:
    case = problem(**{**CASE, "lambda_": 1e-3})
    run = simulation(case)
    gaps = [run.round().metrics.gap]
    for round_id in range(2, 20):
        restarted = frozenset({SECOND}) if round_id % 3 == 0 else frozenset()
        for client in restarted:
            run.restart(client)
        gaps.append(run.round(restarted=restarted).metrics.gap)
    known = [gap for gap in gaps if gap is not None]
    assert len(known) == len(gaps)
    assert all(after <= before + 1e-7 for before, after in itertools.pairwise(known))
