"""The measurement of the final model by encrypted sums of scores, at the end of a corrective run."""

from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest

from fenchel.v1 import corrective_pb2 as pb
from fenchel_common.data.partition import partition
from fenchel_common.errors import FenchelError
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.losses import LOSSES
from fenchel_common.scoresums import LEAST_IN_CLASS, ScoreFigures, exact_figures
from fenchel_server.contract import Outcome
from support.classes import NAMES, class_run, coloured, of_class
from support.corrective import FIRST, LAST, LEVELS, at_level, halves_of, settings, simulation
from support.halves import forged
from support.problems import Problem, problem
from support.simulation import Simulation

CASE = problem(rows=300, columns=8, loss="logistic", lambda_=0.02)
STOP: Final[dict[str, Any]] = {"stop": {"gap": 1e-3, "rounds": 60}}


def scores_of(run: Simulation) -> ScoreFigures:
    scores = run.reports[-1].metrics.scores
    assert scores is not None
    return scores


def exact_scores(run: Simulation, case: Problem) -> ScoreFigures:
    features = list(case.data.features)
    return exact_figures(case.loss, np.asarray(case.data.X @ run.weights(features)), case.labels)


def check(found: ScoreFigures, exact: ScoreFigures) -> None:
    assert (found.samples, found.accuracy) == (exact.samples, exact.accuracy)
    assert (found.auc is None) == (exact.auc is None)
    if found.auc is not None and exact.auc is not None:
        assert found.auc_error is not None
        assert abs(found.auc - exact.auc) <= found.auc_error < 0.05
    for name in ("log_loss", "brier", "rmse", "r2"):
        assert getattr(found, name) == pytest.approx(getattr(exact, name), abs=1e-6)
    assert [row.samples for row in found.calibration] == [row.samples for row in exact.calibration]


@pytest.mark.parametrize("loss", ["hinge", "logistic", "squared"])
@pytest.mark.parametrize("grid", [(2, 2), (4, 1)])
def test_the_totals_give_the_figures_of_the_model_that_the_parties_get(grid: tuple[int, int], loss: str) -> None:
    case = problem(rows=300, columns=8, loss=loss, lambda_=0.02)
    run = simulation(case, grid, **STOP)
    assert run.run().outcome is Outcome.CONVERGED
    assert all(report.metrics.scores is None for report in run.reports[:-1])
    check(scores_of(run), exact_scores(run, case))


@pytest.mark.parametrize("level", LEVELS)
def test_every_level_gives_the_same_figures_also_at_the_limit_of_rounds(level: str) -> None:
    runs = [at_level(CASE, (2, 2), at, stop={"gap": None, "rounds": 1}) for at in (level, "plain")]
    for run in runs:
        assert run.run().outcome is Outcome.FINISHED
    assert scores_of(runs[0]) == scores_of(runs[1])
    check(scores_of(runs[0]), exact_scores(runs[0], CASE))


def test_narrow_slots_widen_the_bound_of_the_auc_and_it_still_holds() -> None:
    run = simulation(CASE, (1, 4), precision=32, **STOP)
    run.run()
    found, exact = scores_of(run), exact_scores(run, CASE)
    assert found.auc is not None
    assert found.auc_error is not None
    assert exact.auc is not None
    assert abs(found.auc - exact.auc) <= found.auc_error


def test_each_party_with_labels_knows_how_the_model_predicts_its_own_samples_and_tells_nobody() -> None:
    run = at_level(CASE, (2, 2), "plain", labels="first", **STOP)
    run.run()
    features = list(CASE.data.features)
    rows = {name: number for number, name in enumerate(CASE.ids)}
    predicted = np.asarray(CASE.data.X @ run.weights(features))
    for name, half in halves_of(run).items():
        ids = run.shards[name].ids
        if run.shards[name].y is None:
            assert half.own_scores is None
            continue
        own = [rows[sample] for sample in ids]
        assert half.own_scores is not None
        check(half.own_scores, exact_figures(CASE.loss, predicted[own], CASE.labels[own]))


