"""Server process and sessions over a way that is not gRPC: one class for each side is all that it takes."""

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fenchel_client.concessions import Concession
from fenchel_client.connection import TaskLimit
from fenchel_client.consent import Consent
from fenchel_client.desk import Assignment, Desk
from fenchel_client.party import Party
from fenchel_client.session import EndKind, Session, SessionEnd
from fenchel_common.dismissal import Dismissal, UnfitData
from fenchel_common.identity import Address, Kit, LiveKit
from fenchel_common.ids import ClientId
from fenchel_common.model import read_model
from fenchel_common.runconfig import RunConfig
from fenchel_common.wire.frames import TaskKey
from fenchel_server.app import serve
from fenchel_server.rounds.transport import Absence, Gathered, PhaseId, Receive
from support.kits import make_federation
from support.tables import named_shards, small_dataset

WAIT_S = 60.0
SHARDS = named_shards(small_dataset(40, 4), grid=(1, 2))
CONFIG = RunConfig.from_mapping(
    {
        "name": "another-engine",
        "settings": {"lambda": 0.5, "local": "corrective"},
        "key": {"bits": 2048},
        "alignment": "hmac",
        "round": {"quorum": 1.0},
        "stop": {"gap": 1e-3, "rounds": 50},
    }
)


class Desks:
    """The server's side: lays tasks on the desks of the sessions that have come, and takes results from there."""

    port = 1

    def __init__(self) -> None:
        self.serving: list[bool] = []
        self.dismissal: Dismissal | None = None
        self.stopped = False
        self._changed = threading.Condition()
        self._attending: dict[ClientId, tuple[Desk, str]] = {}
        self._told: set[ClientId] = set()

    def attend(self, client: ClientId, desk: Desk, incarnation: str) -> None:
        with self._changed:
            self._attending[client] = desk, incarnation
            self._changed.notify_all()

    def leave(self, client: ClientId) -> None:
        with self._changed:
            self._told.add(client)
            self._changed.notify_all()

    def gather(
        self,
        phase: PhaseId,
        tasks: Mapping[ClientId, bytes],
        *,
        deadline_s: float,
        limits: Mapping[ClientId, int] | None = None,  # noqa: ARG002 - of the interface
        receive: Receive | None = None,
    ) -> Gathered:
        key = TaskKey(phase.run, phase.round, phase.phase, phase.attempt)
        for client, body in tasks.items():
            self._attending[client][0].offer(Assignment(key, body))
        results, absences = {}, {}
        for client in tasks:
            result, reason = self._taken(self._attending[client][0], key, deadline_s)
            if result is None:
                absences[client] = Absence(client, reason)
            else:
                results[client] = result if receive is None else b""
                if receive is not None:
                    receive(client, memoryview(result))
        return Gathered(results, absences, bytes_up=0, bytes_down=0, seconds=0.0)

    def _taken(self, desk: Desk, key: TaskKey, deadline_s: float) -> tuple[bytes | None, str]:
        desk.wait(lambda: desk.outcome, timeout_s=deadline_s)
        outcome = desk.outcome
        desk.drop(key)
        return (None, "no result in time") if outcome is None else (outcome.body, f"refused: {outcome.refusal}")

    def present(self) -> frozenset[ClientId]:
        with self._changed:
            return frozenset(self._attending)

    def owed(self) -> Mapping[ClientId, PhaseId]:
        return {}

    def wait_for(self, clients: frozenset[ClientId], *, timeout_s: float) -> frozenset[ClientId]:
        with self._changed:
            self._changed.wait_for(lambda: clients <= self._attending.keys(), timeout=timeout_s)
            return clients & self._attending.keys()

    def incarnation(self, client: ClientId) -> str | None:
        return self._attending[client][1] if client in self._attending else None

    def port_bytes(self) -> None:
        """There is no port."""

    def tend(self) -> None:
        """There are no connections."""

    def dismiss(self, reason: str, *, unfit: Mapping[str, UnfitData] | None = None) -> None:
        self.dismissal = Dismissal(reason)
        assert not unfit, "the data of both parties fit"
        for desk, _ in self._attending.values():
            desk.wake()

    def wait_dismissed(self, clients: frozenset[ClientId], *, timeout_s: float) -> frozenset[ClientId]:
        with self._changed:
            self._changed.wait_for(lambda: clients <= self._told, timeout=timeout_s)
            return clients - self._told

    def set_serving(self, serving: bool) -> None:
        self.serving.append(serving)

    def set_missing(self, missing: Mapping[ClientId, float]) -> None:
        """There are no health checks."""

    def stop(self, *, grace_s: float = 0.0) -> None:  # noqa: ARG002 - of the interface
        self.stopped = True


@dataclass
class Visit:
    """The client's side."""

    desks: Desks
    client: ClientId
    desk: Desk
    incarnation: str
    worked: bool = True

    def run(self) -> Dismissal | None:
        self.desks.attend(self.client, self.desk, self.incarnation)
        self.desk.wait(lambda: self.desks.dismissal, timeout_s=WAIT_S)
        self.desks.leave(self.client)
        return self.desks.dismissal

    def cancel(self) -> None:
        self.desk.wake()


def session_of(kit: Kit, state: Path, desks: Desks) -> Session:
    consent = Consent(kit.roster.fingerprint(), accepts=frozenset(Concession))
    party = Party(kit, SHARDS[kit.name], state=state, consent=consent)

    @contextmanager
    def dial(
        kit: Kit, desk: Desk, *, incarnation: str, limit: TaskLimit, outdated: Callable[[], bool]
    ) -> Iterator[Visit]:
        yield Visit(desks, kit.client_id, desk, incarnation)

    return Session(kit, party.handle, dial=dial, idle=party.idle, limit=party.task_limit)


def test_a_run_goes_from_its_set_up_to_its_model_without_grpc(tmp_path: Path) -> None:
    kits = {name: Kit.load(folder) for name, folder in make_federation(tmp_path / "kits", tuple(SHARDS)).items()}
    desks = Desks()
    events: list[Mapping[str, object]] = []

    def listen(kit: LiveKit, *, address: Address) -> Desks:
        return desks

    with ThreadPoolExecutor(len(SHARDS)) as threads:
        ends = [threads.submit(session_of(kits[name], tmp_path / name, desks).run) for name in SHARDS]
        statuses = serve(
            kits["server"],
            tmp_path / "state",
            configs=[CONFIG],
            address=Address("localhost", 0),
            listen=listen,
            stay=False,
            announce=events.append,
        )
        assert [end.result(WAIT_S) for end in ends] == 2 * [SessionEnd(EndKind.DISMISSED, "all runs are over")]
    assert statuses == {"completed"}
    assert (events[0]["event"], events[0]["port"]) == ("listening", Desks.port)
    (ended,) = [event for event in events if event["event"] == "ended"]
    assert (desks.serving[-1], True in desks.serving, desks.stopped) == (False, True, True)
    for name in SHARDS:
        assert read_model(tmp_path / name / f"{ended['run']}.model").record.party == name
