"""A path of regularisations in one corrective run: warm starts, folds, and the choice of λ."""

from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, PredefinedSplit

from fenchel_common.algorithms.corrective.settings import CorrectiveSettings
from fenchel_common.data.datasets import Dataset, load_dataset
from fenchel_common.data.partition import partition
from fenchel_common.errors import InvalidInput, Refusal
from fenchel_common.losses import LOSSES
from fenchel_common.runconfig import RunConfig
from fenchel_common.selection import LambdaPath
from fenchel_common.wire import corrective as wire
from fenchel_deploy.experiments.centralized import solve_centralized
from fenchel_server.algorithms.corrective import server as corrective_server
from fenchel_server.contract import Outcome
from fenchel_server.rounds.pathtable import path_table
from support.corrective import SECOND, at_level, state_of
from support.problems import Problem, problem
from support.simulation import Simulation

SMALL: Final[dict[str, Any]] = {"rows": 80, "columns": 6, "loss": "logistic", "lambda_": 0.01}
FOLDS: Final[dict[str, Any]] = {"lambdas": [0.3, 0.03, 0.01], "folds": 2, "metric": "log_loss"}


def path_settings(path: dict[str, Any], **changes: Any) -> CorrectiveSettings:
    values = {"name": "path", "settings": {"loss": "logistic"}, "privacy": "plain", "benchmark": True, "seed": 0}
    found = RunConfig.from_mapping({**values, **changes, "path": path}).algorithm_settings()
    assert isinstance(found, CorrectiveSettings)
    return found


def path_of(run: Simulation) -> LambdaPath:
    assert isinstance(run.settings, CorrectiveSettings)
    assert run.settings.path is not None
    return run.settings.path


def small_run(level: str = "plain", *, masked: bool = False, rounds: int = 1000) -> tuple[Problem, Simulation]:
    case = problem(**SMALL)
    chosen = path_settings(FOLDS, stop={"gap": 1e-3, "rounds": rounds})
    return case, at_level(case, (2, 2), level, masked=masked, path=chosen.path, stop=chosen.stop)


def breast_cancer(loss: str, path: dict[str, Any], **changes: Any) -> tuple[Dataset, Simulation]:
    data = load_dataset("breast_cancer", ())
    shards = partition(data, grid=(2, 2), columns="contiguous", seed=0)
    return data, Simulation.of(shards, path_settings(path, settings={"loss": loss}, **changes))


def test_every_leg_is_certified_and_all_take_half_of_the_rounds_of_separate_runs() -> None:
    path = {"largest": 1.0, "smallest": 1e-3, "count": 10}
    data, run = breast_cancer("hinge", path)
    assert run.run().outcome is Outcome.CONVERGED
    table = path_table(path_of(run), [report.metrics for report in run.reports])
    separate = 0
    for row in table:
        optimum = solve_centralized(data.X, data.y, loss=LOSSES["hinge"], lambda_=row.lambda_).primal
        assert row.primal is not None
        assert row.gap is not None
        assert row.gap <= 1e-3
        assert -1e-9 <= row.primal - optimum <= row.gap
        alone = Simulation.of(
            list(run.shards.values()), run.settings.model_copy(update={"path": None, "lambda_": row.lambda_})
        )
        alone.run()
        separate += len(alone.reports)
    assert [row.taken for row in table] == 9 * [False] + [True]
    assert sum(row.rounds for row in table) == len(run.reports) <= separate / 2


def test_the_chosen_lambda_is_that_of_a_grid_search_over_the_pooled_table_with_the_same_folds() -> None:
    data, run = breast_cancer(
        "logistic", {"largest": 1e-2, "smallest": 1e-6, "count": 10, "folds": 3, "metric": "log_loss"}
    )
    run.run()
    path, count = path_of(run), len(data.y)
    ids = [f"{data.name}-{row:03d}" for row in range(count)]
    folds = PredefinedSplit(path.folds_of(ids, seed=0))
    grid = {"C": [1.0 / (lambda_ * count) for lambda_ in path.lambdas]}
    model = LogisticRegression(fit_intercept=False, tol=1e-8, max_iter=20_000)
    search = GridSearchCV(model, grid, cv=folds, scoring="neg_log_loss").fit(data.X, data.y)
    table = path_table(path, [report.metrics for report in run.reports])
    (taken,) = [position for position, row in enumerate(table) if row.taken]
    assert table[taken].chosen == ("best",)
    assert taken == search.best_index_
    means = [-mean for mean in search.cv_results_["mean_test_score"]]
    assert [row.mean for row in table[: taken + 1]] == pytest.approx(means[: taken + 1], rel=0.02)
    assert 0 < taken < 9
    assert all(row.primal is None for row in table[taken + 1 :]), "the path ends at the chosen λ"


