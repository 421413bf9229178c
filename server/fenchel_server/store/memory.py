"""A store that is lost when its process ends: for tests, and for measuring the cost of durability."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fenchel_common.errors import UnknownRun
from fenchel_common.ids import RoundId, RunId, check_run_id
from fenchel_server.store.base import (
    RESUMABLE,
    UNENDED,
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


@dataclass(frozen=True, slots=True)
class _Run:
    record: RunRecord
    setup: SetupRecord | None = None
    rounds: tuple[RoundRecord, ...] = ()
    snapshot: Snapshot | None = None
    stop_request: str | None = None

    @property
    def last(self) -> RoundId | None:
        return self.rounds[-1].round_id if self.rounds else None


class MemoryStore(Store):
    """Behaves like `SqliteStore`, but is not durable."""

    def __init__(self, *, clock: Clock = time.time) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._runs: dict[RunId, _Run] = {}
        self._parties: tuple[PartyRecord, ...] = ()

    def create_run(self, run: RunId, *, name: str, config: str) -> RunRecord:
        check_run_id(run)
        with self._lock:
            check_new(run, name, [(other, stored.record.name) for other, stored in self._runs.items()])
            now = self._clock()
            record = RunRecord(run, name, config, RunStatus.QUEUED, "", created=now, updated=now)
            self._runs[run] = _Run(record)
            return record

    def run(self, run: RunId) -> RunRecord:
        with self._lock:
            return self._get(run).record

    def runs(self) -> tuple[RunRecord, ...]:
        with self._lock:
            return tuple(stored.record for stored in self._runs.values())

    def begin_attempt(self, run: RunId) -> int:
        with self._lock:
            stored = self._get(run)
            check_status(stored.record, UNENDED, action="worked on")
            attempt = stored.record.attempt + 1
            self._put(stored, replace(stored.record, status=RunStatus.RUNNING, reason="", attempt=attempt))
            return attempt

    def commit_setup(
        self, run: RunId, setup: SetupRecord, record: RoundRecord, snapshot: bytes, transcript: Sequence[bytes] = ()
    ) -> None:
        with self._lock:
            stored = self._get(run)
            check_commit(stored.record, record, last=stored.last, setup=True)
            keyed = replace(stored.record, key_fingerprint=setup.key_fingerprint, key_bits=setup.key_bits)
            self._commit(replace(stored, record=keyed, setup=setup), record, snapshot, transcript)

    def commit_round(self, run: RunId, record: RoundRecord, snapshot: bytes, transcript: Sequence[bytes] = ()) -> None:
        with self._lock:
            stored = self._get(run)
            check_commit(stored.record, record, last=stored.last, setup=False)
            self._commit(stored, record, snapshot, transcript)

    def setup(self, run: RunId) -> SetupRecord | None:
        with self._lock:
            return self._get(run).setup

    def rounds(self, run: RunId) -> tuple[RoundRecord, ...]:
        with self._lock:
            return self._get(run).rounds

    def last_round(self, run: RunId) -> RoundId | None:
        with self._lock:
            return self._get(run).last

    def snapshot(self, run: RunId) -> Snapshot | None:
        with self._lock:
            return self._get(run).snapshot

    def request_stop(self, run: RunId, *, reason: str) -> RunRecord:
        with self._lock:
            stored = self._get(run)
            check_status(stored.record, UNENDED, action="stopped")
            if stored.record.status is RunStatus.QUEUED:
                return self._put(stored, replace(stored.record, status=RunStatus.STOPPED, reason=reason))
            return self._put(replace(stored, stop_request=reason), stored.record)

    def stop_request(self, run: RunId) -> str | None:
        with self._lock:
            return self._get(run).stop_request

    def close_run(
        self, run: RunId, status: RunStatus, *, reason: str, outcome: str | None = None, seen: str = "{}"
    ) -> None:
        check_ending(status)
        with self._lock:
            stored = self._get(run)
            check_status(stored.record, {RunStatus.RUNNING}, action="ended")
            ended = replace(stored.record, status=status, reason=reason, outcome=outcome, seen=seen)
            self._put(replace(stored, stop_request=None), ended)

    def requeue(self, run: RunId) -> RunRecord:
        with self._lock:
            stored = self._get(run)
            check_status(stored.record, RESUMABLE, action="resumed")
            return self._put(stored, replace(stored.record, status=RunStatus.QUEUED, reason="", outcome=None))

    def note_parties(self, parties: Sequence[PartyRecord]) -> None:
        with self._lock:
            self._parties = tuple(sorted(parties, key=lambda one: one.party))

    def parties(self) -> tuple[PartyRecord, ...]:
        with self._lock:
            return self._parties

    def close(self) -> None:
        pass

    def _get(self, run: RunId) -> _Run:
        try:
            return self._runs[run]
        except KeyError:
            raise UnknownRun(f"there is no run {run}") from None

    def _put(self, stored: _Run, record: RunRecord) -> RunRecord:
        touched = replace(record, updated=self._clock())
        self._runs[record.run] = replace(stored, record=touched)
        return touched

    def _commit(self, stored: _Run, record: RoundRecord, state: bytes, transcript: Sequence[bytes]) -> None:
        before = () if stored.snapshot is None else stored.snapshot.transcript
        snapshot = Snapshot(record.round_id, state, (*before, *transcript))
        self._put(replace(stored, rounds=(*stored.rounds, record), snapshot=snapshot), stored.record)
