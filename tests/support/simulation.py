"""A whole HyFDCA federation in one process, deterministic by its seed, and in clear unless it is given a key."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.corrective import CorrectiveClient
from fenchel_client.algorithms.hyfdca import HyfdcaClient
from fenchel_client.algorithms.variants import hyfdca_client
from fenchel_common.algorithms.hyfdca import HyfdcaSettings
from fenchel_common.crypto.packing import VectorFormat, slot_layout
from fenchel_common.crypto.paillier import PublicKey
from fenchel_common.crypto.vectors import Cipher, PlainCipher
from fenchel_common.data.shard import Shard
from fenchel_common.ids import ClientId, RoundId
from fenchel_server.algorithms.base import RoundReport
from fenchel_server.algorithms.corrective import CorrectiveServer
from fenchel_server.algorithms.hyfdca import HyfdcaServer
from fenchel_server.algorithms.variants import HyfdcaVariants
from fenchel_server.cohorts import Alignment, Holding, OverlapRule, lay_out
from fenchel_server.rounds.requests import PhaseRequest

Array = NDArray[np.float64]
KEY_BITS = 2048

Absent = Callable[[RoundId, str, ClientId], bool]
"""Whether a client fails to answer a phase of a round."""


def nobody_is_absent(_round_id: RoundId, _phase: str, _client: ClientId) -> bool:
    return False


@dataclass
class Simulation:
    """Clients and server of a run, with everything that crossed between them on record."""

    settings: HyfdcaSettings
    alignment: Alignment
    shards: dict[ClientId, Shard]
    cipher: Cipher
    key: PublicKey | int
    clients: dict[ClientId, HyfdcaClient | CorrectiveClient]
    server: HyfdcaServer | CorrectiveServer
    absent: Absent = nobody_is_absent
    phases: list[tuple[RoundId, str]] = field(default_factory=list)
    messages: list[tuple[RoundId, str, ClientId, bytes, bytes]] = field(default_factory=list)
    reports: list[RoundReport] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        shards: Sequence[Shard],
        settings: HyfdcaSettings,
        *,
        cipher: Cipher | None = None,
        key: PublicKey | int = KEY_BITS,
        overlap: OverlapRule = OverlapRule.ERROR,
        absent: Absent = nobody_is_absent,
    ) -> "Simulation":
        named = {ClientId(f"party-{place:02d}"): shard for place, shard in enumerate(shards)}
        used = PlainCipher(KEY_BITS) if cipher is None else cipher
        slots = slot_layout(VectorFormat(), key if isinstance(key, int) else key.bits).slots
        holdings = [
            Holding(name, tuple(sample.encode() for sample in shard.ids), shard.features, shard.y is not None)
            for name, shard in named.items()
        ]
        alignment = lay_out(holdings, slots=slots, seed=settings.seed, overlap=overlap)
        clients: dict[ClientId, HyfdcaClient | CorrectiveClient] = {
            name: hyfdca_client(settings, layout=alignment.clients[name], shard=shard, cipher=used, key=key)
            for name, shard in named.items()
        }
        openings = {name: client.opening() for name, client in clients.items()}
        server = HyfdcaVariants()(settings, layout=alignment.federation, key=key, openings=openings)
        return cls(settings, alignment, named, used, key, clients, server, absent)

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
        return result

    def run(self, rounds: int | None = None) -> RoundReport:
        """Rounds until the algorithm has had enough, or as many as asked for."""
        while True:
            report = self.round()
            if report.outcome is not None or (rounds is not None and len(self.reports) >= rounds):
                return report

    def restart(self, client: ClientId) -> None:
        """The client's process begins anew; tell the next round that it is `restarted`."""
        self.clients[client] = hyfdca_client(
            self.settings,
            layout=self.alignment.clients[client],
            shard=self.shards[client],
            cipher=self.cipher,
            key=self.key,
        )

    def restore(self, snapshot: bytes, *, seed: int | None = None) -> None:
        """Puts a server in place that was made from a snapshot, with another seed for its draws if given."""
        settings = self.settings if seed is None else self.settings.model_copy(update={"seed": seed})
        self.server = HyfdcaVariants().restore(
            snapshot, settings=settings, layout=self.alignment.federation, key=self.key
        )

    def round_trips(self, round_id: int) -> int:
        return sum(of == round_id for of, _phase in self.phases)

    def weights(self, features: Sequence[str]) -> Array:
        """The model that the parties would get if the run ended here, in the order of these feature names."""
        values: dict[str, float] = {}
        for client, half in self.clients.items():
            part = half.final_model(self.server.last_state(client))
            values |= zip(sorted(self.shards[client].features), part.tolist(), strict=True)
        return np.array([values[name] for name in features])

    def model(self) -> Array:
        """The same by sorted names of all features."""
        return self.weights(self.alignment.federation.features)

    def alpha(self, ids: Sequence[str]) -> Array:
        """The server's α, which it could not read in an encrypted run, in the order of these samples."""
        values: dict[str, float] = {}
        for client, layout in self.alignment.clients.items():
            for block in layout.block_ids:
                vector = self.server._state.alpha.get(int(block))
                rows = layout.rows_of([int(block)])
                held = np.zeros(len(rows)) if vector is None else self.cipher.decrypt(vector)[: len(rows)]
                values |= {self.shards[client].ids[row]: value for row, value in zip(rows, held, strict=True)}
        return np.array([values[sample] for sample in ids])
