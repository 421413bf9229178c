"""A whole federation on the averaging rails in one process, deterministic by its seed."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms import ALGORITHMS as CLIENT_HALVES
from fenchel_client.algorithms.averaging import AveragingClient
from fenchel_common.algorithms import SETTINGS
from fenchel_common.algorithms.averaging import AveragingSettings
from fenchel_common.crypto.packing import VectorFormat, slot_layout
from fenchel_common.crypto.paillier import PublicKey
from fenchel_common.crypto.vectors import Cipher, PlainCipher
from fenchel_common.data.shard import Shard
from fenchel_common.ids import ClientId, RoundId
from fenchel_server.algorithms import ALGORITHMS as SERVER_HALVES
from fenchel_server.algorithms.averaging import AveragingServer
from fenchel_server.algorithms.base import RoundReport
from fenchel_server.algorithms.base import ServerHalf as ServerClass
from fenchel_server.cohorts import Alignment, Holding, OverlapRule, lay_out
from fenchel_server.rounds.requests import PhaseRequest
from support.simulation import KEY_BITS, Absent, nobody_is_absent

Array = NDArray[np.float64]


@dataclass
class Averaging:
    """Clients and server of a run, with everything that crossed between them on record.

    `client_class` and `server_class` are the halves of the algorithm.
    """

    settings: AveragingSettings
    client_class: Any
    server_class: ServerClass
    alignment: Alignment
    shards: dict[ClientId, Shard]
    cipher: Cipher
    key: PublicKey | int
    clients: dict[ClientId, AveragingClient[Any]]
    server: AveragingServer[Any]
    absent: Absent = nobody_is_absent
    phases: list[tuple[RoundId, str]] = field(default_factory=list)
    messages: list[tuple[RoundId, str, ClientId, bytes, bytes]] = field(default_factory=list)
    reports: list[RoundReport] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        algorithm: str | tuple[type[AveragingSettings], Any, Any],
        shards: Sequence[Shard],
        values: dict[str, object] | None = None,
        *,
        cipher: Cipher | None = None,
        key: PublicKey | int = KEY_BITS,
        absent: Absent = nobody_is_absent,
    ) -> "Averaging":
        """A run of an algorithm of the tables, or of the given settings, client and server classes."""
        if isinstance(algorithm, str):
            listed = SETTINGS[algorithm]
            assert issubclass(listed, AveragingSettings)
            algorithm = (listed, CLIENT_HALVES[algorithm], SERVER_HALVES[algorithm])
        settings_class, client_class, server_class = algorithm
        settings = settings_class.parse(values or {})
        named = {ClientId(f"party-{place:02d}"): shard for place, shard in enumerate(shards)}
        slots = slot_layout(VectorFormat(), key if isinstance(key, int) else key.bits).slots
        holdings = [
            Holding(name, tuple(sample.encode() for sample in shard.ids), shard.features, shard.y is not None)
            for name, shard in named.items()
        ]
        alignment = lay_out(holdings, slots=slots, seed=settings.seed, overlap=OverlapRule.ERROR)
        server = server_class(settings, layout=alignment.federation, key=key, openings={})
        assert isinstance(server, AveragingServer)
        used = PlainCipher(key if isinstance(key, int) else key.bits) if cipher is None else cipher
        run = cls(settings, client_class, server_class, alignment, named, used, key, {}, server, absent)
        for name in named:
            run.restart(name)
        return run

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

    def run(self, rounds: int) -> RoundReport:
        """This many rounds, then the one that measures the model at the end."""
        for _ in range(rounds):
            report = self.round()
            if report.outcome is not None:
                return report
        return self.round(closing=True)

    def restart(self, client: ClientId) -> None:
        """The client's process begins anew; tell the next round that it is `restarted`."""
        self.clients[client] = self.client_class(
            self.settings,
            layout=self.alignment.clients[client],
            shard=self.shards[client],
            cipher=self.cipher,
            key=self.key,
            serialising=nullcontext,
        )

    def restore(self, snapshot: bytes) -> None:
        """Puts a server in place that was made from a snapshot; every client is then `restarted`."""
        restored = self.server_class.restore(
            snapshot, settings=self.settings, layout=self.alignment.federation, key=self.key
        )
        assert isinstance(restored, AveragingServer)
        self.server = restored

    def weights(self, features: Sequence[str]) -> Array:
        """The model as the parties would save it, each in a process that remembers nothing."""
        held: dict[str, Array] = {}
        for client, shard in self.shards.items():
            self.restart(client)
            part = self.clients[client].final_model(self.server.last_state(client))
            held |= dict(zip(sorted(shard.features), part, strict=True))
        return np.array([held[name] for name in features])
