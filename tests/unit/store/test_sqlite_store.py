"""What only the durable store promises: one server, readers beside it, and nothing lost or mixed by a crash."""

import sqlite3
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from fenchel_common.errors import NoState, RecordConflict, SchemaTooNew, StateDamaged, StateInUse, StoreError
from fenchel_common.ids import RoundId, RunId
from fenchel_server.store import RunStatus, Snapshot, SqliteStore
from fenchel_server.store.schema import SCHEMA_VERSION
from support.records import RUN, round_record, running_with_setup

SNAPSHOT_BYTES = 40 << 20


def snapshot_names(state: Path) -> list[str]:
    return sorted(path.name for path in (state / "snapshots").iterdir())


def test_state_outlives_the_server(tmp_path: Path) -> None:
    with SqliteStore.serve(tmp_path) as store:
        running_with_setup(store)
        store.commit_round(RUN, round_record(1, absent=("north",)), b"state 1")
        before = store.run(RUN)
    with SqliteStore.serve(tmp_path) as store:
        assert store.run(RUN) == before
        assert store.rounds(RUN) == (round_record(0), round_record(1, absent=("north",)))
        assert store.snapshot(RUN) == Snapshot(RoundId(1), b"state 1")


def test_a_second_server_is_turned_away(tmp_path: Path) -> None:
    with SqliteStore.serve(tmp_path), pytest.raises(StateInUse, match="in use by another server"):
        SqliteStore.serve(tmp_path)
    SqliteStore.serve(tmp_path).close()


def test_a_second_server_process_is_turned_away(tmp_path: Path) -> None:
    program = f"import pathlib, fenchel_server.store as s; s.SqliteStore.serve(pathlib.Path({str(tmp_path)!r}))"
    with SqliteStore.serve(tmp_path):
        outcome = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert outcome.returncode != 0
    assert "StateInUse" in outcome.stderr


def test_state_is_for_the_server_user_alone(tmp_path: Path) -> None:
    with SqliteStore.serve(tmp_path / "state"):
        assert (tmp_path / "state").stat().st_mode & 0o077 == 0


def test_readers_read_while_a_server_runs(tmp_path: Path) -> None:
    with SqliteStore.serve(tmp_path) as store, SqliteStore.inspect(tmp_path) as reader:
        running_with_setup(store)
        assert reader.last_round(RUN) == 0
        store.commit_round(RUN, round_record(1), b"state 1")
        assert reader.last_round(RUN) == 1
        assert reader.snapshot(RUN) == Snapshot(RoundId(1), b"state 1")


def test_readers_cannot_write(tmp_path: Path) -> None:
    with SqliteStore.serve(tmp_path) as store, SqliteStore.inspect(tmp_path) as reader:
        running_with_setup(store)
        with pytest.raises(StoreError, match="readonly"):
            reader.request_stop(RUN, reason="no")


def test_an_operator_stops_and_resumes_beside_a_live_server(tmp_path: Path) -> None:
    with SqliteStore.serve(tmp_path) as store, SqliteStore.operate(tmp_path) as operator:
        running_with_setup(store)
        operator.request_stop(RUN, reason="maintenance")
        assert store.stop_request(RUN) == "maintenance"
        store.close_run(RUN, RunStatus.STOPPED, reason="maintenance")
        assert operator.requeue(RUN).status is RunStatus.QUEUED


def test_only_the_server_commits(tmp_path: Path) -> None:
    with SqliteStore.serve(tmp_path) as store, SqliteStore.operate(tmp_path) as operator:
        running_with_setup(store)
        for write in (
            lambda: operator.commit_round(RUN, round_record(1), b"state 1"),
            lambda: operator.begin_attempt(RUN),
            lambda: operator.close_run(RUN, RunStatus.FAILED, reason="no"),
        ):
            with pytest.raises(StoreError, match="only the server"):
                write()


def test_a_directory_without_state_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoState, match="has no state"):
        SqliteStore.inspect(tmp_path / "elsewhere")
    assert list(tmp_path.iterdir()) == []


def test_a_newer_schema_is_refused_with_both_versions(tmp_path: Path) -> None:
    SqliteStore.serve(tmp_path).close()
    connection = sqlite3.connect(tmp_path / "state.db")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    connection.close()
    with pytest.raises(
        SchemaTooNew, match=f"schema {SCHEMA_VERSION + 1} and this Fenchel knows up to {SCHEMA_VERSION}"
    ):
        SqliteStore.serve(tmp_path)
    with pytest.raises(SchemaTooNew):
        SqliteStore.inspect(tmp_path)


def test_an_older_schema_is_brought_up_to_date_by_the_server_alone(tmp_path: Path) -> None:
    with SqliteStore.serve(tmp_path) as store:
        running_with_setup(store)
    connection = sqlite3.connect(tmp_path / "state.db")
    connection.execute("DROP TABLE parties")
    connection.execute("DROP TABLE transcripts")
    connection.execute("ALTER TABLE rounds DROP COLUMN clients")
    connection.execute("ALTER TABLE rounds DROP COLUMN seen")
    connection.execute("ALTER TABLE rounds DROP COLUMN server")
    connection.execute("ALTER TABLE runs DROP COLUMN seen")
    connection.execute("PRAGMA user_version = 1")
    connection.close()
    with pytest.raises(StoreError, match="an older Fenchel; start 'fenchel server'"):
        SqliteStore.inspect(tmp_path)
    with SqliteStore.serve(tmp_path) as store:
        assert store.rounds(RUN) == (replace(round_record(0), clients={}, seen="{}", server={}),)
        assert store.run(RUN).seen == "{}"
        assert (store.run(RUN).status, store.parties()) == (RunStatus.RUNNING, ())
        store.commit_round(RUN, round_record(1), b"state 1", [b"record 0"])
        assert store.rounds(RUN)[1] == round_record(1)
        assert store.snapshot(RUN) == Snapshot(RoundId(1), b"state 1", (b"record 0",))


