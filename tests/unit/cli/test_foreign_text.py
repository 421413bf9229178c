"""What others wrote, on the operator's screen: text, never markup and never an escape sequence."""

import io
import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from fenchel_common.errors import FederationFailed
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.metrics import RoundMetrics
from fenchel_common.runconfig import RunConfig
from fenchel_deploy.cli import app as fenchel
from fenchel_deploy.cli import load_verbs, main, runs, server
from fenchel_deploy.cli.console import PlainConsole
from fenchel_deploy.cli.liveview import LiveView
from fenchel_deploy.cli.logs import log_to_stderr
from fenchel_deploy.cli.output import printable
from fenchel_deploy.cli.story import RunStory
from fenchel_server.store import AbsenceRecord, RoundRecord, RunStatus, SqliteStore
from support.records import RUN, setup_record

HOSTILE = "[/red][link=x]no\x1b[2J\x1b]0;title\x07 rows\r\n\u202egnp.exe\x9b31m :skull:"
SHOWN = r"[/red][link=x]no\x1b[2J\x1b]0;title\x07 rows\r\n\u202egnp.exe\x9b31m :skull:"


def assert_shown_as_text(printed: str) -> None:
    assert SHOWN in printed
    assert all(character.isprintable() or character == "\n" for character in printed)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """The state of a server whose party north wrote hostile text wherever a party, or an operator, can write."""
    seen = json.dumps({HOSTILE: {"up": {HOSTILE: {"individual": 1}}}})
    config = RunConfig.from_mapping({"name": "trial"}).to_json()
    with SqliteStore.serve(tmp_path) as store:
        store.create_run(RUN, name=HOSTILE, config=config)
        store.begin_attempt(RUN)
        rounds = [
            RoundRecord(
                round_id=RoundId(number),
                metrics=RoundMetrics(round=RoundId(number)).to_json(),
                absences=(AbsenceRecord(ClientId("north"), "primal", HOSTILE),),
                bytes_up=1,
                bytes_down=1,
                seconds={"total": 1.0},
                clients={},
                seen=seen,
            )
            for number in (0, 1)
        ]
        store.commit_setup(RUN, setup_record(), rounds[0], b"")
        store.commit_round(RUN, rounds[1], b"")
        store.close_run(RUN, RunStatus.FAILED, reason=HOSTILE)
    return tmp_path


@pytest.mark.parametrize(
    "words", [["runs", "list"], ["runs", "show", RUN], ["audit", RUN], ["audit", RUN, "--format", "markdown"]]
)
def test_records_with_hostile_text_are_shown_as_text(
    state: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    load_verbs([])
    monkeypatch.setattr("fenchel_deploy.cli.console.PIPE_WIDTH", 1000)
    result = CliRunner().invoke(fenchel, [*words, "--state", str(state)])
    assert result.exit_code == 0, result.output
    assert_shown_as_text(result.stdout)


def test_an_error_with_hostile_text_is_shown_as_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_words: object) -> None:
        raise FederationFailed("the federation did not finish: " + HOSTILE.replace("\n", "\\n"))

    monkeypatch.setattr("fenchel_deploy.cli.load_verbs", fail)
    monkeypatch.setattr("fenchel_deploy.cli.keep_memory_private", lambda: None)
    monkeypatch.setattr(sys, "argv", ["fenchel", "ping"])
    with pytest.raises(SystemExit):
        main()
    assert_shown_as_text(capsys.readouterr().err)


def test_the_servers_lines_show_names_and_reasons_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    ended: dict[str, Any] = {"event": "ended", "run": "run-1", "name": HOSTILE, "status": "failed", "outcome": None}
    server._print_lines(ended | {"reason": HOSTILE})
    server._print_lines({"event": "waiting", "run": "run-1", "for": [HOSTILE], "since": {HOSTILE: 0.0}})
    for line in capsys.readouterr().out.splitlines():
        assert_shown_as_text(line)


def test_the_view_of_a_training_shows_warnings_and_reasons_as_text() -> None:
    story = RunStory()
    story.tell({"event": "warning", "warning": HOSTILE})
    story.tell({"event": "status", "status": "failed", "reason": HOSTILE})
    absent = {"party": HOSTILE, "connected": False, "since": 0.0, "reason": HOSTILE, "owes": None}
    story.tell({"event": "parties", "parties": [absent]})
    console = PlainConsole(file=io.StringIO(), width=1000)
    console.print(LiveView(story))
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert len(lines) == 3
    for line in lines:
        assert_shown_as_text(line)


def test_a_log_entry_with_hostile_text_is_one_line_of_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = logging.RootLogger(logging.INFO)
    monkeypatch.setattr(logging, "root", root)
    log_to_stderr()
    try:
        raise FederationFailed(HOSTILE)
    except FederationFailed:
        root.exception("north: %s", f"{HOSTILE}\n2026-01-01 INFO all is well")
    first, *trace = capsys.readouterr().err.splitlines()
    assert_shown_as_text(first)
    assert r"\n2026-01-01 INFO all is well" in first
    assert all(character.isprintable() for line in trace for character in line)


def test_text_of_any_script_stays_as_it_is() -> None:
    assert printable("Klinik Łódź, 東京, α ≤ λ, 0.1 %") == "Klinik Łódź, 東京, α ≤ λ, 0.1 %"
    assert printable("two\nlines", keep="\n") == "two\nlines"


def test_no_command_prints_on_a_console_that_knows_markup() -> None:
    folder = Path(runs.__file__).parent
    makers = [path.name for path in sorted(folder.glob("*.py")) if " Console(" in path.read_text()]
    assert makers == []
    assert issubclass(PlainConsole, Console)
