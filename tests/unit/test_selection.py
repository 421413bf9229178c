"""The rules of a path of regularisations: its values, its legs, its folds and the choice among them."""

from typing import Any

import numpy as np
import pytest

from fenchel_common.errors import InvalidConfig
from fenchel_common.runconfig import RunConfig
from fenchel_common.selection import TRAINED, LambdaPath, Progress

IDS = [f"patient-{number}" for number in range(2000)]


def path(**values: Any) -> LambdaPath:
    return LambdaPath.model_validate({"lambdas": [0.1, 1.0, 0.01], **values})


def run_config(**values: Any) -> RunConfig:
    return RunConfig.from_mapping({"name": "path", "path": {"lambdas": [1.0, 0.1]}, **values})


def refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidConfig, match=message):
        RunConfig.from_mapping({"name": "path", **values}).algorithm_settings()


def test_values_are_taken_from_the_largest_to_the_smallest() -> None:
    assert path().lambdas == (1.0, 0.1, 0.01)
    spaced = LambdaPath.model_validate({"largest": 1.0, "smallest": 1e-3, "count": 4})
    assert spaced.lambdas == (1.0, 0.1, 0.01, 0.001)


def test_a_configuration_with_a_path_is_read_back_as_it_was() -> None:
    config = run_config(path={"largest": 1.0, "smallest": 1e-2, "count": 3, "folds": 2, "metric": "auc"})
    assert RunConfig.from_json(config.to_json()) == config
    assert '"path"' not in RunConfig.from_mapping({"name": "plain"}).to_json()


def test_folds_come_first_and_each_begins_anew() -> None:
    two = path(folds=2, metric="auc")
    assert [two.leg(number).fold for number in range(9)] == [0, 0, 0, 1, 1, 1, None, None, None]
    assert [two.leg(number).lambda_ for number in range(9)] == 3 * [1.0, 0.1, 0.01]
    assert [number for number in range(9) if two.starts_anew(number)] == [0, 3, 6]


def test_the_last_leg_has_the_chosen_lambda_on_all_samples() -> None:
    two = path(folds=2, metric="auc")
    measured = (0.7, 0.9, 0.8, 0.8, 0.9, 0.7)
    assert two.chosen(measured) == 1
    assert [two.is_last(Progress(leg, 0, measured)) for leg in (5, 6, 7)] == [False, False, True]
    alone = path()
    assert [alone.is_last(Progress(leg, 0)) for leg in (0, 1, 2)] == [False, False, True]


def test_losses_are_chosen_by_the_least_and_ties_by_the_larger_lambda() -> None:
    assert path(folds=2, metric="log_loss").chosen((0.5, 0.3, 0.3, 0.5, 0.3, 0.3)) == 1
    assert path(folds=2, metric="auc").chosen((0.5, 0.3, 0.3, 0.5, 0.3, 0.3)) == 0


def test_one_standard_error_takes_the_largest_lambda_that_is_almost_as_good() -> None:
    chosen = path(folds=3, metric="auc", choose="one_standard_error")
    measured = (0.88, 0.90, 0.92, 0.90, 0.91, 0.93, 0.89, 0.93, 0.91)
    scores = chosen.scores(measured)
    best, error = max(scores)
    assert error == pytest.approx(np.std([0.92, 0.93, 0.91], ddof=1) / np.sqrt(3))
    assert best - error > scores[0][0]
    assert (chosen.chosen(measured), chosen.chosen(measured, "best")) == (2, 2)
    wider = (0.88, 0.90, 0.95, 0.90, 0.91, 0.93, 0.89, 0.93, 0.88)
    assert (chosen.chosen(wider), chosen.chosen(wider, "best")) == (1, 2)


def test_a_fold_follows_from_id_and_seed_alone_and_folds_are_about_equal() -> None:
    folded = path(folds=5, metric="auc")
    folds = folded.folds_of(IDS, seed=3)
    np.testing.assert_array_equal(folded.folds_of(IDS[::-1], seed=3), folds[::-1])
    assert (folded.folds_of(IDS, seed=4) != folds).any()
    assert np.bincount(folds, minlength=5).min() > 300


def test_a_share_of_the_samples_is_held_out_once() -> None:
    folds = path(held_out=0.25, metric="auc").folds_of(IDS, seed=0)
    assert set(folds.tolist()) == {0, TRAINED}
    assert 0.2 < (folds == 0).mean() < 0.3


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"lambdas": [1.0, 1.0]}, "different from each other"),
        ({"lambdas": []}, "at least 1 item"),
        ({"lambdas": [1.0], "count": 3}, "either lambdas, or largest"),
        ({"largest": 1.0, "smallest": 2.0, "count": 3}, "largest must be above smallest"),
        ({"lambdas": [1.0], "folds": 1, "metric": "auc"}, "use at least 2"),
        ({"lambdas": [1.0], "folds": 2, "held_out": 0.2, "metric": "auc"}, "either folds or held_out"),
        ({"lambdas": [1.0], "folds": 2}, "choose λ by"),
        ({"lambdas": [1.0], "metric": "auc"}, "need folds or held_out"),
        ({"lambdas": [1.0], "held_out": 0.2, "metric": "auc", "choose": "one_standard_error"}, "needs folds"),
        ({"lambdas": [1.0], "lambda": [1.0]}, "unknown key path.lambda; did you mean lambdas"),
    ],
)
def test_a_path_that_cannot_be_gone_is_refused(values: dict[str, Any], message: str) -> None:
    refused({"path": values}, message)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"settings": {"lambda": 0.1}}, "leave out settings.lambda"),
        ({"settings": {"local": "paper"}}, "only algorithm = 'hyfdca'"),
        ({"algorithm": "fedavg"}, "only algorithm = 'hyfdca'"),
        ({"settings": {"classes": ["a", "b", "c"]}}, "several classes has one λ"),
        ({"settings": {"certificate_every": 2}}, "certificate_every"),
        ({"stop": {"seconds": 5.0}}, "no stop.seconds"),
        ({"release": {"epsilon": 1.0, "delta": 1e-5, "row_bound": 1.0}}, "does not cover the choice"),
        ({"path": {"lambdas": [1.0], "folds": 2, "metric": "rmse"}}, "is measured by auc"),
        ({"path": {"lambdas": [1.0], "folds": 2, "metric": "log_loss"}}, "log_loss needs settings.loss"),
        ({"features": {"intercept": True}, "path": {"lambdas": [1.0, 1e-3]}}, "at most 100 times the smallest"),
    ],
)
def test_what_does_not_go_with_a_path_is_refused(values: dict[str, Any], message: str) -> None:
    refused({"path": {"lambdas": [1.0, 0.1]}, **values}, message)


def test_the_rounds_of_a_run_are_those_of_all_its_legs() -> None:
    settings = run_config(stop={"rounds": 7}).algorithm_settings()
    assert settings.stop.rounds == 14
    assert settings.lambda_ == 0.1
