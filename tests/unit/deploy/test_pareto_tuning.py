"""`fenchel tune --objective pareto`: trials by the real halves, and one of them chosen."""

import json
from typing import Any

import pytest

from fenchel_deploy.cli.exits import ExitCode
from support.commands import run_fenchel

SMALL = ("tune", "--objective", "pareto", "--grid", "2x2", "--loss", "hinge", "--rounds", "4", "--format", "json")


def tuned(*words: object) -> dict[str, Any]:
    ended = run_fenchel(*SMALL, *words)
    assert ended.exit_code == ExitCode.DONE, ended.stderr
    report: dict[str, Any] = json.loads(ended.stdout)
    return report


def test_trials_are_drawn_by_the_seed_and_one_that_nothing_beats_is_chosen() -> None:
    report = tuned("--algorithm", "fedavg", "--trials", 4)
    trials = report["trials"]
    (chosen,) = (trial for trial in trials if trial["chosen"])
    assert chosen["grade"] == max(trial["grade"] for trial in trials if trial["grade"] is not None)
    assert all(set(trial["values"]) == {"local_steps", "a", "b"} for trial in trials)
    fewer = tuned("--algorithm", "fedavg", "--trials", 2)["trials"]
    for one, other in zip(fewer, trials, strict=False):
        assert one["values"] == other["values"]
        assert one["metrics"]["last_losses"] == other["metrics"]["last_losses"], "runtimes alone differ"


def test_hyfdca_has_the_papers_steps_and_its_own_parameter_alone() -> None:
    (trial,) = tuned("--algorithm", "hyfdca", "--trials", 1)["trials"]
    assert set(trial["values"]) == {"h"}
    assert trial["metrics"]["accuracy"] > 0.8


def test_any_algorithm_takes_ranges_of_its_parameters() -> None:
    words = ("--algorithm", "fedprox", "--loss", "logistic", "--grid", "4x1", "--trials", 2)
    report = tuned(*words, "--range", "mu=0.01:10", "--range", "measure_every=1:5")
    for trial in report["trials"]:
        assert 0.01 <= trial["values"]["mu"] <= 10.0
        assert trial["values"]["measure_every"] in {1, 2, 3, 4, 5}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--algorithm", "dualfl", "--grid", "4x1", "--loss", "logistic"), "no ranges of dualfl are known"),
        (("--algorithm", "dualfl"), "dualfl"),
        (("--range", "c=1:2"), "fedavg has no parameter 'c'"),
        (("--range", "a=1"), "is not of the form NAME=LOW:HIGH"),
        (("--range", "a=2:1"), "LOW must be above 0 and below HIGH"),
        (("--folds", "3"), "has no --folds"),
        (("--objective", "best"), "is not one of: lambda, pareto"),
    ],
)
def test_what_cannot_be_searched_is_refused_with_a_cure(words: tuple[str, ...], message: str) -> None:
    ended = run_fenchel(*SMALL, *words)
    assert ended.exit_code == ExitCode.REFUSED
    assert message in ended.stderr
