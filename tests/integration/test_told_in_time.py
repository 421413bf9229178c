"""Operators are told what happens, by real processes and in time."""

import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fenchel_common.model import read_model
from fenchel_common.runconfig import RunConfig
from fenchel_deploy.cli.exits import ExitCode
from fenchel_deploy.folders import kit_folder, shard_file
from fenchel_deploy.local import LocalFederation
from fenchel_deploy.times import clock_time
from support.kits import make_federation
from support.tables import named_shards, small_dataset

CONFIG = RunConfig.from_mapping({"name": "told", "key": {"bits": 2048}, "settings": {"lambda": 0.5}})
ANSWER_S = 3.0
TRIES = 3


def fenchel(*words: object) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "fenchel_deploy", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def runs(federation: LocalFederation) -> list[dict[str, Any]]:
    listed = fenchel("runs", "list", "--state", federation.state, "--format", "json")
    assert listed.returncode == 0, listed.stderr
    found: list[dict[str, Any]] = json.loads(listed.stdout)
    return found


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[LocalFederation]:
    """Two parties; the test starts the processes."""
    made = LocalFederation(tmp_path, named_shards(small_dataset(40), grid=(1, 2)), CONFIG)
    try:
        yield made
    finally:
        made.__exit__(None, None, None)


def test_a_server_command_that_is_refused_leaves_no_queued_run(federation: LocalFederation, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        refused = fenchel(
            *("server", "--kit", kit_folder(tmp_path, "server"), "--state", federation.state),
            *("--run", tmp_path / "run.toml", "--listen", f"127.0.0.1:{taken.getsockname()[1]}"),
        )
    assert refused.returncode == ExitCode.REFUSED, refused.stderr
    assert runs(federation) == []


def test_options_are_checked_before_anything_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kits = make_federation(tmp_path / "federation", ("north", "south"))
    run, scratch = tmp_path / "run.toml", tmp_path / "scratch"
    run.write_text('name = "wrong"\nstop = { gap = -1.0 }\n')
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    for words in (
        ["demo", "--grid", "2x"],
        ["demo", "--lambda", "-1"],
        ["demo", "--cipher", "rot13"],
        ["server", "--kit", kits["server"], "--state", scratch / "state", "--run", run],
        ["client", "--kit", kits["north"], "--data", tmp_path / "none.csv", "--state", scratch / "north"],
        ["client", "--kit", kits["north"], "--data", run, "--state", scratch / "north", "--server", "nowhere:x"],
    ):
        refused = fenchel(*words)
        assert refused.returncode == ExitCode.REFUSED, words
        assert refused.stdout == "", words
        (line,) = refused.stderr.splitlines()
        assert line.startswith("error: "), words
        assert list(scratch.iterdir()) == [], words


def test_a_run_whose_server_is_dead_is_not_shown_as_running(federation: LocalFederation) -> None:
    federation.start_server()
    next(event for event in federation.events() if event["event"] == "waiting")
    assert [run["status"] for run in runs(federation)] == ["running"]
    assert federation.server is not None
    federation.server.kill()
    federation.server.wait()
    assert [run["status"] for run in runs(federation)] == ["interrupted"]


def waiting(events: Iterator[dict[str, Any]], *parties: str) -> dict[str, Any]:
    """The next event that says that the run waits for exactly these parties."""
    return next(event for event in events if event["event"] == "waiting" and event["for"] == list(parties))


def test_who_is_missing_and_since_when_is_told_as_it_changes_and_a_killed_party_is_logged(
    federation: LocalFederation,
) -> None:
    federation.start_server()
    events = federation.events()
    started = waiting(events, "p1", "p2")["since"]["p2"]
    federation.start_client("p1")
    assert waiting(events, "p2")["since"] == {"p2": started}
    federation.clients["p1"].kill()
    left = waiting(events, "p1", "p2")["since"]
    assert left["p2"] == started < left["p1"]
    assert "p1 has left: its connection ended" in federation.log("server")


def test_every_view_of_a_run_under_way_says_who_is_missing_and_since_when(
    federation: LocalFederation, tmp_path: Path
) -> None:
    federation.start_server()
    events = federation.events()
    federation.start_client("p1")
    waiting(events, "p2")
    federation.clients["p1"].kill()
    waiting(events, "p1", "p2")
    asked = fenchel("health", "--kit", kit_folder(tmp_path, "p1"), "--server", f"localhost:{federation.port}")
    assert asked.stdout.startswith("alive, but no round can run now; not connected: p1 (since 20")
    (run,) = runs(federation)
    while {party["party"]: party["connected"] for party in run["parties"]} != {"p1": False, "p2": False}:
        (run,) = runs(federation)
    assert run["reason"].startswith("not connected: p1 (since 20")
    shown = fenchel("runs", "show", "told", "--state", federation.state).stdout
    assert "not connected: p1 (since 20" in shown


def test_everybody_is_told_for_whom_a_round_waits_that_is_under_way(
    federation: LocalFederation, tmp_path: Path
) -> None:
    federation.start_server()
    events = federation.events()
    for party in ("p1", "p2"):
        federation.start_client(party)
    next(event for event in events if event["event"] == "ready")
    federation.clients["p2"].kill()
    told = waiting(events, "p2")["since"]["p2"]
    asked = fenchel("health", "--kit", kit_folder(tmp_path, "p1"), "--server", f"localhost:{federation.port}")
    since = clock_time(int(told))
    assert asked.stdout == f"serving; not connected: p2 (since {since})\n"
    while "waiting for p2" not in federation.log("p1"):
        (run,) = runs(federation)
        assert run["status"] == "running"
        assert run["reason"].startswith("not connected: p2 (since 20")
    assert f"waiting for p2 (not connected since {since})" in federation.log("p1")
    federation.start_client("p2")
    assert next(event for event in events if event["event"] == "ended")["status"] == "completed"
    assert set(federation.wait().values()) == {ExitCode.DONE}


def test_a_sealed_run_that_is_stopped_before_its_key_is_made_is_not_called_plaintext(
    federation: LocalFederation, tmp_path: Path
) -> None:
    kit, state, run_file = kit_folder(tmp_path, "server"), federation.state, tmp_path / "run.toml"
    words = ["server", "--kit", kit, "--state", state, "--run", run_file, "--listen", "localhost:0", "--farewell", "0"]
    with subprocess.Popen(
        [sys.executable, "-m", "fenchel_deploy", *map(str, words)], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        try:
            assert any("waiting for" in line for line in server.stdout)
            assert fenchel("runs", "stop", "told", "--state", state).returncode == ExitCode.DONE
            rest = server.stdout.read()
            assert server.wait() == ExitCode.MISSED
        finally:
            server.send_signal(signal.SIGKILL)
    shown = rest + fenchel("runs", "show", "told", "--state", state).stdout
    assert "no key yet: the set-up is not over" in shown
    assert "PLAINTEXT" not in shown


@pytest.mark.alone
@pytest.mark.parametrize("verb", ["ping", "health"])
def test_a_server_that_is_dead_silent_or_stopped_is_reported_within_3_seconds(
    federation: LocalFederation, tmp_path: Path, verb: str
) -> None:
    kit = kit_folder(tmp_path, "p1")
    federation.start_server()
    assert federation.server is not None
    federation.server.send_signal(signal.SIGSTOP)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        ports = {9: "nobody listens there"} | dict.fromkeys(
            (silent.getsockname()[1], federation.port), "no answer in time"
        )
        for port, reason in ports.items():
            assert any(told_s(verb, kit, port, reason) < ANSWER_S for _ in range(TRIES))


def told_s(verb: str, kit: Path, port: int, reason: str) -> float:
    """How long a command takes to say why the server cannot be reached."""
    began = time.monotonic()
    asked = fenchel(verb, "--kit", kit, "--server", f"127.0.0.1:{port}")
    took_s = time.monotonic() - began
    assert asked.returncode == ExitCode.MISSED
    assert asked.stderr.startswith(f"the server at 127.0.0.1:{port} cannot be reached: {reason} (")
    return took_s


def test_a_kit_of_another_federation_ends_the_client_after_a_few_tries_in_plain_words(
    federation: LocalFederation, tmp_path: Path
) -> None:
    federation.start_server()
    stranger = make_federation(tmp_path / "other", ("p1", "p2"))["p2"]
    words = ["client", "--kit", stranger, "--data", shard_file(tmp_path, "p2"), "--state", tmp_path / "private"]
    words += ["--server", f"localhost:{federation.port}"]
    ended = fenchel(*words)
    assert ended.returncode == ExitCode.IDENTITY
    assert "error: the certificate of the server at this address is not from this kit's authority" in ended.stderr
    raw = ("SSL", "OPENSSL", "UNAVAILABLE", "ssl_transport_security")
    assert not any(word in ended.stderr for word in raw)
    assert not any(word in federation.log("server") for word in raw)
    assert any(word in fenchel(*words, "--verbose").stderr for word in raw)
    while "callers that did not prove that they belong to this federation" not in federation.log("server"):
        assert runs(federation)[0]["status"] == "running"


def test_an_expired_kit_ends_the_client_at_once_in_plain_words(federation: LocalFederation, tmp_path: Path) -> None:
    expired = make_federation(tmp_path / "old", ("p1", "p2"), now=datetime.now(UTC) - timedelta(days=365))["p2"]
    words = ["--kit", expired, "--data", shard_file(tmp_path, "p2"), "--state", tmp_path / "private"]
    ended = fenchel("client", *words)
    assert ended.returncode == ExitCode.IDENTITY
    assert re.match(r"error: the certificate of 'p2' expired on \d{4}-", ended.stderr), ended.stderr
    assert not (tmp_path / "private").exists()


def test_a_client_says_which_round_it_is_in_for_whom_it_waits_and_where_its_model_is(
    federation: LocalFederation, tmp_path: Path
) -> None:
    federation.start_server()
    federation.start_client("p1")
    events = federation.events()
    waiting(events, "p2")
    waiting(events, "p2")  # the server says it again after 30 seconds, and by then the client has asked
    assert "waiting for p2 (not connected since 20" in federation.log("p1")
    federation.start_client("p2")
    (run,) = {event["run"] for event in events if event["event"] == "ended"}
    assert set(federation.wait().values()) == {ExitCode.DONE}
    log = federation.log("p1")
    assert f"run {run}: the set-up begins" in log
    model = tmp_path / "clients" / "p1" / f"{run}.model"
    assert f"run {run} is over; this party's part of the model is in {model}" in log
    assert read_model(model).record.run == run
