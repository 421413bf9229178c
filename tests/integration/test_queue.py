"""Several runs in the queue of one server, by real processes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from fenchel_common.runconfig import RunConfig
from fenchel_deploy.cli.exits import ExitCode
from fenchel_deploy.local import LocalFederation
from fenchel_server.app import IDLE_LOOK_S
from support.commands import Ended, run_fenchel
from support.tables import named_shards, small_dataset

PLAIN = {
    "settings": {"lambda": 0.5},
    "privacy": "plain",
    "benchmark": True,
    "alignment": "hmac",
    "key": {"bits": 2048},
    "stop": {"gap": 0.1},
}
RELEASED: dict[str, Any] = {
    "privacy": "sealed",
    "benchmark": False,
    "round": {"quorum": 1.0},
    "stop": {"gap": 1e-3},
    "release": {"epsilon": 1.0, "delta": 1e-5, "row_bound": 1.0},
}


def run_file(directory: Path, name: str, **changes: Any) -> Path:
    path = directory / f"{name}.toml"
    path.write_text(tomli_w.dumps({"name": name, **PLAIN, **changes}))
    return path


def runs(verb: str, *words: object, state: Path) -> Ended:
    return run_fenchel("runs", verb, *map(str, words), "--state", state)


def listed(state: Path) -> list[tuple[str, str, str]]:
    found = json.loads(runs("list", "--format", "json", state=state).stdout)
    return [(run["name"], run["status"], run["reason"]) for run in found]


def until_ended(events: Iterator[dict[str, Any]], name: str) -> list[tuple[str, str]]:
    """The names of the runs that begin and end, until the run of that name has ended."""
    seen = []
    for event in events:
        if event["event"] in ("begins", "ended"):
            seen.append((event["event"], event["name"]))
        if seen[-1:] == [("ended", name)]:
            break
    return seen


def kill_server(federation: LocalFederation) -> None:
    assert federation.server is not None
    assert federation.server.stdout is not None
    federation.server.kill()
    federation.server.wait()
    federation.server.stdout.close()


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[LocalFederation]:
    """A server that stays, with the runs `first` and `second`; the test starts the processes."""
    made = LocalFederation(
        tmp_path,
        named_shards(small_dataset(40), grid=(1, 2)),
        RunConfig.from_mapping({"name": "first", **PLAIN}),
        server_options=["--run", str(run_file(tmp_path, "second")), "--stay"],
    )
    try:
        yield made
    finally:
        made.__exit__(None, None, None)


def test_runs_are_taken_in_order_and_the_queue_survives_a_killed_server(
    federation: LocalFederation, tmp_path: Path
) -> None:
    federation.start_server()
    state = federation.state
    for name in ("third", "fourth"):
        assert runs("submit", run_file(tmp_path, name), state=state).exit_code == ExitCode.DONE
    noisy = run_file(tmp_path, "noisy", **RELEASED)
    assert "number 4 in the queue" in runs("submit", noisy, state=state).stdout
    again = runs("submit", run_file(tmp_path, "third", seed=1), state=state)
    assert (again.exit_code, again.stdout) == (ExitCode.CONFLICT, "")
    assert "run 'third' is on record here already" in again.stderr
    wrong = runs("submit", run_file(tmp_path, "wrong", stop={"gapp": 1.0}), state=state)
    assert wrong.exit_code == ExitCode.REFUSED
    assert "did you mean gap?" in wrong.stderr
    assert runs("stop", "fourth", state=state).exit_code == ExitCode.DONE
    assert listed(state)[1:] == [
        ("second", "queued", "number 1 in the queue"),
        ("third", "queued", "number 2 in the queue"),
        ("fourth", "stopped", "stopped by the operator"),
        ("noisy", "queued", "number 3 in the queue"),
    ]
    kill_server(federation)
    assert "no server works on it now" in listed(state)[1][2]
    federation.start_server()
    for name in ("p1", "p2"):
        federation.start_client(name)
    events = federation.events()
    assert until_ended(events, "noisy") == [
        (event, name) for name in ("first", "second", "third", "noisy") for event in ("begins", "ended")
    ]
    assert runs("submit", run_file(tmp_path, "fifth"), state=state).exit_code == ExitCode.DONE
    assert until_ended(events, "fifth") == [("begins", "fifth"), ("ended", "fifth")]
    assert [status for _, status, _ in listed(state)] == [
        *("completed", "completed", "completed", "stopped", "failed", "completed")
    ]
    assert "the roster keeps the model from the server" in listed(state)[4][2]
    assert IDLE_LOOK_S < 1.0


def test_a_state_folder_that_no_server_has_made_is_refused(tmp_path: Path) -> None:
    submitted = runs("submit", run_file(tmp_path, "first"), state=tmp_path / "nowhere")
    assert submitted.exit_code == ExitCode.STATE
    assert "has no state of a server" in submitted.stderr


def test_two_runs_of_one_name_are_refused_before_either_is_queued(tmp_path: Path, federation: LocalFederation) -> None:
    federation.start_server()
    kill_server(federation)
    other = run_file(tmp_path, "other")
    words = ["server", "--kit", tmp_path / "kits" / "server", "--state", federation.state, "--listen", "localhost:0"]
    refused = run_fenchel(*words, "--run", other, "--run", other)
    assert refused.exit_code == ExitCode.CONFLICT
    assert "two of the runs have the same name" in refused.stderr
    assert [name for name, _, _ in listed(federation.state)] == ["first", "second"]
