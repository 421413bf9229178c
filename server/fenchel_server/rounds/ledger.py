"""The costs of a round under way: absences, bytes, values that the server saw, and seconds by kind.

    encrypt, decrypt, serialise, parties    work of the last party to answer in each phase: its encryption, its
              decryption, its conversion between messages and values, and its other work
    wire      the transport of that party's task and result, with all delays before and after
    wait      for parties that never answered in the phase
    compute   the server's own work: set-up, algorithm, counting, and announcing events
    clients   waiting until enough clients are attached
    store     commits; a round's record has the commit of the round before, because it cannot have its own
    other     the rest of the wall-clock time

All of it is measured by the server's clock, except for a party's work, of which the party reports the length: clocks
need not agree. Parties report their times in steps of 10 ms; the rounding error is counted under `wire`.

Each client has costs of its own: its work, its wire, and as wait the rest of the round, in which others worked.

All tries at a round count, not only the one that is committed. A round's time begins when the record of the round
before was made, so the totals of all rounds add up to the wall-clock time.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum

from fenchel_common import jsonrecord
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.leakage import Ledger
from fenchel_common.metrics import RoundMetrics
from fenchel_common.setup import Spent
from fenchel_server.rounds.stopping import Progress
from fenchel_server.rounds.transport import Exchange, Gathered, PortBytes
from fenchel_server.store import AbsenceRecord, RoundRecord

TOTAL = "total"
CPU = "cpu_seconds"
PORT_UP, PORT_DOWN = "port_up", "port_down"
WAYS = ("bytes_up", "bytes_down", "ciphertext_up", "ciphertext_down")
"""The names under which `Exchange` and the costs of a client have bytes."""
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
    OTHER = "other"


OWN_WORK = {
    Kind.ENCRYPT: "encrypt_s",
    Kind.DECRYPT: "decrypt_s",
    Kind.SERIALISE: "serialise_s",
    Kind.PARTIES: "compute_s",
}
"""For each kind of a party's work, the name under which `Spent` and `ClientCosts` have it."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What the meters of a server show at one moment: seconds, CPU seconds, and bytes at the port if they are known."""

    seconds: float
    cpu_s: float
    port: PortBytes | None


class RoundLedger:
    """Gathers the costs of one round.

    `clock` gives seconds, `cpu` the CPU seconds of this process, and `port` the bytes at its port, if they are known.
    The round begins now, or at the end of the round before, `since`.

    Attributes
    ----------
    ended
        What the meters showed when the last record was made.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        cpu: Callable[[], float] = time.process_time,
        port: Callable[[], PortBytes | None] = lambda: None,
        since: Reading | None = None,
    ) -> None:
        self._clock, self._cpu, self._port = clock, cpu, port
        self._began = self._read() if since is None else since
        self.ended = self._began
        self._seconds: dict[str, float] = {str(kind): 0.0 for kind in Kind}
        if since is not None:  # the server has made the record of the round before meanwhile
            self._seconds[Kind.COMPUTE] = clock() - since.seconds
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
        """Counts the time, traffic and absences of a phase that took `seconds` in all.

        After the last result, the server only works: it counts and adds up the results that came last.
        """
        self._phases.append(phase)
        self._seconds[Kind.COMPUTE] += max(seconds - gathered.seconds, 0.0)
        seconds = min(seconds, gathered.seconds)
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
        self.ended = self._read()
        total_s = self.ended.seconds - self._began.seconds
        other_s = max(total_s - sum(self._seconds.values()), 0.0)
        return RoundRecord(
            round_id=round_id,
            metrics=NO_METRICS if metrics is None else replace(metrics, phases=tuple(self._phases)).to_json(),
            absences=tuple(self._absences),
            bytes_up=self._bytes_up,
            bytes_down=self._bytes_down,
            seconds={TOTAL: total_s, **self._seconds, Kind.OTHER: other_s},
            clients={client: costs.record(total_s) for client, costs in sorted(self._clients.items())},
            seen=self._seen.to_json(),
            server=self._server_costs(),
        )

    def _read(self) -> Reading:
        return Reading(self._clock(), self._cpu(), self._port())

    def _server_costs(self) -> dict[str, float]:
        costs = {CPU: self.ended.cpu_s - self._began.cpu_s}
        now, before = self.ended.port, self._began.port
        if now is None or before is None:
            return costs
        return {**costs, PORT_UP: now.up - before.up, PORT_DOWN: now.down - before.down}

    def seen_with(self, before: str) -> str:
        """`before`, plus what the server saw in this round so far: for a run that ends without committing the round."""
        whole = Ledger.from_json(before)
        whole.add_all(self._seen)
        return whole.to_json()


class ClientCosts:
    """The seconds, bytes, CPU seconds and memory of one client in a round."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = dict.fromkeys([*OWN_WORK.values(), "wire_s"], 0.0)
        self._bytes = dict.fromkeys(WAYS, 0)
        self._cpu_seconds = 0.0
        self._peak_memory_bytes = 0

    def add_bytes(self, exchange: Exchange) -> None:
        """Counts the traffic of a phase."""
        for way in WAYS:
            self._bytes[way] += getattr(exchange, way)

    def add(self, split: Mapping[Kind, float], spent: Spent) -> None:
        """Counts an answered task."""
        for kind, spent_s in split.items():
            self._seconds[OWN_WORK.get(kind, "wire_s")] += spent_s
        self._cpu_seconds += spent.cpu_s
        self._peak_memory_bytes = max(self._peak_memory_bytes, spent.peak_memory_bytes)

    def record(self, total_s: float) -> dict[str, float]:
        """The costs as they go into the round's record; the rest of `total_s` counts as waiting."""
        return {
            **self._seconds,
            "wait_s": max(total_s - sum(self._seconds.values()), 0.0),
            **self._bytes,
            CPU: self._cpu_seconds,
            "peak_memory_bytes": self._peak_memory_bytes,
        }


