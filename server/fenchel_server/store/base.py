"""The interface of the durable store, its records, and the rules that every backend keeps.

A run moves through these statuses; every other move is a `RecordConflict`:

    queued ──begin_attempt──▶ running ──close_run──▶ stopped | completed | exhausted | diverged | failed
    queued ──request_stop──▶ stopped
    stopped | failed ──requeue──▶ queued

Round 0 is the set-up; round t is committed only on top of round t − 1, in one transaction with the snapshot that
replaces the one before. Texts named `config`, `metrics`, `outcome` and `seen` are JSON of a `RunConfig`, a
`RoundMetrics` (an empty object for the set-up), a `RunOutcome` and a leakage ledger; those classes read and write them.
"""

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import TracebackType
from typing import Self

from fenchel_common.errors import RecordConflict
from fenchel_common.ids import ClientId, RoundId, RunId

SETUP_ROUND = RoundId(0)

Clock = Callable[[], float]
"""Seconds since 1970."""


class RunStatus(StrEnum):
    """The status of a run.

    A completed run met its goal: the gap that was asked for or, without a certificate, its rounds. An exhausted run
    used up its rounds or seconds before; the parties have its model all the same.
    """

    QUEUED = "queued"
    RUNNING = "running"
    STOPPED = "stopped"
    COMPLETED = "completed"
    EXHAUSTED = "exhausted"
    DIVERGED = "diverged"
    FAILED = "failed"


UNENDED = frozenset({RunStatus.QUEUED, RunStatus.RUNNING})
RESUMABLE = frozenset({RunStatus.STOPPED, RunStatus.FAILED})
ENDED = frozenset(RunStatus) - UNENDED
WITH_MODEL = frozenset({RunStatus.COMPLETED, RunStatus.EXHAUSTED})
"""The statuses of runs whose model the parties get."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run and its status; `attempt` counts how often a server has begun to work on it.

    `seen` counts the values that the server saw outside the committed rounds: in the last phase and in abandoned tries.
    """

    run: RunId
    name: str
    config: str
    status: RunStatus
    reason: str
    created: float
    updated: float
    attempt: int = 0
    key_fingerprint: str | None = None
    key_bits: int | None = None
    outcome: str | None = None
    seen: str = "{}"


@dataclass(frozen=True, slots=True)
class SetupRecord:
    """The results of the set-up, which hold for the whole run; a run without encryption has no key."""

    public_key: bytes
    layout: bytes
    key_fingerprint: str | None = None
    key_bits: int | None = None


@dataclass(frozen=True, slots=True)
class AbsenceRecord:
    """A client that was left out of a phase, and the reason."""

    client: ClientId
    phase: str
    reason: str


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ends, and the reason in words for the record."""

    status: RunStatus
    reason: str


@dataclass(frozen=True, slots=True)
class RoundRecord:
    """A committed round; `seconds` splits its wall-clock time by kind, beside the `total`.

    `clients` has, for each client, seconds by kind, bytes, CPU seconds and memory; its seconds add up to the same
    total.
    `server` has the CPU seconds of the server and, where they are known, the bytes at its port.
    A round with an `ending` is the last one: after it the parties get the model, and the run is closed.
    """

    round_id: RoundId
    metrics: str
    absences: tuple[AbsenceRecord, ...]
    bytes_up: int
    bytes_down: int
    seconds: Mapping[str, float]
    ending: Ending | None = None
    clients: Mapping[ClientId, Mapping[str, float]] = field(default_factory=dict)
    seen: str = "{}"
    server: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The algorithm's state after a committed round, and the records of the run until then."""

    round_id: RoundId
    state: bytes
    transcript: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class PartyRecord:
    """What the server knows of a party at the moment.

    `since` is when the party connected, or left; a party that never came is missing since the server's start. `reason`
    says why a party is missing. `run`, `round_id` and `phase` name the task whose result the party owes; None if it
    owes none.
    """

    party: ClientId
    connected: bool
    since: float
    run: RunId | None = None
    round_id: RoundId | None = None
    phase: str | None = None
    reason: str = ""


