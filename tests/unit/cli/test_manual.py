"""The help of each command, docs/commands.md and the table of exit codes say the same."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

from fenchel_common import errors
from fenchel_common.errors import DataUnfit, FenchelError
from fenchel_deploy.cli import app, load_verbs
from fenchel_deploy.cli.exits import ExitCode, code_of
from fenchel_deploy.cli.manual import ENTRIES, USUAL
from support.commands import run_fenchel

DOCUMENT = Path(__file__).resolve().parents[3] / "docs/commands.md"


@pytest.fixture(scope="module")
def fenchel() -> TyperGroup:
    load_verbs([])
    command = typer.main.get_command(app)
    assert isinstance(command, TyperGroup)
    return command


def commands(group: TyperGroup, *before: str) -> Iterator[str]:
    """The words of every command that does something."""
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from commands(command, *before, name)
        else:
            yield " ".join([*before, name])


def test_every_command_has_examples_and_exit_codes(fenchel: TyperGroup) -> None:
    assert set(commands(fenchel)) == set(ENTRIES)


@pytest.mark.parametrize("command", ENTRIES)
def test_the_help_ends_with_examples_and_exit_codes(command: str) -> None:
    shown = run_fenchel(*command.split(), "--help").stdout
    for example in ENTRIES[command].examples:
        assert f"  {example}\n" in shown
    for code, meaning in ENTRIES[command].all_exits().items():
        assert re.search(rf"^ +{code.value} +{re.escape(meaning)}$", shown, re.MULTILINE), (code, shown)


@pytest.mark.parametrize("example", [example for entry in ENTRIES.values() for example in entry.examples])
def test_every_example_is_a_command_line_that_is_understood(fenchel: TyperGroup, example: str) -> None:
    name, *words = shlex.split(example)
    assert name == "fenchel"
    context = fenchel.make_context(name, words)
    while isinstance(group := context.command, TyperGroup):
        verb, command, rest = group.resolve_command(context, [*context._protected_args, *context.args])
        assert command is not None
        context = command.make_context(verb, rest, parent=context)


def test_the_document_has_the_same_exit_codes_and_examples() -> None:
    text = DOCUMENT.read_text()
    for code, meaning in USUAL.items():
        assert f"| {code.value} | {meaning} |" in text
    for command, entry in ENTRIES.items():
        codes = "; ".join(f"{code.value} {meaning}" for code, meaning in sorted(entry.exits.items()))
        assert f"| `{command}` | {codes or '–'} |" in text, f"{command}: {codes}"
    assert set(re.findall(r"^\| `([a-z ]+)` \|", text, re.MULTILINE)) == set(ENTRIES)


def test_every_error_has_an_exit_code_of_its_class() -> None:
    classes = {name: kind for name, kind in vars(errors).items() if isinstance(kind, type)}
    kinds = {name: kind for name, kind in classes.items() if issubclass(kind, FenchelError)}
    codes = {name: code_of(kind.__new__(kind)) for name, kind in kinds.items()}
    assert codes["UnknownRun"] is ExitCode.UNKNOWN_RUN
    assert codes["RecordConflict"] is ExitCode.CONFLICT
    assert codes["NoState"] is codes["StateInUse"] is ExitCode.STATE
    assert codes["RosterExpired"] is ExitCode.IDENTITY
    assert codes["DataUnfit"] is ExitCode.DATA_UNFIT
    assert codes["ServerUnavailable"] is ExitCode.MISSED
    assert codes["InvalidConfig"] is ExitCode.REFUSED


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (DataUnfit("labels are 0 and 1", public_reason="x"), ExitCode.DATA_UNFIT, "error: labels are 0 and 1"),
        (KeyboardInterrupt(), ExitCode.INTERRUPTED, "interrupted"),
        (ModuleNotFoundError("no", name="docker"), ExitCode.REFUSED, "needs the Python package docker"),
        (ZeroDivisionError("oh"), ExitCode.INTERNAL, "ZeroDivisionError: oh\nerror: this is a fault of Fenchel"),
    ],
)
def test_an_error_ends_the_command_with_its_code_and_words(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, code: ExitCode, said: str
) -> None:
    def fail(_words: object) -> None:
        raise error

    monkeypatch.setattr("fenchel_deploy.cli.load_verbs", fail)
    ended = run_fenchel("demo")
    assert (ended.exit_code, ended.stdout) == (code, "")
    assert said in ended.stderr


def test_wrong_usage_is_refused() -> None:
    assert run_fenchel("runs", "list").exit_code == ExitCode.REFUSED
    assert run_fenchel("demo", "--no-such-option").exit_code == ExitCode.REFUSED
