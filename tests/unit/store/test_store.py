"""What every backend of the store promises."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fenchel_common.errors import InvalidInput, RecordConflict, UnknownRun
from fenchel_common.ids import ClientId, RoundId, RunId
from fenchel_server.store import MemoryStore, PartyRecord, RunStatus, Snapshot, SqliteStore, Store, new_run_id
from support.records import RUN, Clock, round_record, running_with_setup, setup_record


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    opened: Store = (
        MemoryStore(clock=Clock()) if request.param == "memory" else SqliteStore.serve(tmp_path, clock=Clock())
    )
    with opened:
        yield opened


def test_a_new_run_is_queued(store: Store) -> None:
    made = store.create_run(RUN, name="trial", config='{"seed": 1}')
    assert made == store.run(RUN)
    assert (made.status, made.reason, made.attempt, made.config) == (RunStatus.QUEUED, "", 0, '{"seed": 1}')
    assert store.setup(RUN) is None
    assert store.snapshot(RUN) is None
    assert store.rounds(RUN) == ()
    assert store.last_round(RUN) is None


def test_runs_are_listed_in_the_order_of_creation(store: Store) -> None:
    for name in ("b", "c", "a"):
        store.create_run(RunId(name), name=name, config="{}")
    assert [record.run for record in store.runs()] == ["b", "c", "a"]


def test_what_a_server_was_working_on_comes_before_the_queue(store: Store) -> None:
    for name in ("a", "b", "c"):
        store.create_run(RunId(name), name=name, config="{}")
    store.begin_attempt(RunId("b"))
    store.request_stop(RunId("c"), reason="not today")
    assert [record.run for record in store.pending()] == ["b", "a"]


def test_a_run_id_is_used_once(store: Store) -> None:
    store.create_run(RUN, name="trial", config="{}")
    with pytest.raises(RecordConflict, match="exists already"):
        store.create_run(RUN, name="again", config="{}")


def test_a_name_is_used_once(store: Store) -> None:
    store.create_run(RUN, name="trial", config="{}")
    with pytest.raises(RecordConflict, match=f"'trial' is on record here already \\({RUN}\\)"):
        store.create_run(RunId("another"), name="trial", config="{}")
    assert [record.run for record in store.runs()] == [RUN]


@pytest.mark.parametrize("run", ["", "../elsewhere", "a/b", "-x", "x" * 65, "a b"])
def test_a_run_id_that_cannot_be_a_file_name_is_refused(store: Store, run: str) -> None:
    with pytest.raises(InvalidInput, match="run id"):
        store.create_run(RunId(run), name="trial", config="{}")


def test_new_run_ids_are_acceptable_and_differ(store: Store) -> None:
    first, second = new_run_id(), new_run_id()
    assert first != second
    store.create_run(first, name="trial", config="{}")


def test_an_unknown_run_is_named(store: Store) -> None:
    for ask in (store.run, store.setup, store.rounds, store.snapshot, store.stop_request, store.begin_attempt):
        with pytest.raises(UnknownRun, match="no run nowhere"):
            ask(RunId("nowhere"))


def test_attempt_numbers_are_never_used_twice(store: Store) -> None:
    store.create_run(RUN, name="trial", config="{}")
    assert [store.begin_attempt(RUN) for _ in range(3)] == [1, 2, 3]
    store.close_run(RUN, RunStatus.STOPPED, reason="enough")
    store.requeue(RUN)
    assert store.begin_attempt(RUN) == 4


def test_a_set_up_is_kept_with_its_key(store: Store) -> None:
    running_with_setup(store)
    assert store.setup(RUN) == setup_record()
    record = store.run(RUN)
    assert (record.key_fingerprint, record.key_bits) == ("ab:cd", 2048)
    assert store.snapshot(RUN) == Snapshot(RoundId(0), b"state 0")


def test_a_round_replaces_the_snapshot(store: Store) -> None:
    running_with_setup(store)
    store.commit_round(RUN, round_record(1, absent=("north", "south")), b"state 1")
    store.commit_round(RUN, round_record(2), b"state 2")
    assert store.rounds(RUN) == (round_record(0), round_record(1, absent=("north", "south")), round_record(2))
    assert store.snapshot(RUN) == Snapshot(RoundId(2), b"state 2")
    assert store.last_round(RUN) == 2


def test_each_commit_adds_its_records_to_those_of_the_run(store: Store) -> None:
    other = RunId("run-0000beef")
    for run in (RUN, other):
        store.create_run(run, name=run, config="{}")
        store.begin_attempt(run)
        store.commit_setup(run, setup_record(), round_record(0), b"state 0", [b"first", b"second"])
    store.commit_round(RUN, round_record(1), b"state 1", [b"third"])
    store.commit_round(RUN, round_record(2), b"state 2", [])
    with pytest.raises(RecordConflict):
        store.commit_round(RUN, round_record(7), b"other", [b"other"])
    assert store.snapshot(RUN) == Snapshot(RoundId(2), b"state 2", (b"first", b"second", b"third"))
    assert store.snapshot(other) == Snapshot(RoundId(0), b"state 0", (b"first", b"second"))


@pytest.mark.parametrize("round_id", [0, 1, 3])
def test_a_round_out_of_order_changes_nothing(store: Store, round_id: int) -> None:
    running_with_setup(store)
    store.commit_round(RUN, round_record(1), b"state 1")
    with pytest.raises(RecordConflict, match="round 2 is next"):
        store.commit_round(RUN, round_record(round_id), b"other")
    assert store.snapshot(RUN) == Snapshot(RoundId(1), b"state 1")
    assert store.rounds(RUN) == (round_record(0), round_record(1))


def test_training_cannot_be_committed_before_the_set_up(store: Store) -> None:
    store.create_run(RUN, name="trial", config="{}")
    store.begin_attempt(RUN)
    with pytest.raises(RecordConflict):
        store.commit_round(RUN, round_record(0), b"state")
    assert store.rounds(RUN) == ()


def test_only_a_running_run_is_committed_to(store: Store) -> None:
    store.create_run(RUN, name="trial", config="{}")
    with pytest.raises(RecordConflict, match="is queued"):
        store.commit_setup(RUN, setup_record(), round_record(0), b"state 0")


def test_stopping_a_queued_run_ends_it_at_once(store: Store) -> None:
    store.create_run(RUN, name="trial", config="{}")
    assert store.request_stop(RUN, reason="not today").status is RunStatus.STOPPED
    assert store.run(RUN).reason == "not today"
    assert store.stop_request(RUN) is None


def test_stopping_a_running_run_leaves_a_request_for_its_server(store: Store) -> None:
    running_with_setup(store)
    assert store.request_stop(RUN, reason="maintenance").status is RunStatus.RUNNING
    assert store.stop_request(RUN) == "maintenance"
    store.close_run(RUN, RunStatus.STOPPED, reason="maintenance")
    assert store.stop_request(RUN) is None


def test_a_stopped_run_is_resumed_with_its_rounds(store: Store) -> None:
    running_with_setup(store)
    store.close_run(RUN, RunStatus.STOPPED, reason="maintenance", outcome="{}")
    assert store.run(RUN).outcome == "{}"
    resumed = store.requeue(RUN)
    assert (resumed.status, resumed.reason, resumed.outcome) == (RunStatus.QUEUED, "", None)
    assert store.last_round(RUN) == 0


@pytest.mark.parametrize("status", [RunStatus.COMPLETED, RunStatus.DIVERGED])
def test_a_run_that_is_over_is_neither_resumed_nor_stopped_nor_worked_on(store: Store, status: RunStatus) -> None:
    running_with_setup(store)
    store.close_run(RUN, status, reason="over")
    with pytest.raises(RecordConflict, match=f"is {status}"):
        store.requeue(RUN)
    with pytest.raises(RecordConflict, match=f"is {status}"):
        store.request_stop(RUN, reason="late")
    with pytest.raises(RecordConflict, match=f"is {status}"):
        store.begin_attempt(RUN)


def test_a_run_cannot_end_as_running(store: Store) -> None:
    running_with_setup(store)
    with pytest.raises(RecordConflict, match="cannot end"):
        store.close_run(RUN, RunStatus.RUNNING, reason="")


def test_every_change_moves_the_time_of_update(store: Store) -> None:
    store.create_run(RUN, name="trial", config="{}")
    before = store.run(RUN).updated
    store.begin_attempt(RUN)
    assert store.run(RUN).updated > before
    assert store.run(RUN).created == before


def test_the_records_of_the_parties_are_those_that_were_noted_last(store: Store) -> None:
    assert store.parties() == ()
    south = PartyRecord(ClientId("south"), connected=False, since=12.5)
    north = PartyRecord(ClientId("north"), True, 13.0, RUN, RoundId(2), "primal")
    store.note_parties([south, north])
    assert store.parties() == (north, south)
    store.note_parties([south])
    assert store.parties() == (south,)
