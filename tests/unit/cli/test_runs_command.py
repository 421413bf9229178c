"""`fenchel runs`: what it prints, what it changes, and how it exits."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from fenchel_common.ids import RunId
from fenchel_server.store import RunStatus, SqliteStore
from support.commands import Ended, run_fenchel
from support.records import RUN, round_record, running_with_setup

BYTES = {
    "up": 10,
    "down": 20,
    "ciphertext_up": 4,
    "ciphertext_down": 0,
    "port_up": 12,
    "port_down": 25,
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with SqliteStore.serve(tmp_path) as opened:
        running_with_setup(opened)
        opened.commit_round(RUN, round_record(1, absent=("north",)), b"state 1")
        opened.create_run(RunId("run-2"), name="later", config='{"seed": 2}')
        yield opened


def invoke(*arguments: str, state: Path) -> Ended:
    return run_fenchel("runs", *arguments, "--state", state)


def test_list_shows_every_run_beside_a_live_server(store: SqliteStore, tmp_path: Path) -> None:
    result = invoke("list", state=tmp_path)
    assert result.exit_code == 0
    assert "run-1" in result.stdout
    assert "running" in result.stdout
    assert "queued" in result.stdout


def test_list_as_json(store: SqliteStore, tmp_path: Path) -> None:
    listed = json.loads(invoke("list", "--format", "json", state=tmp_path).stdout)
    assert [(item["run"], item["status"], item["rounds"]) for item in listed] == [
        ("run-1", "running", 1),
        ("run-2", "queued", 0),
    ]
    assert listed[0]["key"] == {"fingerprint": "ab:cd", "bits": 2048}


def test_show_has_the_rounds_with_who_was_left_out(store: SqliteStore, tmp_path: Path) -> None:
    result = invoke("show", "run-1", state=tmp_path)
    assert result.exit_code == 0
    assert "north (no result within 1 s)" in result.stdout
    assert "2048 bits, ab:cd" in result.stdout


def test_show_as_json_has_everything(store: SqliteStore, tmp_path: Path) -> None:
    shown = json.loads(invoke("show", "run-1", "--format", "json", state=tmp_path).stdout)
    assert shown["stop_request"] is None
    assert shown["outcome"] is None
    assert [committed["round"] for committed in shown["history"]] == [0, 1]
    assert shown["history"][1]["absences"] == [{"client": "north", "phase": "primal", "reason": "no result within 1 s"}]
    assert shown["history"][1]["bytes"] == BYTES


def test_stop_asks_the_live_server(store: SqliteStore, tmp_path: Path) -> None:
    result = invoke("stop", "run-1", "--reason", "maintenance", state=tmp_path)
    assert result.exit_code == 0
    assert "after its current phase" in result.stdout
    assert store.stop_request(RUN) == "maintenance"
    assert "stop requested: maintenance" in invoke("show", "run-1", state=tmp_path).stdout


def test_stop_of_a_queued_run_is_immediate(store: SqliteStore, tmp_path: Path) -> None:
    stopped = json.loads(invoke("stop", "run-2", "--format", "json", state=tmp_path).stdout)
    assert (stopped["status"], stopped["stop_request"]) == ("stopped", None)
    assert store.run(RunId("run-2")).reason == "stopped by the operator"


def test_resume_queues_a_stopped_run(store: SqliteStore, tmp_path: Path) -> None:
    store.close_run(RUN, RunStatus.STOPPED, reason="paused: waiting for north")
    result = invoke("resume", "run-1", state=tmp_path)
    assert result.exit_code == 0
    assert "continues after round 1" in result.stdout
    assert store.run(RUN).status is RunStatus.QUEUED


def test_state_can_be_read_after_the_server_ended(store: SqliteStore, tmp_path: Path) -> None:
    store.close()
    assert len(json.loads(invoke("list", "--format", "json", state=tmp_path).stdout)) == 2


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (("show", "run-9"), 4, "there is no run run-9"),
        (("stop", "run-9"), 4, "there is no run run-9"),
        (("resume", "run-1"), 5, "is running; only a failed or stopped run can be resumed"),
    ],
)
def test_failures_go_to_stderr_with_their_exit_code(
    store: SqliteStore, tmp_path: Path, arguments: tuple[str, ...], exit_code: int, message: str
) -> None:
    result = invoke(*arguments, "--format", "json", state=tmp_path)
    assert (result.exit_code, result.stdout) == (exit_code, "")
    assert message in result.stderr


def test_a_directory_without_state_has_its_exit_code(tmp_path: Path) -> None:
    result = invoke("list", state=tmp_path)
    assert (result.exit_code, result.stdout) == (3, "")
    assert "has no state" in result.stderr


@pytest.mark.parametrize("verb", ["show", "stop"])
def test_a_run_can_be_called_by_its_name(store: SqliteStore, tmp_path: Path, verb: str) -> None:
    shown = json.loads(invoke(verb, "later", "--format", "json", state=tmp_path).stdout)
    assert shown["run"] == "run-2"


def test_an_id_goes_before_a_name(store: SqliteStore) -> None:
    store.create_run(RunId("run-4"), name="run-2", config="{}")
    assert store.find("later").run == "run-2"
    assert store.find("run-2").run == "run-2"
    assert store.find("run-4").name == "run-2"


def test_show_has_the_costs(store: SqliteStore, tmp_path: Path) -> None:
    shown = json.loads(invoke("show", "run-1", "--format", "json", state=tmp_path).stdout)
    assert shown["costs"]["bytes"] == {**BYTES, "ciphertext_up": 8}, "both rounds have ciphertext"
    assert shown["costs"]["seconds"]["wait"] == 2.0
    assert shown["costs"]["clients_detail"]["north"]["encrypt_s"] == 0.5
    assert "wait (for parties that gave no answer), seconds" in invoke("show", "run-1", state=tmp_path).stdout
    assert json.loads(invoke("show", "run-2", "--format", "json", state=tmp_path).stdout)["costs"] is None


def test_a_run_without_a_server_process_is_not_shown_as_running(store: SqliteStore, tmp_path: Path) -> None:
    store.close()
    assert "interrupted" in invoke("list", state=tmp_path).stdout
    shown = json.loads(invoke("show", "run-1", "--format", "json", state=tmp_path).stdout)
    assert shown["status"] == "interrupted"
    assert "start the server again" in shown["reason"]
