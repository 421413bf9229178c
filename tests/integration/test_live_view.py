"""The live view on terminals of 80 and 200 columns, and what the same commands write where there is none."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from fenchel_common.runconfig import RunConfig
from fenchel_deploy.cli.exits import ExitCode
from fenchel_deploy.consent import consenting_options
from fenchel_deploy.folders import kit_folder, shard_file
from fenchel_deploy.local import LocalFederation
from support.tables import named_shards, small_dataset
from support.terminal import in_tmux, on_terminal

CONFIG = RunConfig.from_mapping(
    {"name": "seen", "key": {"bits": 2048}, "settings": {"lambda": 0.01}, "stop": {"gap": 1e-6}}
)
FENCHEL = [sys.executable, "-m", "fenchel_deploy"]
STAMPED = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (INFO|WARNING) ")
BAR = re.compile(r"\[[EDSPWACLTO ]+\]")


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[LocalFederation]:
    """Two parties; the test starts the processes."""
    made = LocalFederation(tmp_path, named_shards(small_dataset(60), grid=(1, 2)), CONFIG)
    try:
        yield made
    finally:
        made.__exit__(None, None, None)


def client_on_terminal(federation: LocalFederation, tmp_path: Path, party: str) -> list[str]:
    """The command of a party's client, to be started on a terminal."""
    command = [
        *FENCHEL,
        "client",
        "--kit",
        str(kit_folder(tmp_path, party)),
        "--data",
        str(shard_file(tmp_path, party)),
    ]
    command += ["--state", str(tmp_path / "clients" / party), "--server", f"localhost:{federation.port}"]
    return command + consenting_options(CONFIG)


def assert_whole(lines: list[str], *, columns: int) -> None:
    """No line of the view is on the screen twice, or cut by another, or goes over the edge of the terminal."""
    assert all(len(line) <= columns for line in lines)
    bars = [line for line in lines if line.startswith("[")]
    assert len(bars) <= 1, lines
    assert all(BAR.fullmatch(bar) and len(bar) == columns for bar in bars), lines
    assert sum(line.startswith("round ") for line in lines) <= 1, lines
    assert sum("encryption: " in line for line in lines) <= 1, lines


def test_a_demonstration_is_drawn_in_place_and_ends_with_its_report() -> None:
    command = [*FENCHEL, "demo", "--dataset", "breast_cancer", "--grid", "1x2", "--gap", "0.01", "--key-bits", "2048"]
    with on_terminal([*command, "--format", "json"], columns=80, stdout=subprocess.PIPE) as (terminal, process):
        seen = [list(lines) for lines in terminal.screens()]
        assert process.stdout is not None
        report = json.loads(process.stdout.read())
        assert process.wait() == ExitCode.DONE
    for lines in seen:
        assert_whole(lines, columns=80)
    everything = {line for lines in seen for line in lines}
    assert any("solving the centralized problem" in line for line in everything)
    assert any("encryption: paillier, 2048 bits" in line for line in everything)
    assert any(re.match(r"round \d+ of at most 1000, gap .* target 0.01", line) for line in everything)
    assert any(line.startswith("hospital-1  ") for line in everything)
    assert terminal.lines == [], "the view is wiped off, because the report follows on stdout"
    assert report["status"] == "completed"


def test_a_run_is_followed_at_80_and_200_columns_by_its_operator_and_by_a_party(
    federation: LocalFederation, tmp_path: Path
) -> None:
    federation.start_server()
    watch = [*FENCHEL, "runs", "watch", "seen", "--state", str(federation.state)]
    client = client_on_terminal(federation, tmp_path, "p1")
    with on_terminal(watch, columns=80) as (narrow, at_80), on_terminal(watch, columns=200) as (wide, at_200):
        for terminal in (narrow, wide):
            lines = terminal.until(lambda lines: any(line.startswith("p2  absent since 20") for line in lines))
            assert any(line.endswith("has not connected yet") for line in lines)
        federation.start_client("p2")
        with on_terminal(client, columns=200) as (own, at_party):
            party_saw = [list(lines) for lines in own.screens()]
            assert at_party.wait() == ExitCode.DONE
        for terminal, process, columns in ((narrow, at_80, 80), (wide, at_200, 200)):
            for lines in terminal.screens():
                assert_whole(lines, columns=columns)
            assert process.wait() == ExitCode.DONE
            assert_ended(terminal.lines)
    for lines in party_saw:
        assert_whole(lines, columns=200)
    final = party_saw[-1]
    assert any(line.startswith("p1: ") for line in final)
    assert any("encryption: paillier, 2048 bits" in line for line in final)
    assert any(re.match(r"round \d+ of at most 1000, gap .*, target 1e-06", line) for line in final)
    assert any(STAMPED.match(line) and "the set-up begins" in line for line in final), "its log is above the view"
    assert any("the run uses 60 of this party's 60 samples" in line for line in final)