def test_the_model_is_the_same_to_the_last_bit_at_every_level_and_with_masks() -> None:
    models = []
    for level, masked in (("plain", False), ("paper", False), ("sealed", False), ("sealed", True)):
        _, run = small_run(level, masked=masked)
        run.run()
        models.append(run.model().tobytes())
    assert len(set(models)) == 1


def test_the_folds_are_trained_without_their_samples() -> None:
    case, run = small_run()
    run.run()
    path, data = path_of(run), case.data
    folds = path.folds_of(case.ids, seed=run.settings.seed)
    ended = {report.metrics.leg: report.metrics for report in run.reports}
    for leg in map(path.leg, range(2 * len(path.lambdas))):
        counts = folds != leg.fold
        # P and D keep N: λ·N is the same with and without the fold.
        lambda_ = leg.lambda_ * len(counts) / counts.sum()
        best = solve_centralized(data.X[counts], data.y[counts], loss=case.loss, lambda_=lambda_)
        metrics = ended[leg.number]
        assert metrics.primal is not None
        assert metrics.gap is not None
        assert metrics.primal - best.primal * counts.mean() <= metrics.gap <= 1e-3
        assert metrics.scores is not None
        assert metrics.scores.samples == np.count_nonzero(~counts)


def test_a_server_that_dies_in_any_round_changes_nothing() -> None:
    _, whole = small_run()
    whole.run()
    _, broken = small_run()
    while broken.round().outcome is None:
        broken.restore(broken.server.snapshot())
    np.testing.assert_array_equal(broken.model(), whole.model())
    assert state_of(broken).progress == state_of(whole).progress


def test_a_party_that_forgets_all_in_any_leg_costs_rounds_but_no_certificate() -> None:
    _, whole = small_run()
    whole.run()
    case, run = small_run()
    leg = -1
    while True:
        forgets = state_of(run).progress.leg != leg
        leg = state_of(run).progress.leg
        if forgets:
            run.restart(SECOND)
        report = run.round(restarted=frozenset({SECOND}) if forgets else frozenset())
        if report.outcome is not None:
            break
    assert report.outcome is Outcome.CONVERGED
    assert state_of(run).progress.measured == pytest.approx(state_of(whole).progress.measured, abs=0.02)
    final = path_of(run).leg(state_of(run).progress.leg)
    best = solve_centralized(case.data.X, case.data.y, loss=case.loss, lambda_=final.lambda_)
    reached = replace(case, lambda_=final.lambda_).primal(run.model())
    assert report.metrics.gap is not None
    assert reached - best.primal <= report.metrics.gap + 1e-9


def test_a_leg_ends_after_its_rounds_but_the_last_one_goes_on() -> None:
    path = {"lambdas": [0.1, 0.001]}
    _, run = breast_cancer("hinge", path, stop={"gap": 1e-5, "rounds": 3})
    for _ in range(6):
        run.round()
    assert [report.metrics.leg for report in run.reports] == [0, 0, 0, 1, 1, 1]
    assert run.reports[2].metrics.gap is not None
    assert run.reports[2].metrics.gap > 1e-5
    assert run.reports[-1].outcome is None


def test_a_server_that_skips_a_leg_is_refused() -> None:
    _, run = small_run()
    run.round()
    assert isinstance(run.server, corrective_server.CorrectiveServer)
    (state,) = run.server._states
    run.server._states = [replace(state, progress=state.progress.next_leg(1))]
    with pytest.raises(Refusal, match="leg: does not follow"):
        run.round()


def test_a_metric_that_the_parties_did_not_find_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    _, run = small_run()
    honest = wire.measured_choices_to_bytes

    def dishonest(value: float | None) -> bytes:
        return honest(None if value is None else value + 1e-6)

    monkeypatch.setattr(wire, "measured_choices_to_bytes", dishonest)
    with pytest.raises(InvalidInput, match="value: is not what this party found"):
        run.run()
    assert run.reports[-1].metrics.leg == 0


def test_a_model_of_a_leg_that_is_not_the_last_is_neither_given_nor_taken() -> None:
    case, run = small_run()
    run.round()
    with pytest.raises(InvalidInput, match="ends before the last leg"):
        run.weights(case.data.features)
    with pytest.raises(InvalidInput, match="used up before λ was chosen"):
        run.round(closing=True)
