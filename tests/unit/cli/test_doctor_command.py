"""`fenchel doctor`: what it gathers for a report, and what it leaves out."""

import json
from pathlib import Path
from typing import Any

import pytest

from fenchel_common.ids import RunId
from fenchel_deploy.cli.exits import ExitCode
from fenchel_deploy.logs import LAST_ERRORS_FILE
from fenchel_server.store import RunStatus, SqliteStore
from support.commands import Ended, run_fenchel
from support.kits import make_federation
from support.records import RUN, running_with_setup


def checks(ended: Ended) -> dict[str, dict[str, Any]]:
    return {check["name"]: check for check in json.loads(ended.stdout)["checks"]}


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """The folder of a server that is not at work, with a run that failed."""
    folder = tmp_path / "server"
    with SqliteStore.serve(folder) as store:
        running_with_setup(store)
        store.close_run(RUN, RunStatus.FAILED, reason="labels of shared samples differ")
    entry = {"time": "2026-01-01T00:00:00", "level": "ERROR", "message": "a call failed", "run": RUN, "round": 2}
    (folder / LAST_ERRORS_FILE).write_text(json.dumps(entry) + "\n")
    return folder


def test_without_options_it_tells_versions_machine_and_clock() -> None:
    found = checks(run_fenchel("doctor", "--format", "json"))
    assert list(found) == ["version", "machine", "clock"]
    assert found["version"]["detail"] == "Fenchel 0.1.0"
    assert {"Python", "grpcio", "gmpy2"} <= set(found["version"]["facts"])


def test_it_tells_the_runs_and_the_last_errors_of_a_server(state: Path) -> None:
    found = checks(run_fenchel("doctor", "--state", state, "--format", "json"))
    assert "a server's folder with 1 runs; no server uses it now" in found["state"]["detail"]
    assert found["state"]["facts"][RUN] == "failed after 0 rounds and 1 attempts: labels of shared samples differ"
    (error,) = found["last errors"]["facts"].items()
    assert error == ("1, 2026-01-01T00:00:00 ERROR", "a call failed (run run-1, round 2, phase None)")


def test_it_tells_whether_a_server_is_at_work(state: Path) -> None:
    with SqliteStore.serve(state) as store:
        store.create_run(RunId("run-2"), name="later", config="{}")
        shown = run_fenchel("doctor", "--state", state).stdout
    assert "2 runs; a server uses it now" in shown


def test_of_a_party_it_counts_files_and_checks_the_kit(tmp_path: Path) -> None:
    kit = make_federation(tmp_path / "kits")["south"]
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    (private / "run-1.model").mkdir()
    ended = run_fenchel("doctor", "--kit", kit, "--state", private, "--format", "json")
    found = checks(ended)
    assert ended.exit_code == ExitCode.DONE
    assert {"kit", "clock", "certificate", "roster", "key", "state", "last errors"} <= set(found)
    assert found["state"]["facts"]["runs that ended with a model"] == "1"
    key = (kit / "key.pem").read_text().splitlines()[1]
    assert key not in ended.stdout
    private.chmod(0o755)
    assert checks(run_fenchel("doctor", "--state", private, "--format", "json"))["state"]["status"] == "warn"


def test_a_problem_of_the_kit_or_a_wrong_folder_is_exit_code_1(tmp_path: Path) -> None:
    ended = run_fenchel("doctor", "--kit", tmp_path, "--state", tmp_path / "none")
    assert ended.exit_code == ExitCode.MISSED
    assert "fail  kit:" in ended.stdout
    assert "there is no such folder" in ended.stdout