def progress_of(rounds: tuple[RoundRecord, ...]) -> Progress:
    """The progress after a run's committed rounds, of which the first is the set-up."""
    return Progress(rounds=len(rounds[1:]), seconds=sum(record.seconds[TOTAL] for record in rounds[1:]))


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes from the clients to the server, and from the server to the clients, as serialised for the transport.

    `ciphertext_up` and `ciphertext_down` are those of them that are encrypted vectors; the others are not encrypted,
    except by TLS. `port_up` and `port_down` are the bytes at the server's port as the kernel counts them, with TLS,
    HTTP/2, receipts and signs of life; None if they are not known. Records of the first versions have the sums alone.
    """

    up: int
    down: int
    ciphertext_up: int = 0
    ciphertext_down: int = 0
    port_up: int | None = None
    port_down: int | None = None

    def __add__(self, other: "Traffic") -> "Traffic":
        """The sums; bytes at the port are unknown if they are unknown of one of the two."""
        return Traffic(
            self.up + other.up,
            self.down + other.down,
            self.ciphertext_up + other.ciphertext_up,
            self.ciphertext_down + other.ciphertext_down,
            None if self.port_up is None or other.port_up is None else self.port_up + other.port_up,
            None if self.port_down is None or other.port_down is None else self.port_down + other.port_down,
        )


def traffic_of(record: RoundRecord) -> Traffic:
    """The bytes of a round."""
    up, down = record.server.get(PORT_UP), record.server.get(PORT_DOWN)
    return Traffic(
        up=record.bytes_up,
        down=record.bytes_down,
        ciphertext_up=sum(int(costs.get("ciphertext_up", 0)) for costs in record.clients.values()),
        ciphertext_down=sum(int(costs.get("ciphertext_down", 0)) for costs in record.clients.values()),
        port_up=None if up is None else int(up),
        port_down=None if down is None else int(down),
    )


def cpu_seconds_of(records: Sequence[RoundRecord]) -> dict[str, float]:
    """The CPU seconds of the server, and of all parties together."""
    return {
        "server": sum(record.server.get(CPU, 0.0) for record in records),
        "parties": sum(costs.get(CPU, 0.0) for record in records for costs in record.clients.values()),
    }


def costs_of(record: RoundRecord) -> dict[str, object]:
    """A round's seconds by kind, its CPU seconds and bytes, and the costs of each client, as they go into JSON."""
    return {
        "bytes": jsonrecord.to_mapping(traffic_of(record)),
        "seconds": dict(record.seconds),
        "cpu_seconds": cpu_seconds_of([record]),
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