def test_a_class_of_few_samples_has_no_histogram_anywhere() -> None:
    y = np.where(np.arange(300) < LEAST_IN_CLASS - 1, 1.0, -1.0)
    case = replace(CASE, data=replace(CASE.data, y=y), labels=y)
    run = at_level(case, (2, 2), "plain", **STOP)
    run.run()
    assert scores_of(run).auc is None
    assert scores_of(run).calibration == ()
    sent = [
        len(pb.CorrectivePrimalResult.FromString(result).scores.plain.values)
        for _, phase, _, _, result in run.messages
        if phase == "primal"
    ]
    assert max(sent) == 8 * 7


def test_a_party_that_fails_in_the_measurement_leaves_the_figures_to_the_others() -> None:
    run = simulation(CASE, **STOP)
    run.absent = lambda _round, phase, client: (phase, client) == ("measured", LAST)
    assert run.run().outcome is Outcome.CONVERGED
    check(scores_of(run), exact_scores(run, CASE))
    assert LAST in run.reports[-1].metrics.absences


def test_without_the_sums_of_one_party_there_are_no_figures_and_the_run_ends_all_the_same() -> None:
    run = simulation(CASE, stop={"gap": None, "rounds": 1})
    run.round()
    run.absent = lambda _round, phase, client: (phase, client) == ("primal", LAST)
    report = run.round()
    assert report.metrics.scores is None
    assert "measured" not in [phase for _, phase in run.phases]


class RestartsBeforeTheMeasurement(Simulation):
    """The process of the first party is another one when it gets the task of `measured`."""

    def answer(self, round_id: RoundId, phase: str, client: ClientId, body: bytes) -> bytes | None:
        if (phase, client) == ("measured", FIRST):
            self.restart(FIRST)
        return super().answer(round_id, phase, client, body)


def test_a_party_that_restarts_before_the_measurement_refuses_and_the_others_tell() -> None:
    run = RestartsBeforeTheMeasurement.of(partition(CASE.data, grid=(2, 2)), settings(CASE, **STOP))
    run.lenient = True
    run.run()
    check(scores_of(run), exact_scores(run, CASE))
    assert FIRST in run.reports[-1].metrics.absences
    assert halves_of(run)[FIRST].own_scores is None


@pytest.mark.parametrize("change", ["altered", "repeated"])
def test_totals_that_the_parties_did_not_make_are_refused(change: str) -> None:
    run = at_level(CASE, (2, 2), "sealed", masked=True, **STOP)

    def alter(task: pb.CorrectiveMeasuredTask) -> None:
        words = np.frombuffer(task.scores.masked.words, dtype="<u8").copy()
        words[0] += np.uint64(1 << 20 if change == "altered" else 0)
        task.scores.masked.words = words.tobytes()
        if change == "repeated":
            task.scores.masked.tags = task.scores.masked.tags[::-1]

    run.forging = {(number, "measured", FIRST): forged(pb.CorrectiveMeasuredTask, alter) for number in range(1, 61)}
    with pytest.raises(FenchelError):
        run.run()


def test_each_class_of_several_has_its_figures_when_it_ends() -> None:
    data = coloured(150)
    run = class_run(data, loss="logistic", stop={"gap": 1e-3, "rounds": 60})
    assert run.run().outcome is Outcome.CONVERGED
    figures: dict[str, float] = {}
    for report in run.reports:
        figures |= report.metrics.figures
    predicted = np.asarray(data.X @ run.weights(data.features))
    for number, name in enumerate(NAMES):
        exact = exact_figures(LOSSES["logistic"], predicted[:, number], of_class(data, name).y)
        assert exact.auc is not None
        assert abs(figures[f"auc of {name}"] - exact.auc) <= figures[f"auc_error of {name}"] < 0.1
        assert figures[f"log_loss of {name}"] == pytest.approx(exact.log_loss, abs=1e-6)
