"""Log entries that know where the process is, and the file of last errors, which may be sent to others."""

import json
import logging
from pathlib import Path

import pytest

from fenchel_common.errors import InvalidInput, Refusal
from fenchel_common.privatelog import PRIVATE
from fenchel_deploy.cli.logs import LogFormat, log_to_stderr
from fenchel_deploy.logs import (
    LAST_ERRORS_FILE,
    MAX_CHARACTERS,
    MAX_ENTRIES,
    Place,
    last_errors_kept,
    read_last_errors,
)

SAMPLE = "patient-4711"


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> logging.Logger:
    """The root of a log of its own."""
    made = logging.RootLogger(logging.INFO)
    monkeypatch.setattr(logging, "root", made)
    monkeypatch.setattr(logging.Logger, "root", made)
    return made


def messages(folder: Path) -> list[str]:
    return [entry["message"] for entry in read_last_errors(folder)]


def test_every_line_of_a_json_log_says_run_round_phase_and_party(
    root: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    place = Place(party="north")
    root.handlers.clear()
    log_to_stderr(LogFormat.JSON, place)
    root.info("attached\nto %s", "the server")
    place.move(run="run-1", round_id=3, phase="primal")
    try:
        raise InvalidInput("too long")
    except InvalidInput:
        root.exception("failed")
    first, second = map(json.loads, capsys.readouterr().err.splitlines())
    assert first["message"] == "attached\nto the server"
    assert {name: first[name] for name in ("run", "round", "phase", "party")} == {
        "run": None,
        "round": None,
        "phase": None,
        "party": "north",
    }
    assert (second["run"], second["round"], second["phase"], second["level"]) == ("run-1", 3, "primal", "ERROR")
    assert second["exception"].endswith("InvalidInput: too long")


def test_warnings_and_errors_are_kept_across_restarts(root: logging.Logger, tmp_path: Path) -> None:
    place = Place("north", "run-1", 2, "primal")
    with last_errors_kept(tmp_path, place):
        root.info("all is well")
        root.warning("not connected: %s", "no answer")
    with last_errors_kept(tmp_path, place):
        root.error("refused")
    assert messages(tmp_path) == ["not connected: no answer", "refused"]
    assert read_last_errors(tmp_path)[0]["run"] == "run-1"
    assert (tmp_path / LAST_ERRORS_FILE).stat().st_mode & 0o777 == 0o600


def test_the_file_of_last_errors_is_bounded(root: logging.Logger, tmp_path: Path) -> None:
    with last_errors_kept(tmp_path, Place()):
        for number in range(2 * MAX_ENTRIES):
            root.warning("%d %s", number, "x" * 2 * MAX_CHARACTERS)
    kept = messages(tmp_path)
    assert len(kept) == MAX_ENTRIES
    assert kept[-1].startswith(f"{2 * MAX_ENTRIES - 1} ")
    assert {len(message) for message in kept} == {MAX_CHARACTERS}


def test_nothing_for_the_partys_own_operator_is_in_the_file_of_last_errors(
    root: logging.Logger, tmp_path: Path
) -> None:
    refusal = Refusal(f"twice in the table: {SAMPLE}", public_reason="it has a sample twice")

    def work() -> None:
        root.error("refused %s of round %d: %s", "introduce", 0, refusal)
        root.warning("column %s looks like an id", SAMPLE, extra=PRIVATE)
        try:
            raise ValueError(f"could not convert {SAMPLE}")
        except ValueError:
            root.exception("failed in %s", "local_dual")
        raise refusal

    with pytest.raises(Refusal), last_errors_kept(tmp_path, Place("north")):
        work()
    refused, failed, ended = messages(tmp_path)
    assert refused == "refused introduce of round 0: it has a sample twice"
    assert failed.startswith("failed in local_dual: ValueError at test_logs.py:")
    assert ended == "ended: it has a sample twice"
    assert SAMPLE not in (tmp_path / LAST_ERRORS_FILE).read_text()


def test_a_damaged_file_of_last_errors_counts_as_none(root: logging.Logger, tmp_path: Path) -> None:
    (tmp_path / LAST_ERRORS_FILE).write_text("no JSON")
    with last_errors_kept(tmp_path, Place()):
        root.error("refused")
    assert messages(tmp_path) == ["refused"]