def test_another_programs_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "state.db")
    connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    before = (tmp_path / "state.db").read_bytes()
    with pytest.raises(StoreError, match="not a database of Fenchel"):
        SqliteStore.serve(tmp_path)
    assert (tmp_path / "state.db").read_bytes() == before


def test_a_file_that_is_no_database_is_reported_as_damage(tmp_path: Path) -> None:
    (tmp_path / "state.db").write_bytes(b"not a database, by any means" * 100)
    with pytest.raises(StateDamaged, match="damaged"):
        SqliteStore.serve(tmp_path)


def test_a_refused_server_leaves_the_directory_free(tmp_path: Path) -> None:
    (tmp_path / "state.db").write_bytes(b"not a database, by any means" * 100)
    with pytest.raises(StateDamaged):
        SqliteStore.serve(tmp_path)
    (tmp_path / "state.db").unlink()
    SqliteStore.serve(tmp_path).close()


def test_only_the_latest_snapshot_of_each_run_is_kept(tmp_path: Path) -> None:
    with SqliteStore.serve(tmp_path) as store:
        running_with_setup(store)
        running_with_setup(store, RunId("other"))
        for round_id in (1, 2, 3):
            store.commit_round(RUN, round_record(round_id), b"state")
        assert snapshot_names(tmp_path) == ["other.0.snap", "run-1.3.snap"]


def test_a_snapshot_that_no_transaction_names_is_swept_away(tmp_path: Path) -> None:
    with SqliteStore.serve(tmp_path) as store:
        running_with_setup(store)
    (tmp_path / "snapshots" / "run-1.1.snap").write_bytes(b"half a sta")
    with SqliteStore.serve(tmp_path) as store:
        assert snapshot_names(tmp_path) == ["run-1.0.snap"]
        assert store.snapshot(RUN) == Snapshot(RoundId(0), b"state 0")


@pytest.mark.parametrize("content", [b"state 1", b"state 0 and more", b""])
def test_an_altered_snapshot_is_never_returned(tmp_path: Path, content: bytes) -> None:
    with SqliteStore.serve(tmp_path) as store:
        running_with_setup(store)
        (tmp_path / "snapshots" / "run-1.0.snap").write_bytes(content)
        with pytest.raises(StateDamaged, match="not what was written"):
            store.snapshot(RUN)


def test_a_lost_snapshot_is_reported(tmp_path: Path) -> None:
    with SqliteStore.serve(tmp_path) as store:
        running_with_setup(store)
        (tmp_path / "snapshots" / "run-1.0.snap").unlink()
        with pytest.raises(StateDamaged, match="missing"):
            store.snapshot(RUN)


def test_a_commit_that_cannot_write_its_snapshot_changes_nothing(tmp_path: Path) -> None:
    with SqliteStore.serve(tmp_path) as store:
        running_with_setup(store)
        (tmp_path / "snapshots" / "run-1.1.snap").mkdir()
        with pytest.raises(StoreError, match="cannot write the snapshot"):
            store.commit_round(RUN, round_record(1), b"state 1")
        assert store.rounds(RUN) == (round_record(0),)
        assert store.snapshot(RUN) == Snapshot(RoundId(0), b"state 0")
        (tmp_path / "snapshots" / "run-1.1.snap").rmdir()
        store.commit_round(RUN, round_record(1), b"state 1")


def test_a_snapshot_of_tens_of_megabytes_keeps_the_database_small(tmp_path: Path) -> None:
    with SqliteStore.serve(tmp_path) as store:
        running_with_setup(store)
        for round_id in (1, 2):
            store.commit_round(RUN, round_record(round_id), bytes([round_id]) * SNAPSHOT_BYTES)
        snapshot = store.snapshot(RUN)
    assert snapshot is not None
    assert snapshot.state == b"\x02" * SNAPSHOT_BYTES
    beside = sum(path.stat().st_size for path in tmp_path.glob("state.db*"))
    assert beside < 1 << 20


def test_threads_share_one_store(tmp_path: Path) -> None:
    with SqliteStore.serve(tmp_path) as store:
        store.create_run(RUN, name="trial", config="{}")
        numbers: list[int] = []
        threads = [
            threading.Thread(target=lambda: numbers.extend(store.begin_attempt(RUN) for _ in range(5)))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(numbers) == list(range(1, 21))


def test_durability_settings_hold_for_the_servers_connection(tmp_path: Path) -> None:
    with SqliteStore.serve(tmp_path) as store:
        pragma = {
            name: store._connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous", "foreign_keys")
        }
    assert pragma == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}


def test_a_closed_store_refuses_and_closing_again_is_harmless(tmp_path: Path) -> None:
    store = SqliteStore.serve(tmp_path)
    store.close()
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.runs()


def test_a_conflict_leaves_no_transaction_open(tmp_path: Path) -> None:
    with SqliteStore.serve(tmp_path) as store, SqliteStore.operate(tmp_path) as operator:
        running_with_setup(store)
        with pytest.raises(RecordConflict):
            store.commit_round(RUN, round_record(7), b"state 7")
        operator.request_stop(RUN, reason="at once")
