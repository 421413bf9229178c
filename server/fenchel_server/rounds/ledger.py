"""The costs of a round under way: absences, bytes, values that the server saw, and seconds by kind.

    encrypt, decrypt, serialise, parties    work of the last party to answer in each phase: its encryption, its
              decryption, its conversion between messages and values, and its other work
    wire      the transport of that party's task and result, with all delays before and after
    wait      for parties that never answered in the phase
    compute   the server's own work: set-up, algorithm, and announcing events
    clients   waiting until enough clients are attached
    store     commits; a round's record has the commit of the round before, because it cannot have its own

Parties report their times in steps of 10 ms; the rounding error is counted under `wire`.

Each client has costs of its own: its work, its wire, and as wait the rest of the round, in which others worked.

All tries at a round count, not only the one that is committed. A round's time begins when the record of the round
before was made, so the totals of all rounds add up to the wall-clock time.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum

from fenchel_common.ids import ClientId, RoundId
from fenchel_common.leakage import Ledger
from fenchel_common.metrics import RoundMetrics
from fenchel_common.setup import Spent
from fenchel_server.rounds.stopping import Progress
from fenchel_server.rounds.transport import Exchange, Gathered
from fenchel_server.store import AbsenceRecord, RoundRecord

TOTAL = "total"
NO_METRICS = "{}"


class Kind(StrEnum):
    """The kinds of time; the module's docstring explains each."""

    ENCRYPT = "encrypt"
    DECRYPT = "decrypt"
    SERIALISE = "serialise"
    PARTIES = "parties"
    WIRE = "wire"
    WAIT = "wait"
    COMPUTE = "compute"
    CLIENTS = "clients"
    STORE = "store"


OWN_WORK = {
    Kind.ENCRYPT: "encrypt_s",
    Kind.DECRYPT: "decrypt_s",
    Kind.SERIALISE: "serialise_s",
    Kind.PARTIES: "compute_s",
}
"""For each kind of a party's work, the name under which `Spent` and `ClientCosts` have it."""


class RoundLedger:
    """Gathers the costs of one round."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = clock()
        self._seconds: dict[str, float] = {str(kind): 0.0 for kind in Kind}
        self._absences: list[AbsenceRecord] = []
        self._bytes_up = 0
        self._bytes_down = 0
        self._clients: dict[ClientId, ClientCosts] = {}
        self._seen = Ledger()
        self._phases: list[str] = []

    def begin_try(self) -> None:
        """Begins a new try: forgets the phases of an abandoned try, but keeps its costs."""
        self._phases = []

    @contextmanager
    def spending(self, kind: Kind) -> Iterator[None]:
        """Counts the time inside the `with` statement under a kind."""
        began = self._clock()
        try:
            yield
        finally:
            self._seconds[kind] += self._clock() - began

    def add_phase(self, phase: str, gathered: Gathered, *, seconds: float) -> None:
        """Counts the time, traffic and absences of a phase."""
        self._phases.append(phase)
        away: dict[Kind, float] = {}
        for client in gathered.results.keys() | gathered.exchanges.keys():
            exchange = gathered.exchanges.get(client)
            costs = self._clients.setdefault(client, ClientCosts())
            if exchange is not None:
                costs.add_bytes(exchange)
            if client in gathered.results:
                spent = gathered.spent.get(client, Spent())
                split = _split(spent, away_s=seconds if exchange is None else min(exchange.seconds, seconds))
                if exchange is None:
                    del split[Kind.WIRE]
                costs.add(split, spent)
                away = max(away, split, key=lambda one: sum(one.values()))
        for kind, spent_s in away.items():
            self._seconds[kind] += spent_s
        self._seconds[Kind.WAIT] += seconds - sum(away.values())
        self._bytes_up += gathered.bytes_up
        self._bytes_down += gathered.bytes_down
        self._seen.add_all(gathered.seen)
        for client, absence in sorted(gathered.absences.items()):
            self.add_absence(client, phase, absence.reason)

    def add_absence(self, client: ClientId, phase: str, reason: str) -> None:
        """Puts a client's absence on record."""
        self._absences.append(AbsenceRecord(client, phase, reason))

    def knows_absence_of(self, client: ClientId) -> bool:
        """Whether a reason for leaving the client out of this round is on record already."""
        return any(absence.client == client for absence in self._absences)

    def record(self, round_id: RoundId, metrics: RoundMetrics | None = None) -> RoundRecord:
        """The round's record, as of now; only a training round has metrics."""
        total_s = self._clock() - self._began
        return RoundRecord(
            round_id=round_id,
            metrics=NO_METRICS if metrics is None else replace(metrics, phases=tuple(self._phases)).to_json(),
            absences=tuple(self._absences),
            bytes_up=self._bytes_up,
            bytes_down=self._bytes_down,
            seconds={TOTAL: total_s, **self._seconds},
            clients={client: costs.record(total_s) for client, costs in sorted(self._clients.items())},
            seen=self._seen.to_json(),
        )

    def seen_with(self, before: str) -> str:
        """`before`, plus what the server saw in this round so far: for a run that ends without committing the round."""
        whole = Ledger.from_json(before)
        whole.add_all(self._seen)
        return whole.to_json()


class ClientCosts:
    """The seconds, bytes and memory of one client in a round."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = dict.fromkeys([*OWN_WORK.values(), "wire_s"], 0.0)
        self._bytes_up = 0
        self._bytes_down = 0
        self._peak_memory_bytes = 0

    def add_bytes(self, exchange: Exchange) -> None:
        """Counts the traffic of a phase."""
        self._bytes_up += exchange.bytes_up
        self._bytes_down += exchange.bytes_down

    def add(self, split: Mapping[Kind, float], spent: Spent) -> None:
        """Counts an answered task."""
        for kind, spent_s in split.items():
            self._seconds[OWN_WORK.get(kind, "wire_s")] += spent_s
        self._peak_memory_bytes = max(self._peak_memory_bytes, spent.peak_memory_bytes)

    def record(self, total_s: float) -> dict[str, float]:
        """The costs as they go into the round's record; the rest of `total_s` counts as waiting."""
        return {
            **self._seconds,
            "wait_s": max(total_s - sum(self._seconds.values()), 0.0),
            "bytes_up": self._bytes_up,
            "bytes_down": self._bytes_down,
            "peak_memory_bytes": self._peak_memory_bytes,
        }


def progress_of(rounds: tuple[RoundRecord, ...]) -> Progress:
    """The progress after a run's committed rounds, of which the first is the set-up."""
    return Progress(rounds=len(rounds[1:]), seconds=sum(record.seconds[TOTAL] for record in rounds[1:]))


def costs_of(record: RoundRecord) -> dict[str, object]:
    """A round's seconds by kind, its bytes, and the costs of each client, as they go into JSON."""
    return {
        "bytes": {"up": record.bytes_up, "down": record.bytes_down},
        "seconds": dict(record.seconds),
        "clients": {client: dict(costs) for client, costs in record.clients.items()},
    }


def _split(spent: Spent, *, away_s: float) -> dict[Kind, float]:
    """Splits the time between task and result by kind, as the party reports it.

    If the party claims more time than passed, its claims are scaled down.
    """
    claims = {kind: getattr(spent, name) for kind, name in OWN_WORK.items()}
    times = {kind: claim for kind, claim in claims.items() if 0.0 < claim < math.inf}
    cut = min(1.0, away_s / sum(times.values())) if times else 0.0
    work = {kind: claim * cut for kind, claim in times.items()}
    return {**work, Kind.WIRE: away_s - sum(work.values())}
