"""A small run for tests of the round machinery: every result depends on all that went before it, on both sides.

The parties keep a running total that they see in the clear. A round asks each for a number that depends on the total it
holds (`add`), then gives out the new one (`apply`). A party whose total is not the one of the last committed round
therefore spoils the result visibly, and a party without one refuses.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from fenchel_client.task import Task
from fenchel_common.errors import Refusal, ResultRejected
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.metrics import RoundMetrics
from fenchel_common.runconfig import RunConfig
from fenchel_common.wire.parsing import Body
from fenchel_server.contract import AlgorithmServer, Outcome, PhaseRequest, RoundReport, ServerState
from fenchel_server.release import Release
from fenchel_server.rounds.setup import SetupDone, SetupServer
from fenchel_server.store import SetupRecord

NORTH, SOUTH, WEST = ClientId("north"), ClientId("south"), ClientId("west")
PARTIES = (NORTH, SOUTH, WEST)
LIMIT_BYTES = 100


def toy_config(
    *, rounds: int = 100, seconds: float | None = None, quorum: float = 0.6, attempts: int = 2, wait_s: float = 20.0
) -> str:
    return RunConfig.from_mapping(
        {
            "name": "toy",
            "round": {"deadline_s": 5.0, "quorum": quorum, "attempts": attempts, "wait_s": wait_s},
            "stop": {"rounds": rounds} | ({} if seconds is None else {"seconds": seconds}),
        }
    ).to_json()


@dataclass
class ToyParty:
    """The client half of the toy run."""

    name: ClientId
    total: float | None = None
    model: float | None = None

    def __call__(self, task: Task) -> bytes:
        value = json.loads(task.body)
        if task.phase == "hello":
            self.total = 0.0
            return json.dumps(len(self.name)).encode()
        if task.phase in ("sync", "apply"):
            self.total = value
        if task.phase == "finish":
            self.model = value
            return b"0"
        if self.total is None:
            raise Refusal("the total is lost", public_reason="the total is lost")
        return json.dumps(math.sin(len(self.name) * (self.total + value))).encode()


class ToySetup:
    def begin(self) -> PhaseRequest:
        return PhaseRequest("hello", dict.fromkeys(PARTIES, b"0"))

    def advance(self, phase: str, results: Mapping[ClientId, bytes]) -> PhaseRequest | SetupDone:
        if phase == "hello":
            return PhaseRequest("layout", dict.fromkeys(PARTIES, b"1"))
        layout = json.dumps(sorted(results)).encode()
        record = SetupRecord(public_key=b"n", layout=layout, key_fingerprint="ab:cd", key_bits=2048)
        return SetupDone(record, ServerState((b"0",), json.dumps({"round": 0, "total": 0.0}).encode()))

    def limits(self, phase: str) -> Mapping[ClientId, int]:  # noqa: ARG002 - of the interface
        return dict.fromkeys(PARTIES, LIMIT_BYTES)


@dataclass
class ToyAlgorithm:
    """The server half of the toy run; it ends the run itself after `last_round`."""

    round_id: int
    total: float
    last_round: int
    available: list[ClientId] = field(default_factory=list)
    closing: bool = False
    known: set[ClientId] = field(default_factory=set)
    received: dict[ClientId, bytes] = field(default_factory=dict)

    def begin_round(
        self,
        round_id: RoundId,
        available: frozenset[ClientId],
        restarted: frozenset[ClientId],
        *,
        attempt: int,  # noqa: ARG002 - of the interface
        closing: bool = False,
    ) -> PhaseRequest:
        self.available, self.closing = sorted(available), closing
        self.round_id = round_id
        unknown = (available - self.known) | restarted
        self.known |= available
        if unknown:
            return PhaseRequest("sync", dict.fromkeys(sorted(unknown), json.dumps(self.total).encode()))
        return self._add()

    def receive(self, phase: str, client: ClientId, result: Body) -> None:  # noqa: ARG002 - of the interface
        self.received[client] = bytes(result)

    def advance(self, phase: str, results: Mapping[ClientId, bytes]) -> PhaseRequest | RoundReport:
        results, self.received = {**self.received, **results}, {}
        for client, result in sorted(results.items()):
            if result == b"null":
                raise ResultRejected(client, "not a number")
        if phase == "sync":
            return self._add()
        if phase == "add":
            if not self.closing:
                self.total += sum(json.loads(results[client]) for client in self.available if client in results)
            return PhaseRequest("apply", dict.fromkeys(self.available, json.dumps(self.total).encode()))
        metrics = RoundMetrics(round=RoundId(self.round_id), primal=self.total, participants=tuple(self.available))
        if self.closing:
            return RoundReport(metrics, Outcome.FINISHED, "the run was to end here")
        if self.round_id == self.last_round:
            return RoundReport(metrics, Outcome.CONVERGED, "close enough")
        return RoundReport(metrics)

    def snapshot(self) -> ServerState:
        own = json.dumps({"round": self.round_id, "total": self.total}).encode()
        return ServerState(tuple(str(number).encode() for number in range(self.round_id + 1)), own)

    def last_state(self, _client: ClientId) -> bytes:
        return json.dumps(self.total).encode()

    def _add(self) -> PhaseRequest:
        return PhaseRequest("add", dict.fromkeys(self.available, json.dumps(self.round_id).encode()))


@dataclass(frozen=True)
class ToyParts:
    """Implements `RunParts`; raises the given errors, and adds `poison` to the restored total."""

    last_round: int = 3
    poison: float = 0.0
    restore_error: Exception | None = None
    finish_error: Exception | None = None
    release: Release | None = None
    clients: frozenset[ClientId] = frozenset(PARTIES)

    def setup(self, attempt: int) -> SetupServer:  # noqa: ARG002 - of the interface
        return ToySetup()

    def restore(self, setup: SetupRecord, snapshot: ServerState) -> AlgorithmServer:
        assert setup.public_key == b"n"
        if self.restore_error is not None:
            raise self.restore_error
        content = json.loads(snapshot.own)
        assert len(snapshot.records) == content["round"] + 1
        return ToyAlgorithm(content["round"], content["total"] + self.poison, self.last_round)

    def finish(self, setup: SetupRecord, algorithm: AlgorithmServer) -> PhaseRequest:
        if self.finish_error is not None:
            raise self.finish_error
        tasks = {client: algorithm.last_state(client) for client in json.loads(setup.layout)}
        return PhaseRequest("finish", tasks)

    def limits(self, phase: str, setup: SetupRecord) -> Mapping[ClientId, int]:  # noqa: ARG002 - of the interface
        return dict.fromkeys(PARTIES, LIMIT_BYTES)

    def released(self, setup: SetupRecord, results: Mapping[ClientId, bytes]) -> Release | None:
        assert setup.public_key == b"n"
        assert set(results.values()) <= {b"0"}, "the answers to the last phase"
        return self.release
