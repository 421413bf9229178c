"""What a round costs while it is worked on: who was left out, bytes, and seconds by kind.

    encrypt, decrypt, parties    the slowest party of each phase at work: its encryption, decryption, and the rest
    wait      the other time in which tasks are out and results come in: the wire, and slack at both ends
    compute   the set-up's or the algorithm's own work on the server
    clients   waiting for clients to be there at all
    store     commits; that of the round before, because a round's record cannot hold its own

All tries at a round count, not only the one that is committed. A round's time begins where the record of the round
before was closed, so the totals of all rounds add up to the wall-clock time.
"""

import json
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from enum import StrEnum

from fenchel_common.ids import ClientId, RoundId
from fenchel_common.metrics import RoundMetrics
from fenchel_common.setup import Spent
from fenchel_server.rounds.stopping import Progress
from fenchel_server.rounds.transport import Gathered
from fenchel_server.store import AbsenceRecord, RoundRecord

TOTAL = "total"


class Kind(StrEnum):
    """What a second was spent on."""

    ENCRYPT = "encrypt"
    DECRYPT = "decrypt"
    PARTIES = "parties"
    WAIT = "wait"
    COMPUTE = "compute"
    CLIENTS = "clients"
    STORE = "store"


class RoundLedger:
    """Gathers the costs of one round."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = clock()
        self._seconds: dict[str, float] = {str(kind): 0.0 for kind in Kind}
        self._absences: list[AbsenceRecord] = []
        self._bytes_up = 0
        self._bytes_down = 0
        self.phases: list[str] = []

    def begin_try(self) -> None:
        """Forgets the phases of a try that was abandoned; what it cost stays."""
        self.phases = []

    @contextmanager
    def spending(self, kind: Kind) -> Iterator[None]:
        """Counts the time inside under a kind."""
        began = self._clock()
        try:
            yield
        finally:
            self._seconds[kind] += self._clock() - began

    def add_phase(self, phase: str, gathered: Gathered, *, seconds: float) -> None:
        """Counts a phase, its time, traffic and absences."""
        self.phases.append(phase)
        work = _slowest_work(gathered, at_most_s=seconds)
        for kind, spent_s in work.items():
            self._seconds[kind] += spent_s
        self._seconds[Kind.WAIT] += seconds - sum(work.values())
        self._bytes_up += gathered.bytes_up
        self._bytes_down += gathered.bytes_down
        for client, absence in sorted(gathered.absences.items()):
            self.add_absence(client, phase, absence.reason)

    def add_absence(self, client: ClientId, phase: str, reason: str) -> None:
        """Puts a client's absence on record."""
        self._absences.append(AbsenceRecord(client, phase, reason))

    def knows_absence_of(self, client: ClientId) -> bool:
        """Whether a reason for leaving the client out of this round is on record already."""
        return any(absence.client == client for absence in self._absences)

    def record(self, round_id: RoundId, metrics: str) -> RoundRecord:
        """The round's record, as of now."""
        return RoundRecord(
            round_id=round_id,
            metrics=metrics,
            absences=tuple(self._absences),
            bytes_up=self._bytes_up,
            bytes_down=self._bytes_down,
            seconds={TOTAL: self._clock() - self._began, **self._seconds},
        )


def metrics_to_json(metrics: RoundMetrics, phases: Sequence[str]) -> str:
    """The metrics and the phases as JSON; a value that is not finite, which JSON lacks, is written as its name."""
    held = {name: _jsonable(value) for name, value in asdict(metrics).items()}
    return json.dumps(held | {"phases": list(phases)}, allow_nan=False)


def progress_of(rounds: tuple[RoundRecord, ...]) -> Progress:
    """The progress that the committed training rounds amount to."""
    return Progress(rounds=len(rounds[1:]), seconds=sum(record.seconds[TOTAL] for record in rounds[1:]))


def outcome_to_json(rounds: tuple[RoundRecord, ...], finish: RoundRecord, undelivered: Mapping[ClientId, str]) -> str:
    """What the run amounts to: its last certificate, its costs, and who did not get the model.

    `rtc_per_round` is the usual number of round trips in a round; rounds that certify only, or sync, have others.
    """
    metrics = [json.loads(record.metrics) for record in rounds[1:]]
    certified: dict[str, object] = next((held for held in reversed(metrics) if held.get("gap") is not None), {})
    records = (*rounds, finish)
    return json.dumps(
        {
            "rounds": len(metrics),
            "rtc_per_round": statistics.mode(len(held["phases"]) for held in metrics) if metrics else None,
            "certificate": {name: certified.get(name) for name in ("round", "primal", "dual", "gap", "accuracy")},
            "seconds": {kind: sum(record.seconds[kind] for record in records) for kind in (TOTAL, *Kind)},
            "bytes": {
                "up": sum(record.bytes_up for record in records),
                "down": sum(record.bytes_down for record in records),
            },
            "undelivered": dict(undelivered),
        }
    )


def _slowest_work(gathered: Gathered, *, at_most_s: float) -> dict[Kind, float]:
    """What the slowest party says it spent, cut to the time that the phase took: a party's clock is not ours."""
    spent = max(gathered.spent.values(), key=lambda one: one.total_s, default=Spent())
    claims = {Kind.ENCRYPT: spent.encrypt_s, Kind.DECRYPT: spent.decrypt_s, Kind.PARTIES: spent.compute_s}
    times = {kind: claim for kind, claim in claims.items() if 0.0 < claim < math.inf}
    cut = min(1.0, at_most_s / sum(times.values())) if times else 0.0
    return {kind: claim * cut for kind, claim in times.items()}


def _jsonable(value: object) -> object:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
