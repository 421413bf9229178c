"""The two halves of an algorithm in one process: who is there and what crosses, round by round."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from google.protobuf.message import Message

from fenchel_client.algorithms.base import AlgorithmClient
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import Cipher
from fenchel_common.data.shard import Shard
from fenchel_common.ids import ClientId, RoundId
from fenchel_server.algorithms.base import AlgorithmServer, RoundReport
from fenchel_server.cohorts import Alignment, Holding, OverlapRule, lay_out
from fenchel_server.rounds.requests import PhaseRequest

KEY_BITS = 2048
IN_CLEAR = RunKey.in_clear(KEY_BITS)

Absent = Callable[[RoundId, str, ClientId], bool]
"""Whether a client fails to answer a phase of a round."""
Tampering = Callable[[bytes], bytes]

C = TypeVar("C", bound=AlgorithmClient)
S = TypeVar("S", bound=AlgorithmServer)


def nobody_is_absent(_round_id: RoundId, _phase: str, _client: ClientId) -> bool:
    return False


def changed(kind: type[Message], change: Callable[[Any], None]) -> Tampering:
    """An answer that is changed as the message that it is."""

    def tamper(result: bytes) -> bytes:
        message = kind.FromString(result)
        change(message)
        return message.SerializeToString()

    return tamper


def aligned(
    shards: Sequence[Shard], *, key: RunKey, seed: int, overlap: OverlapRule = OverlapRule.ERROR
) -> tuple[dict[ClientId, Shard], Alignment]:
    """The shards by client, and where each sample lives."""
    named = {ClientId(f"party-{place:02d}"): shard for place, shard in enumerate(shards)}
    slots = key.slots(VectorFormat())
    holdings = [
        Holding(name, tuple(sample.encode() for sample in shard.ids), shard.features, shard.y is not None)
        for name, shard in named.items()
    ]
    return named, lay_out(holdings, slots=slots, seed=seed, overlap=overlap)


@dataclass
class Halves(Generic[C, S]):
    """Clients and server of a run, with everything that crossed between them on record."""

    alignment: Alignment
    shards: dict[ClientId, Shard]
    cipher: Cipher
    key: RunKey
    clients: dict[ClientId, C]
    server: S
    absent: Absent = nobody_is_absent
    phases: list[tuple[RoundId, str]] = field(default_factory=list, init=False)
    messages: list[tuple[RoundId, str, ClientId, bytes, bytes]] = field(default_factory=list, init=False)
    reports: list[RoundReport] = field(default_factory=list, init=False)
    tampering: dict[tuple[int, str, ClientId], Tampering] = field(default_factory=dict, init=False)
    """What happens to a client's answer to a phase of a round on its way to the server."""

    @property
    def names(self) -> frozenset[ClientId]:
        return frozenset(self.clients)

    def round(
        self,
        *,
        available: frozenset[ClientId] | None = None,
        restarted: frozenset[ClientId] = frozenset(),
        closing: bool = False,
    ) -> RoundReport:
        """Runs the next round to its report."""
        round_id = RoundId(len(self.reports) + 1)
        there = self.names if available is None else available
        step: PhaseRequest | RoundReport = self.server.open_round(round_id, there, restarted, closing=closing)
        while isinstance(step, PhaseRequest):
            self.phases.append((round_id, step.phase))
            results = {
                client: self.answer(round_id, step.phase, client, body)
                for client, body in step.tasks.items()
                if not self.absent(round_id, step.phase, client)
            }
            step = self.server.advance(step.phase, results)
        self.reports.append(step)
        return step

    def answer(self, round_id: RoundId, phase: str, client: ClientId, body: bytes) -> bytes:
        result = self.clients[client].answer(phase, body)
        self.messages.append((round_id, phase, client, body, result))
        tamper = self.tampering.get((round_id, phase, client))
        return result if tamper is None else tamper(result)
