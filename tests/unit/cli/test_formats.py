"""Every command that prints something prints it as JSON too."""

import json
from pathlib import Path

import typer.main

from fenchel_deploy.cli import app, load_verbs
from support.commands import run_fenchel

LOGS_ALONE = {"client", "score"}
"""Commands that print nothing: their log is on stderr, and has --log-format."""


def without_format(command: object, name: str) -> set[str]:
    """The commands below `command` that have no option --format."""
    if commands := getattr(command, "commands", None):
        return {
            lacking for word, below in commands.items() for lacking in without_format(below, f"{name} {word}".strip())
        }
    options = {option for parameter in command.params for option in parameter.opts}  # type: ignore[attr-defined]  # click's types are not ours to name
    return set() if "--format" in options else {name}


def test_every_command_that_prints_something_has_a_format() -> None:
    load_verbs([])
    assert without_format(typer.main.get_command(app), "") == LOGS_ALONE


def test_shard_says_in_json_what_it_wrote(tmp_path: Path) -> None:
    ended = run_fenchel("shard", "--names", "a,b", "--grid", "2x1", "--out", tmp_path, "--format", "json")
    assert [one["party"] for one in json.loads(ended.stdout)] == ["a", "b"]
    assert all(Path(one["path"]).exists() for one in json.loads(ended.stdout))


def test_data_init_says_in_json_what_it_guessed(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("id,x,y\n" + "".join(f"s{row},{row / 2},{row % 2}\n" for row in range(9)))
    ended = run_fenchel("data", "init", tmp_path / "table.csv", "--label", "y", "--format", "json")
    said = json.loads(ended.stdout)
    assert Path(said["path"]) == tmp_path / "shard.toml"
    assert said["guesses"]