def test_an_error_has_a_line_of_its_own_and_no_part_of_the_view_beside_it() -> None:
    command = [*FENCHEL, "demo", "--grid", "1x2", "--gap", "1e-9", "--key-bits", "2048"]
    with on_terminal(command, columns=80) as (terminal, process):
        terminal.until(lambda lines: any(line.startswith("round 1 ") for line in lines))
        (server,) = (one for one in psutil.Process(process.pid).children() if "server" in one.cmdline())
        server.kill()
        for lines in terminal.screens():
            assert_whole(lines, columns=80)
        assert process.wait() == ExitCode.REFUSED
    (first,) = [number for number, line in enumerate(terminal.lines) if "error" in line]
    assert terminal.lines[first].startswith("error: ")
    assert not any(BAR.fullmatch(line) for line in terminal.lines[first:])


def assert_ended(lines: list[str]) -> None:
    """The last screen of a run that was followed to its end."""
    assert any(line.startswith("seen: completed: ") for line in lines)
    assert any("paillier, 2048 bits" in line for line in lines)
    assert any(BAR.fullmatch(line) for line in lines)


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed here (on Debian: apt-get install tmux)")
def test_in_tmux_nothing_of_a_view_is_left_above_it_or_wrapped(federation: LocalFederation, tmp_path: Path) -> None:
    federation.start_server()
    watch = [*FENCHEL, "runs", "watch", "seen", "--state", str(federation.state)]
    folders = [tmp_path / "narrow", tmp_path / "wide"]
    for folder in folders:
        folder.mkdir()
    with (
        in_tmux(client_on_terminal(federation, tmp_path, "p1"), columns=80, folder=folders[0]) as narrow,
        in_tmux(watch, columns=200, folder=folders[1]) as wide,
    ):
        federation.start_client("p2")
        at_80, at_200 = narrow.ended(), wide.ended()
    for lines, columns in ((at_80, 80), (at_200, 200)):
        assert lines[-1] == f"exit {ExitCode.DONE}"
        assert_whole(lines, columns=columns)
    assert_ended(at_200)
    view = at_80[next(number for number, line in enumerate(at_80) if line.startswith("p1: ")) :]
    assert len(view) == 6, "title, run, round, bar, its legend, and the exit code"
    assert any(STAMPED.match(line) and "the set-up begins" in line for line in at_80[: -len(view)])


def test_without_a_terminal_there_are_lines_with_times_and_no_control_characters(federation: LocalFederation) -> None:
    with federation:
        command = [*FENCHEL, "runs", "watch", "seen", "--state", str(federation.state)]
        watched = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert watched.returncode == ExitCode.DONE, watched.stderr
        streamed = subprocess.run(
            [*command, "--format", "json"], capture_output=True, text=True, timeout=60, check=True
        )
        federation.wait()
    lines = watched.stdout.splitlines()
    assert all(STAMPED.match(line) for line in lines), watched.stdout
    assert all(line.isprintable() for line in lines)
    assert " (seen) completed: " in lines[-1]
    events = [json.loads(line) for line in streamed.stdout.splitlines()]
    kinds = [event["event"] for event in events]
    assert kinds[0] == "begins"
    assert kinds[-1] == "ended"
    counted = [event for event in events if event["event"] == "round" and not event["closing"]]
    assert len(counted) == events[-1]["outcome"]["rounds"]
