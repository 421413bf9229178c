"""Both halves of an algorithm in one process, without kits, set-up or envelopes; in clear unless a key is given."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms import ALGORITHMS as CLIENT_HALVES
from fenchel_client.algorithms.base import AlgorithmClient
from fenchel_client.table import PartyTable
from fenchel_common.algorithms.dual import DualSettings
from fenchel_common.algorithms.settings import AlgorithmSettings
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import Cipher, PlainCipher
from fenchel_common.data.shard import Shard
from fenchel_common.defaults import DEMO_KEY_BITS
from fenchel_common.ids import ClientId, RoundId
from fenchel_deploy.inprocess.phases import run_phases
from fenchel_server.algorithms import ALGORITHMS as SERVER_HALVES
from fenchel_server.cohorts import Alignment, Holding, OverlapRule, lay_out
from fenchel_server.contract import AlgorithmServer, RoundReport

Array = NDArray[np.float64]

KEY_BITS = DEMO_KEY_BITS
IN_CLEAR = RunKey.in_clear(KEY_BITS)

C = TypeVar("C", bound=AlgorithmClient)
S = TypeVar("S", bound=AlgorithmServer)


def aligned(
    shards: Sequence[Shard],
    *,
    seed: int,
    key: RunKey = IN_CLEAR,
    overlap: OverlapRule = OverlapRule.ERROR,
) -> tuple[dict[ClientId, Shard], Alignment]:
    """The shards by client, and the layout of their samples and features."""
    digits = max(2, len(str(len(shards) - 1)))  # names sort in the order of the shards
    named = {ClientId(f"party-{number:0{digits}d}"): shard for number, shard in enumerate(shards)}
    holdings = [
        Holding(name, tuple(sample.encode() for sample in shard.ids), shard.features, shard.y is not None)
        for name, shard in named.items()
    ]
    slots = key.slots(VectorFormat())
    return named, lay_out(holdings, slots=slots, seed=seed, overlap=overlap)


def table_of(shard: Shard) -> PartyTable:
    """A table that lists its rows in the order of the shard: without a set-up, no server sees the order."""
    return PartyTable(shard, np.arange(len(shard.ids)))


class Halves(Generic[C, S]):
    """Clients and server of one run.

    `client_half` and `server_half` make the halves, with the arguments of the algorithms' own; `settings` are the
    settings of their algorithm. With a `key` the caller must give a `cipher` that decrypts under it.
    """

    def __init__(
        self,
        shards: Sequence[Shard],
        settings: AlgorithmSettings,
        *,
        client_half: Callable[..., C],
        server_half: Callable[..., S],
        cipher: Cipher | None = None,
        key: RunKey = IN_CLEAR,
        overlap: OverlapRule = OverlapRule.ERROR,
    ) -> None:
        self.shards, self.alignment = aligned(shards, seed=settings.seed, key=key, overlap=overlap)
        self.settings = settings
        self.cipher = PlainCipher(key.bits) if cipher is None else cipher
        self.key = key
        self.reports: list[RoundReport] = []
        self._client_half = client_half
        self.clients = {client: self._made(client) for client in self.shards}
        preparations = {name: client.preparation() for name, client in self.clients.items()}
        self.server = server_half(settings, layout=self.alignment.federation, key=key, preparations=preparations)

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
        """Runs the next round to its report, with all clients unless `available` names some."""
        round_id = RoundId(len(self.reports) + 1)
        there = self.names if available is None else available
        first = self.server.begin_round(round_id, there, restarted, closing=closing)
        report = run_phases(first, self.server, lambda phase, client, body: self.answer(round_id, phase, client, body))
        self.reports.append(report)
        return report

    def answer(self, round_id: RoundId, phase: str, client: ClientId, body: bytes) -> bytes | None:  # noqa: ARG002 - subclasses use it
        """The result of a client's task; None if the client is absent. Tests override it."""
        return self.clients[client].answer(phase, body)

    def restart(self, client: ClientId) -> None:
        """Replaces a client by a new one without memory; the caller must name it as `restarted` in the next round."""
        self.clients[client] = self._made(client)

    def weights(self, features: Sequence[str]) -> Array:
        """The model that the parties would get if the run ended here, in the order of these feature names."""
        values: dict[str, Array] = {}
        for client, half in self.clients.items():
            part = half.final_model(self.server.last_state(client))
            values |= zip(sorted(self.shards[client].features), part, strict=True)
        return np.array([values[name] for name in features])

    def _made(self, client: ClientId) -> C:
        return self._client_half(
            self.settings,
            layout=self.alignment.clients[client],
            table=table_of(self.shards[client]),
            cipher=self.cipher,
            key=self.key,
            serialising=nullcontext,
        )


def hyfdca_halves(shards: Sequence[Shard], settings: DualSettings) -> Halves[AlgorithmClient, AlgorithmServer]:
    """A run of HyFDCA in clear."""
    # A family with dual variables has one algorithm.
    (client_half,) = CLIENT_HALVES[settings.family.name].values()
    (server_half,) = SERVER_HALVES[settings.family.name].values()
    return Halves(shards, settings, client_half=client_half, server_half=server_half)
