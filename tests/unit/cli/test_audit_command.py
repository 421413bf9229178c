"""`fenchel audit`: what it prints of a ledger, and what it refuses."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from fenchel_common.errors import FenchelError, InvalidInput, KeyFileError, NoState, UnknownRun
from fenchel_common.ids import RunId
from fenchel_common.runconfig import RunConfig
from fenchel_deploy.cli import audit
from fenchel_deploy.forgery import campaign as forgeries
from fenchel_deploy.forgery.campaign import Count
from fenchel_server.store import RunStatus, SqliteStore
from support.records import RUN, round_record, setup_record

CLOSING = '{"north": {"down": {"CorrectiveModel.weights": {"ciphertext aggregate": 31}}}}'

app = typer.Typer()
audit.register(app)


@app.callback()
def _fenchel() -> None:
    """Stands for the whole command, of which `audit` is one verb."""


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["audit", *arguments])


def refusal_of(*arguments: str) -> FenchelError:
    error = invoke(*arguments).exception
    assert isinstance(error, FenchelError)
    return error


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A run in which north sent 1 value in round 0 and 2 in round 1, and got a sealed model at the end."""
    config = RunConfig.from_mapping(
        {"name": "trial", "privacy": "paper", "acknowledge_row_leak": True, "cipher": "masks"}
    )
    with SqliteStore.serve(tmp_path) as store:
        store.create_run(RUN, name="trial", config=config.to_json())
        store.begin_attempt(RUN)
        store.commit_setup(RUN, setup_record(), round_record(0), b"")
        store.commit_round(RUN, round_record(1), b"")
        store.close_run(RUN, RunStatus.COMPLETED, reason="done", seen=CLOSING)
    return tmp_path


def test_the_counts_of_all_rounds_and_of_the_end_add_up(state: Path) -> None:
    shown = json.loads(invoke(RUN, "--state", str(state), "--format", "json").stdout)
    assert (shown["run"], shown["privacy"], shown["cipher"], shown["rounds"]) == (RUN, "paper", "masks", "1")
    server, north = shown["roles"]["server"], shown["roles"]["north"]
    assert server["received"]["individual"] == {"values": 3, "fields": {"HyfdcaPrimalResult.contribution": 3}}
    assert server["sent"]["ciphertext"]["values"] == 31
    assert server["opened"] == {}
    assert north["received"]["aggregate"]["fields"] == north["opened"]["aggregate"]["fields"]
    assert north["sent"]["individual"]["values"] == 3


def test_the_table_speaks_in_words(state: Path) -> None:
    shown = invoke(RUN, "--state", str(state)).stdout
    assert "3 values of single parties or samples were readable to it" in shown
    assert "one party's contribution to the model: 3" in shown
    assert "the model: 31 (came encrypted)" in shown


def test_the_only_run_needs_no_name(state: Path) -> None:
    assert invoke("--state", str(state)).stdout == invoke(RUN, "--state", str(state)).stdout


def test_a_run_without_counts_is_no_run_without_leaks(state: Path) -> None:
    with SqliteStore.serve(state) as store:
        store.create_run(RunId("run-2"), name="later", config="{}")
    assert "has no ledger" in str(refusal_of("run-2", "--state", str(state)))
    assert "say which" in str(refusal_of("--state", str(state)))


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ((), InvalidInput, "--state"),
        (("run-1", "run-2", "--state", "."), InvalidInput, "one run at a time"),
        (("--compare", "plain"), InvalidInput, "at least two levels"),
        (("--compare", "plain", "open"), InvalidInput, "'open' is none of these"),
        (("--compare", "plain", "sealed", "--state", "."), InvalidInput, "give one of them"),
        (("--attack", "all", "--compare"), InvalidInput, "give one of them"),
        (("--attack", "telepathy"), InvalidInput, "'telepathy' is not one of: all, "),
    ],
)
def test_a_command_that_makes_no_sense_is_refused_in_words(
    arguments: tuple[str, ...], kind: type[FenchelError], words: str
) -> None:
    error = refusal_of(*arguments)
    assert isinstance(error, kind)
    assert words in str(error)


def test_a_folder_without_ledgers_and_an_unknown_run_are_refused(state: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert "neither the state of a server nor a party's ledgers" in str(refusal_of("--state", str(elsewhere)))
    assert isinstance(refusal_of("run-9", "--state", str(state)), UnknownRun)
    assert not isinstance(refusal_of("--state", str(elsewhere)), NoState)


def test_a_partys_ledger_that_others_can_read_or_that_is_cut_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run-1.ledger.json"
    path.write_text('{"run": "run-1"')
    path.chmod(0o600)
    assert "not a party's ledger" in str(refusal_of("--state", str(tmp_path)))
    path.chmod(0o644)
    assert isinstance(refusal_of("--state", str(tmp_path)), KeyFileError)


def test_the_attacks_are_listed() -> None:
    listed = json.loads(invoke("--list", "--format", "json").stdout)
    assert listed
    assert all(summary for summary in listed.values())


def test_a_campaign_of_forgeries_fails_if_anything_was_accepted_or_an_honest_sum_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sound = Count("hyfdca corrective", "sealed", "paillier", "primal model", 3, 3, 10, 0, 10, 0)
    asked: dict[str, int] = {}

    def finds(*counts: Count) -> None:
        def campaign(**numbers: int) -> list[Count]:
            asked.update(numbers)
            return list(counts)

        monkeypatch.setattr(forgeries, "campaign", campaign)

    finds(sound)
    done = invoke("--forgery", "--count", "2000", "--seed", "5", "--format", "json")
    assert done.exit_code == 0
    assert asked == {"random": 2000, "chosen": 1000, "seed": 5}
    (row,) = json.loads(done.stdout)
    assert (row["kind"], row["sound"]) == ("primal model", True)
    for broken in (replace(sound, random_accepted=1), replace(sound, chosen_accepted=1), replace(sound, honest=2)):
        finds(sound, broken)
        assert invoke("--forgery").exit_code == 1
    assert "four commands" in str(refusal_of("--forgery", "--compare"))
