"""The end of a server process: its results, its farewell, and a start when all is over already."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fenchel_common.identity import Address, Kit
from fenchel_common.runconfig import RunConfig
from fenchel_deploy.cli.exits import ExitCode
from fenchel_deploy.local import LocalFederation
from fenchel_server.app import serve
from fenchel_server.store import RunStatus, SqliteStore, new_run_id
from fenchel_server.transport import listen
from support.commands import run_fenchel
from support.kits import make_federation
from support.tables import named_shards, small_dataset

EXHAUSTED = {"server": ExitCode.EXHAUSTED, "p1": ExitCode.DONE, "p2": ExitCode.DONE}
"""How the processes end: the gap that is asked for is out of reach in these few rounds."""


def federation(directory: Path, *options: str, **changes: Any) -> LocalFederation:
    values: dict[str, Any] = {
        "name": "short",
        "settings": {"loss": "hinge", "lambda": 0.05, "local": "paper", "certificate_every": 3},
        "privacy": "plain",
        "benchmark": True,
        "alignment": "hmac",
        "stop": {"gap": 1e-9, "rounds": 4},
    }
    return LocalFederation(
        directory,
        named_shards(small_dataset(rows=40), grid=(1, 2)),
        RunConfig.from_mapping(values | changes),
        server_options=["--results", str(directory / "results"), *options],
    )


def named(events: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [event for event in events if event["event"] == name]


def test_a_server_leaves_the_results_and_tells_them_again_when_it_is_started_on_a_run_that_is_over(
    tmp_path: Path,
) -> None:
    with federation(tmp_path) as first:
        (ended,) = named(list(first.events()), "ended")
        assert first.wait() == EXHAUSTED
    assert ended["reason"].startswith("all 4 rounds are done, but the duality gap is")
    (path,) = (tmp_path / "results").iterdir()
    assert path.name == f"{ended['run']}.json"
    result = json.loads(path.read_text())
    assert (result["name"], result["status"], result["clients"]) == ("short", "exhausted", 2)
    assert (result["privacy"], result["key_bits"]) == ("plain", None)
    assert result["primal"] - result["dual"] == pytest.approx(result["gap"])
    assert {name: result[name] for name in ("primal", "gap")} == {
        name: ended["outcome"]["certificate"][name] for name in ("primal", "gap")
    }
    assert result["seconds"]["total"] > 0
    (listed,) = json.loads(run_fenchel("runs", "list", "--state", first.state, "--format", "json").stdout)
    assert (listed["status"], listed["rounds"]) == ("exhausted", 4), "the closing round does not count for the limit"
    path.unlink()
    with federation(tmp_path, "--supervised") as again:
        events = list(again.events())
        codes = again.wait()
    assert set(codes.values()) == {ExitCode.DONE}, "a supervisor has no reason to start it again"
    assert named(events, "ended") == [ended]
    assert not named(events, "round")
    assert json.loads(path.read_text()) == result


def test_a_server_without_work_stays_until_every_party_has_been_dismissed(tmp_path: Path) -> None:
    with federation(tmp_path) as first:
        list(first.events())
        first.wait()
    late = federation(tmp_path)
    try:
        late.start_server()
        events = late.events()
        leaving = next(event for event in events if event["event"] == "leaving")
        assert leaving["for"] == ["p1", "p2"]
        late.start_client("p1")
        late.start_client("p2")
        assert not list(events)
        assert late.wait() == EXHAUSTED
    finally:
        late.__exit__(None, None, None)


def test_a_run_that_diverged_is_no_success_when_the_server_is_started_again(tmp_path: Path) -> None:
    config = RunConfig.from_mapping({"name": "wild"})
    with SqliteStore.serve(tmp_path / "state") as store:
        run = store.create_run(new_run_id(), name=config.name, config=config.to_json()).run
        store.begin_attempt(run)
        store.close_run(run, RunStatus.DIVERGED, reason="the gap grows")
    events: list[Mapping[str, object]] = []
    ended = serve(
        Kit.load(make_federation(tmp_path / "kits")["server"]),
        tmp_path / "state",
        configs=[config],
        address=Address("localhost", 0),
        listen=listen,
        stay=False,
        announce=events.append,
        farewell_s=0.05,
    )
    assert ended == {RunStatus.DIVERGED}
    assert [event["event"] for event in events] == ["listening", "ended", "leaving"]
    assert (events[1]["status"], events[2]["for"]) == ("diverged", ["north", "south"])
