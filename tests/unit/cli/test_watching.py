"""A run as its state folder shows it to whoever follows it."""

from itertools import islice
from pathlib import Path

import pytest

from fenchel_common.ids import ClientId
from fenchel_deploy.watching import run_events
from fenchel_server.store import PartyRecord, RunStatus, SqliteStore
from support.records import RUN, round_record, running_with_setup


@pytest.fixture
def store(tmp_path: Path) -> SqliteStore:
    """A running run with one committed round."""
    opened = SqliteStore.serve(tmp_path)
    running_with_setup(opened)
    opened.commit_round(RUN, round_record(1), b"state 1")
    return opened


def test_a_run_is_followed_from_its_first_round_to_its_end(store: SqliteStore, tmp_path: Path) -> None:
    with store:
        store.note_parties([PartyRecord(ClientId("north"), connected=False, since=1.0, reason="it left")])
        events = run_events(tmp_path, "trial")
        first = [next(events) for _ in range(5)]
        assert [event["event"] for event in first] == ["begins", "ready", "round", "status", "parties"]
        assert first[3] == {"event": "status", "run": RUN, "status": "running", "reason": ""}
        assert first[4]["parties"] == [
            {"party": "north", "connected": False, "since": 1.0, "reason": "it left", "owes": None}
        ]
        store.commit_round(RUN, round_record(2), b"state 2")
        store.close_run(RUN, RunStatus.STOPPED, reason="enough")
        assert [(event["event"], event.get("round"), event.get("status")) for event in events] == [
            ("round", 2, None),
            ("ended", None, "stopped"),
        ]


def test_a_run_whose_server_has_gone_is_interrupted(store: SqliteStore, tmp_path: Path) -> None:
    store.close()
    *_, last = islice(run_events(tmp_path, RUN), 4)
    assert (last["event"], last["status"]) == ("status", "interrupted")
    assert str(last["reason"]).startswith("no server works on it now")