class Store(ABC):
    """Runs and their rounds; every method is one transaction, and safe to call from any thread.

    Writes are durable when they return. A method that raises an error has changed nothing. Every method that takes a
    run raises `UnknownRun` if there is no such run, and `RecordConflict` if the status of the run does not allow the
    change. Every method may raise `StoreError` if the storage fails.
    """

    @abstractmethod
    def create_run(self, run: RunId, *, name: str, config: str) -> RunRecord:
        """Adds a queued run and returns its record; `config` is the JSON of a `RunConfig`.

        Raises `RecordConflict` if there is a run of that id or of that name already.
        """

    @abstractmethod
    def run(self, run: RunId) -> RunRecord:
        """The record of the run."""

    @abstractmethod
    def runs(self) -> tuple[RunRecord, ...]:
        """The records of all runs, in the order of their creation."""

    @abstractmethod
    def begin_attempt(self, run: RunId) -> int:
        """Marks a queued or running run as running, and returns the number of the new attempt.

        The number was never used before for this run. The driver calls this before it sends the attempt's first task.
        """

    @abstractmethod
    def commit_setup(
        self, run: RunId, setup: SetupRecord, record: RoundRecord, snapshot: bytes, transcript: Sequence[bytes] = ()
    ) -> None:
        """Commits round 0 with the results of the set-up, the algorithm's first state, and the first records.

        The run must be running and have no committed round.
        """

    @abstractmethod
    def commit_round(self, run: RunId, record: RoundRecord, snapshot: bytes, transcript: Sequence[bytes] = ()) -> None:
        """Commits the next round, replaces the snapshot, and adds `transcript` to the records of the run.

        The run must be running, and `record` must follow the last committed round.
        """

    @abstractmethod
    def setup(self, run: RunId) -> SetupRecord | None:
        """The results of the set-up; None before it is committed."""

    @abstractmethod
    def rounds(self, run: RunId) -> tuple[RoundRecord, ...]:
        """The committed rounds in order, the set-up first."""

    @abstractmethod
    def last_round(self, run: RunId) -> RoundId | None:
        """The last committed round; None before the set-up is committed."""

    @abstractmethod
    def snapshot(self, run: RunId) -> Snapshot | None:
        """The algorithm's state after the last committed round; None before the set-up is committed."""

    @abstractmethod
    def request_stop(self, run: RunId, *, reason: str) -> RunRecord:
        """Stops a queued run at once, or asks the server to stop a running one; returns the new record."""

    @abstractmethod
    def stop_request(self, run: RunId) -> str | None:
        """The reason of a stop request that waits for the server; None if there is no such request."""

    @abstractmethod
    def close_run(
        self, run: RunId, status: RunStatus, *, reason: str, outcome: str | None = None, seen: str = "{}"
    ) -> None:
        """Ends a running run and clears its stop request; `outcome` and `seen` replace those of the run's record.

        `status` must be one with which a run can end.
        """

    @abstractmethod
    def requeue(self, run: RunId) -> RunRecord:
        """Queues a stopped or failed run again and returns its new record.

        The run continues after its last committed round.
        """

    @abstractmethod
    def note_parties(self, parties: Sequence[PartyRecord]) -> None:
        """Replaces what is on record of the parties."""

    @abstractmethod
    def parties(self) -> tuple[PartyRecord, ...]:
        """The records of the parties, by name. They are of this moment only while a server uses the store."""

    @abstractmethod
    def close(self) -> None:
        """Releases the files and locks of the store; a repeated call does nothing."""

    def find(self, word: str) -> RunRecord:
        """The run with this id, or else the one with this name; `UnknownRun` if there is neither."""
        found = sorted((one for one in self.runs() if word in (one.run, one.name)), key=lambda one: one.run == word)
        return found[-1] if found else self.run(RunId(word))

    def pending(self) -> tuple[RunRecord, ...]:
        """The runs that a server has to work on: first the running ones, then the queue."""
        return tuple(record for record in self.runs() if record.status is RunStatus.RUNNING) + self.queued()

    def queued(self) -> tuple[RunRecord, ...]:
        """The runs that wait, in the order in which a server takes them."""
        return tuple(record for record in self.runs() if record.status is RunStatus.QUEUED)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def new_run_id() -> RunId:
    """A fresh random id for a run, short enough to be typed."""
    return RunId(f"run-{secrets.token_hex(4)}")


def check_new(run: RunId, name: str, known: Collection[tuple[RunId, str]]) -> None:
    """Refuses a run whose id or name one of the known runs has."""
    if any(other == run for other, _ in known):
        raise RecordConflict(f"run {run} exists already; choose another id")
    for other, name_of_other in known:
        if name_of_other == name:
            raise RecordConflict(f"run {name!r} is on record here already ({other}); give the new one another name")


def check_status(record: RunRecord, allowed: Iterable[RunStatus], *, action: str) -> None:
    """Refuses an action that the run's status does not allow."""
    if record.status not in (permitted := frozenset(allowed)):
        choices = " or ".join(sorted(permitted))
        raise RecordConflict(f"run {record.run} is {record.status}; only a {choices} run can be {action}")


def check_commit(run: RunRecord, record: RoundRecord, *, last: RoundId | None, setup: bool) -> None:
    """Refuses a round that does not follow the last committed one, or a set-up that is not round 0."""
    check_status(run, {RunStatus.RUNNING}, action="committed to")
    due = SETUP_ROUND if last is None else RoundId(last + 1)
    if record.round_id != due:
        raise RecordConflict(f"run {run.run}: round {record.round_id} cannot be committed, round {due} is next")
    if setup != (due == SETUP_ROUND):
        raise RecordConflict(f"run {run.run}: round 0 is the set-up, and only round 0 is")


def check_ending(status: RunStatus) -> None:
    """Refuses a status with which a run cannot end."""
    if status not in ENDED:
        raise RecordConflict(f"a run cannot end as {status}")
