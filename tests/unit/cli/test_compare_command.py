"""`fenchel compare`: two runs side by side."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from fenchel_common.ids import RunId
from fenchel_deploy.cli.exits import ExitCode
from fenchel_deploy.comparison import Row
from fenchel_server.store import SqliteStore
from support.commands import run_fenchel
from support.records import RUN, round_record, running_with_setup


def result(**changes: Any) -> dict[str, Any]:
    """What `fenchel server --results` writes of a run, as far as it is compared."""
    return {
        "rounds": 10,
        "rtc_per_round": 3,
        "gap": 1e-3,
        "seconds": {"total": 20.0, "encrypt": 4.0, "wait": 0.0},
        "round_seconds": {"total": 1.5},
        "bytes": {"up": 1000, "down": 500},
        "clients_detail": {"north": {"rss_mib": 100.0}, "south": {"rss_mib": 120.0}},
        **changes,
    }


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    one, other = tmp_path / "one.json", tmp_path / "other.json"
    one.write_text(json.dumps(result()))
    other.write_text(json.dumps(result(seconds={"total": 5.0, "encrypt": 0.0, "wait": 1.0}, gap=None)))
    return one, other


def test_a_program_gets_every_kind_of_cost_with_its_ratio(files: tuple[Path, Path]) -> None:
    shown = json.loads(run_fenchel("compare", *files, "--format", "json").stdout)
    assert (shown["first"], shown["second"]) == tuple(map(str, files))
    costs = {row["kind"]: (row["first"], row["second"], row["ratio"]) for row in shown["costs"]}
    assert costs["rounds"] == (10, 10, 1.0)
    assert costs["total, seconds"] == (20.0, 5.0, 0.25)
    assert costs["encrypt, seconds"] == (4.0, 0.0, 0.0)
    assert costs["wait, seconds"] == (0.0, 1.0, None), "there is no ratio to nothing"
    assert costs["duality gap"] == (1e-3, None, None)
    assert costs["bytes up"] == (1000, 1000, 1.0)
    assert costs["peak memory of a party, MiB"] == (120.0, 120.0, 1.0)


def test_a_spreadsheet_gets_the_same(files: tuple[Path, Path]) -> None:
    shown = list(csv.reader(io.StringIO(run_fenchel("compare", *files, "--format", "csv").stdout)))
    assert shown[0] == ["kind", "first", "second", "ratio"]
    assert ["total, seconds", "20.0", "5.0", "0.25"] in shown
    assert ["duality gap", "0.001", "", ""] in shown


def test_a_person_gets_a_table(files: tuple[Path, Path]) -> None:
    shown = run_fenchel("compare", *files).stdout
    (line,) = [line for line in shown.splitlines() if "total, seconds  " in line]
    assert [word.strip() for word in line.strip("│ ").split("│")] == ["total, seconds", "20", "5", "0.25"]


def test_runs_of_a_state_folder_are_named_by_id_or_name_also_while_they_run(tmp_path: Path) -> None:
    with SqliteStore.serve(tmp_path) as store:
        running_with_setup(store)
        store.commit_round(RUN, round_record(1), b"state 1")
        store.create_run(RunId("run-2"), name="later", config="{}")
        name = store.run(RUN).name
        shown = run_fenchel("compare", RUN, name, "--state", tmp_path, "--format", "json")
        empty = run_fenchel("compare", RUN, "later", "--state", tmp_path)
    costs = {row["kind"]: row["ratio"] for row in json.loads(shown.stdout)["costs"]}
    assert costs["rounds"] == costs["total, seconds"] == costs["bytes up"] == 1.0
    assert empty.exit_code == ExitCode.REFUSED
    assert "later: nothing of this run is committed yet" in empty.stderr


def test_what_cannot_be_compared_is_refused(tmp_path: Path, files: tuple[Path, Path]) -> None:
    (tmp_path / "list.json").write_text("[]")
    for word, said in (
        ("first", "name the server's state folder"),
        (tmp_path / "none.json", "cannot be read: No such file"),
        (tmp_path / "list.json", "has no costs of a run"),
    ):
        ended = run_fenchel("compare", files[0], word)
        assert (ended.exit_code, ended.stdout) == (ExitCode.REFUSED, "")
        assert said in ended.stderr


def test_a_ratio_is_the_second_by_the_first() -> None:
    assert Row("seconds", 2.0, 3.0).ratio == 1.5
    assert Row("seconds", None, 3.0).ratio is None
