"""The durable store: SQLite in WAL mode, with the latest snapshot of each run in a file beside it."""

import json
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from fenchel_common.errors import StateDamaged, StoreError, UnknownRun
from fenchel_common.ids import ClientId, RoundId, RunId, check_run_id
from fenchel_server.store.base import (
    RESUMABLE,
    UNENDED,
    AbsenceRecord,
    Clock,
    PartyRecord,
    RoundRecord,
    RunRecord,
    RunStatus,
    SetupRecord,
    Snapshot,
    Store,
    check_commit,
    check_ending,
    check_new,
    check_status,
)
from fenchel_server.store.partytable import read_parties, replace_parties
from fenchel_server.store.rows import ROUND_COLUMNS, RUN_COLUMNS, round_record, run_record
from fenchel_server.store.schema import connect, create_database
from fenchel_server.store.statedir import (
    DATABASE_NAME,
    SnapshotFile,
    StateLock,
    make_state_directory,
    read_snapshot,
    remove_snapshot,
    sweep_snapshots,
    write_snapshot,
)
from fenchel_server.store.transcripts import add_to_transcript, read_transcript

SNAPSHOT_READS = 3
"""How often a reader tries: a live server may replace a snapshot between looking up its name and reading it."""


class SqliteStore(Store):
    """A store in a state directory, which outlives its process.

    `serve` opens it for the one server of the state directory. `inspect` opens it for reading, `operate` also for
    queueing a run and requesting a stop; both are safe while a server uses the directory.
    """

    def __init__(
        self, directory: Path, connection: sqlite3.Connection, *, lock: StateLock | None, clock: Clock
    ) -> None:
        self._directory = directory
        self._connection = connection
        self._server_lock = lock
        self._clock = clock
        self._threads = threading.RLock()
        self._closed = False

    @classmethod
    def serve(cls, directory: Path, *, clock: Clock = time.time) -> Self:
        """Opens the state directory as its only server, and makes it if it does not exist.

        Raises `StateInUse` if another server uses it.
        """
        make_state_directory(directory)
        lock = StateLock(directory)
        try:
            with _mapped_errors():
                create_database(directory / DATABASE_NAME)
            store = cls._open(directory, read_only=False, lock=lock, clock=clock)
        except BaseException:
            lock.release()
            raise
        with store._reading() as connection:
            named = [name for (name,) in connection.execute("SELECT file FROM snapshots")]
        sweep_snapshots(directory, keep=named)
        return store

    @classmethod
    def inspect(cls, directory: Path) -> Self:
        """Opens an existing state directory for reading."""
        return cls._open(directory, read_only=True, lock=None, clock=time.time)

    @classmethod
    def operate(cls, directory: Path, *, clock: Clock = time.time) -> Self:
        """Opens an existing state directory to queue a run or to request a stop."""
        return cls._open(directory, read_only=False, lock=None, clock=clock)

    @classmethod
    def _open(cls, directory: Path, *, read_only: bool, lock: StateLock | None, clock: Clock) -> Self:
        with _mapped_errors():
            connection = connect(directory / DATABASE_NAME, read_only=read_only)
        return cls(directory, connection, lock=lock, clock=clock)

    def create_run(self, run: RunId, *, name: str, config: str) -> RunRecord:
        check_run_id(run)
        with self._writing() as connection:
            check_new(run, name, connection.execute("SELECT run, name FROM runs").fetchall())
            now = self._clock()
            connection.execute(
                "INSERT INTO runs (run, name, config, status, reason, created, updated) VALUES (?, ?, ?, ?, '', ?, ?)",
                (run, name, config, RunStatus.QUEUED, now, now),
            )
            return _run(connection, run)

    def run(self, run: RunId) -> RunRecord:
        with self._reading() as connection:
            return _run(connection, run)

    def runs(self) -> tuple[RunRecord, ...]:
        with self._reading() as connection:
            rows = connection.execute(f"SELECT {RUN_COLUMNS} FROM runs ORDER BY position")  # noqa: S608 a constant
            return tuple(run_record(row) for row in rows)

    def begin_attempt(self, run: RunId) -> int:
        with self._writing(server=True) as connection:
            record = _run(connection, run)
            check_status(record, UNENDED, action="worked on")
            attempt = record.attempt + 1
            connection.execute(
                "UPDATE runs SET status = ?, reason = '', attempt = ?, updated = ? WHERE run = ?",
                (RunStatus.RUNNING, attempt, self._clock(), run),
            )
            return attempt

    def commit_setup(
        self, run: RunId, setup: SetupRecord, record: RoundRecord, snapshot: bytes, transcript: Sequence[bytes] = ()
    ) -> None:
        with self._writing(server=True) as connection:
            check_commit(_run(connection, run), record, last=_last_round(connection, run), setup=True)
            connection.execute(
                "UPDATE runs SET key_fingerprint = ?, key_bits = ? WHERE run = ?",
                (setup.key_fingerprint, setup.key_bits, run),
            )
            connection.execute("INSERT INTO setups VALUES (?, ?, ?)", (run, setup.public_key, setup.layout))
            self._insert_round(connection, run, record, snapshot, transcript)

    def commit_round(self, run: RunId, record: RoundRecord, snapshot: bytes, transcript: Sequence[bytes] = ()) -> None:
        with self._writing(server=True) as connection:
            check_commit(_run(connection, run), record, last=_last_round(connection, run), setup=False)
            replaced = _snapshot_file(connection, run)
            self._insert_round(connection, run, record, snapshot, transcript)
        if replaced is not None:
            remove_snapshot(self._directory, replaced[1].name)

    def setup(self, run: RunId) -> SetupRecord | None:
        with self._reading() as connection:
            record = _run(connection, run)
            row = connection.execute("SELECT public_key, layout FROM setups WHERE run = ?", (run,)).fetchone()
        return row and SetupRecord(row[0], row[1], record.key_fingerprint, record.key_bits)

    def rounds(self, run: RunId) -> tuple[RoundRecord, ...]:
        with self._reading() as connection:
            _run(connection, run)
            absences: dict[int, list[AbsenceRecord]] = {}
            for round_id, client, phase, reason in connection.execute(
                "SELECT round_id, client, phase, reason FROM absences WHERE run = ? ORDER BY round_id, position", (run,)
            ):
                absences.setdefault(round_id, []).append(AbsenceRecord(ClientId(client), phase, reason))
            rows = connection.execute(
                f"SELECT {ROUND_COLUMNS} FROM rounds WHERE run = ? ORDER BY round_id",  # noqa: S608 a constant
                (run,),
            )
            return tuple(round_record(row, absences.get(row[0], [])) for row in rows)

    def last_round(self, run: RunId) -> RoundId | None:
        with self._reading() as connection:
            _run(connection, run)
            return _last_round(connection, run)

    def snapshot(self, run: RunId) -> Snapshot | None:
        for _ in range(SNAPSHOT_READS):
            with self._reading() as connection:
                _run(connection, run)
                found, transcript = _snapshot_file(connection, run), read_transcript(connection, run)
            if found is None:
                return None
            try:
                return Snapshot(found[0], read_snapshot(self._directory, found[1]), transcript)
            except FileNotFoundError:
                continue
        raise StateDamaged(f"the snapshot of run {run} is missing; restore the state directory from a backup")

    def request_stop(self, run: RunId, *, reason: str) -> RunRecord:
        with self._writing() as connection:
            record = _run(connection, run)
            check_status(record, UNENDED, action="stopped")
            change = "status = 'stopped', reason = ?" if record.status is RunStatus.QUEUED else "stop_request = ?"
            connection.execute(
                f"UPDATE runs SET {change}, updated = ? WHERE run = ?",  # noqa: S608 one of two constants
                (reason, self._clock(), run),
            )
            return _run(connection, run)

    def stop_request(self, run: RunId) -> str | None:
        with self._reading() as connection:
            row = connection.execute("SELECT stop_request FROM runs WHERE run = ?", (run,)).fetchone()
        if row is None:
            raise _unknown(run)
        return None if row[0] is None else str(row[0])

    def close_run(
        self, run: RunId, status: RunStatus, *, reason: str, outcome: str | None = None, seen: str = "{}"
    ) -> None:
        check_ending(status)
        with self._writing(server=True) as connection:
            check_status(_run(connection, run), {RunStatus.RUNNING}, action="ended")
            connection.execute(
                "UPDATE runs SET status = ?, reason = ?, outcome = ?, seen = ?, stop_request = NULL, updated = ? "
                "WHERE run = ?",
                (status, reason, outcome, seen, self._clock(), run),
            )

    def requeue(self, run: RunId) -> RunRecord:
        with self._writing() as connection:
            check_status(_run(connection, run), RESUMABLE, action="resumed")
            connection.execute(
                "UPDATE runs SET status = ?, reason = '', outcome = NULL, updated = ? WHERE run = ?",
                (RunStatus.QUEUED, self._clock(), run),
            )
            return _run(connection, run)

    def note_parties(self, parties: Sequence[PartyRecord]) -> None:
        with self._writing(server=True) as connection:
            replace_parties(connection, parties)

    def parties(self) -> tuple[PartyRecord, ...]:
        with self._reading() as connection:
            return read_parties(connection)

    def close(self) -> None:
        with self._threads:
            if not self._closed:
                self._closed = True
                self._connection.close()
                if self._server_lock is not None:
                    self._server_lock.release()

    def _insert_round(
        self,
        connection: sqlite3.Connection,
        run: RunId,
        record: RoundRecord,
        snapshot: bytes,
        transcript: Sequence[bytes],
    ) -> None:
        seconds = json.dumps(dict(record.seconds))
        ending = (None, None) if record.ending is None else (record.ending.status, record.ending.reason)
        clients = json.dumps({client: dict(costs) for client, costs in record.clients.items()})
        server = json.dumps(dict(record.server))
        costs = (record.bytes_up, record.bytes_down, seconds)
        connection.execute(
            "INSERT INTO rounds VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (run, record.round_id, record.metrics, *costs, *ending, clients, record.seen, server),
        )
        connection.executemany(
            "INSERT INTO absences VALUES (?, ?, ?, ?, ?, ?)",
            [
                (run, record.round_id, position, absence.client, absence.phase, absence.reason)
                for position, absence in enumerate(record.absences)
            ],
        )
        add_to_transcript(connection, run, transcript)
        file = write_snapshot(self._directory, run, record.round_id, snapshot)
        connection.execute(
            "INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?, ?)",
            (run, record.round_id, file.name, file.size, file.digest),
        )
        connection.execute("UPDATE runs SET updated = ? WHERE run = ?", (self._clock(), run))

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._transaction("BEGIN") as connection:
            yield connection

    @contextmanager
    def _writing(self, *, server: bool = False) -> Iterator[sqlite3.Connection]:
        if server and self._server_lock is None:
            raise StoreError("only the server that uses the state directory may do this")
        with self._transaction("BEGIN IMMEDIATE") as connection:
            yield connection

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        with self._threads, _mapped_errors():
            self._connection.execute(begin)
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise


