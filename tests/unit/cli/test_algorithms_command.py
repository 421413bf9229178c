"""`fenchel algorithms`."""

import json

from typer.testing import CliRunner

from fenchel_common.algorithms import SETTINGS
from fenchel_deploy.cli import app, load_verbs
from fenchel_deploy.cli.choices import parse_parameters
from fenchel_deploy.cli.exits import ExitCode
from support.commands import run_fenchel


def algorithms(*arguments: str) -> str:
    load_verbs(["algorithms"])
    result = CliRunner().invoke(app, ["algorithms", *arguments], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_program_gets_everything_about_every_algorithm() -> None:
    listed = {entry["name"]: entry for entry in json.loads(algorithms("--format", "json"))}
    assert list(listed) == list(SETTINGS)
    fedavg = listed["fedavg"]
    assert fedavg["partitions"] == ["horizontal", "vertical", "hybrid"]
    assert "hinge" in fedavg["losses"]
    assert "the model" in fedavg["encrypted"]
    assert fedavg["server_sees"]
    assert not fedavg["certificate"]
    parameters = {parameter["name"]: parameter for parameter in fedavg["parameters"]}
    assert parameters["a"]["default"] == 1.0
    assert "a/(b + √t)" in parameters["a"]["meaning"]
    assert listed["hyfdca"]["certificate"]


def test_a_person_gets_tables() -> None:
    shown = algorithms()
    for name, settings in SETTINGS.items():
        assert name in shown
        assert settings.profile.summary[:20] in shown
    assert "the server sees" in shown


def test_parameters_are_read_as_in_a_file_and_words_need_no_quotes() -> None:
    texts = ["a=0.5", "batch=4", "weighting=uniform", "flag=true", 'name="x=y"']
    assert parse_parameters("--set", texts) == {
        "a": 0.5,
        "batch": 4,
        "weighting": "uniform",
        "flag": True,
        "name": "x=y",
    }


def test_one_algorithm_is_shown_by_its_name() -> None:
    shown = algorithms("fedavg")
    assert SETTINGS["fedavg"].profile.summary[:20] in shown
    assert SETTINGS["hyfdca"].profile.summary[:20] not in shown
    assert json.loads(algorithms("fedavg", "--format", "json"))["name"] == "fedavg"


def test_an_unknown_algorithm_is_refused_with_the_known_names() -> None:
    ended = run_fenchel("algorithms", "fedavgg")
    assert (ended.exit_code, ended.stdout) == (ExitCode.REFUSED, "")
    assert "'fedavgg' is not one of: hyfdca, " in ended.stderr