@contextmanager
def _mapped_errors() -> Iterator[None]:
    try:
        yield
    except (sqlite3.OperationalError, sqlite3.ProgrammingError) as error:
        raise StoreError(f"the state database cannot be used: {error}") from error
    except sqlite3.DatabaseError as error:
        raise StateDamaged(f"the state database is damaged ({error}); restore it from a backup") from error


def _run(connection: sqlite3.Connection, run: RunId) -> RunRecord:
    row = connection.execute(f"SELECT {RUN_COLUMNS} FROM runs WHERE run = ?", (run,)).fetchone()  # noqa: S608 a constant
    if row is None:
        raise _unknown(run)
    return run_record(row)


def _last_round(connection: sqlite3.Connection, run: RunId) -> RoundId | None:
    (last,) = connection.execute("SELECT max(round_id) FROM rounds WHERE run = ?", (run,)).fetchone()
    return None if last is None else RoundId(last)


def _snapshot_file(connection: sqlite3.Connection, run: RunId) -> tuple[RoundId, SnapshotFile] | None:
    row = connection.execute("SELECT round_id, file, size, digest FROM snapshots WHERE run = ?", (run,)).fetchone()
    return row and (RoundId(row[0]), SnapshotFile(row[1], row[2], row[3]))


def _unknown(run: RunId) -> UnknownRun:
    return UnknownRun(f"there is no run {run}")
