"""Both halves of an algorithm in one process, without kits and set-up; in clear unless a key is given."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms import ALGORITHMS as CLIENT_HALVES
from fenchel_client.algorithms.base import AlgorithmClient
from fenchel_client.crypto.derivedkeys import confirmations_key, pads_key, weights_key
from fenchel_client.crypto.seal import Seal
from fenchel_client.crypto.stamps import Pads
from fenchel_client.participant import Participant
from fenchel_client.table import PartyTable
from fenchel_client.transcript import Transcript
from fenchel_common.algorithms.dual import DualSettings
from fenchel_common.algorithms.settings import AlgorithmSettings
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.tags import Tagger
from fenchel_common.crypto.vectors import Cipher, PlainCipher
from fenchel_common.data.shard import Shard
from fenchel_common.defaults import DEMO_KEY_BITS
from fenchel_common.ids import ClientId, RoundId, RunId
from fenchel_common.records import Moment, Record, seed_to_bytes
from fenchel_common.setup import LAYOUT
from fenchel_common.wire.records import record_to_bytes, round_result_from_bytes
from fenchel_deploy.inprocess.phases import run_phases
from fenchel_server.algorithms import ALGORITHMS as SERVER_HALVES
from fenchel_server.cohorts import Alignment, Holding, OverlapRule, lay_out
from fenchel_server.contract import AlgorithmServer, RoundReport

Array = NDArray[np.float64]

KEY_BITS = DEMO_KEY_BITS
IN_CLEAR = RunKey.in_clear(KEY_BITS)

C = TypeVar("C", bound=AlgorithmClient)
S = TypeVar("S", bound=AlgorithmServer)

_RUN = RunId("in-process")
_FIRST_VIEW = bytes(32)
_TAG_SECRET = bytes(range(32))
"""Without a set-up, the parties have no secret of their own."""
ATTEMPT = 1


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

    Attributes
    ----------
    clients
        The client half of each party, without the records of the run; `participants` has both.
    attempt
        The number of the attempt at the run; the caller raises it if a server half is restored.
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
        slots = self.alignment.federation.slots
        self.cipher = PlainCipher(key.bits, tagger_of(slots)) if cipher is None else cipher
        self.key = key
        self.attempt = ATTEMPT
        self.reports: list[RoundReport] = []
        self._client_half = client_half
        self.clients: dict[ClientId, C] = {}
        self.participants: dict[ClientId, Participant] = {}
        for client in self.shards:
            self.restart(client)
        preparations, record = self._prepared()
        layout = self.alignment.federation
        self.server = server_half(settings, layout=layout, key=key, preparations=preparations, record=record)

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
        first = self.server.begin_round(round_id, there, restarted, attempt=self.attempt, closing=closing)
        report = run_phases(first, self.server, lambda phase, client, body: self.answer(round_id, phase, client, body))
        self.reports.append(report)
        return report

    def answer(self, round_id: RoundId, phase: str, client: ClientId, body: bytes) -> bytes | None:
        """The result of a client's task; None if the client is absent. Tests override it."""
        return self.participants[client].answer(Moment(self.attempt, round_id, phase), body)

    def restart(self, client: ClientId) -> None:
        """Replaces a client by a new one without memory; the caller must name it as `restarted` in the next round."""
        seal = Seal(Pads(pads_key(_TAG_SECRET, _RUN)))
        layout = self.alignment.clients[client]
        half = self._client_half(
            self.settings,
            layout=layout,
            table=table_of(self.shards[client]),
            cipher=self.cipher,
            key=self.key,
            seal=seal,
            serialising=nullcontext,
        )
        transcript = Transcript(
            _FIRST_VIEW,
            half.first_book(),
            party=client,
            clients=layout.clients,
            key=confirmations_key(_TAG_SECRET, _RUN),
            seed=self.settings.seed,
            attempt=ATTEMPT,
        )
        self.clients[client] = half
        self.participants[client] = Participant(half, transcript, seal)

    def weights(self, features: Sequence[str]) -> Array:
        """The model that the parties would get if the run ended here, in the order of these feature names."""
        values: dict[str, Array] = {}
        for client, participant in self.participants.items():
            part = participant.final_model(self.server.last_state(client))
            values |= zip(sorted(self.shards[client].features), part, strict=True)
        return np.array([values[name] for name in features])

    def _prepared(self) -> tuple[dict[ClientId, bytes], bytes]:
        """Each party's preparation, and the record of the phase in which they are given."""
        moment = Moment(self.attempt, RoundId(0), LAYOUT)
        preparations: dict[ClientId, bytes] = {}
        given = []
        for client, participant in self.participants.items():
            result = participant.contribution(moment, self.clients[client].preparation)
            preparations[client], one = round_result_from_bytes(result, client)
            given.append(one)
        record = Record(moment, tuple(given), seed_to_bytes(self.settings.seed))
        return preparations, record_to_bytes(record, self.alignment.federation.clients)


def tagger_of(slots: int) -> Tagger:
    """The tagger of halves in one process, for a caller's own cipher."""
    return Tagger(weights_key(_TAG_SECRET, _RUN), slots=slots)


def hyfdca_halves(shards: Sequence[Shard], settings: DualSettings) -> Halves[AlgorithmClient, AlgorithmServer]:
    """A run of HyFDCA in clear."""
    # A family with dual variables has one algorithm.
    (client_half,) = CLIENT_HALVES[settings.family.name].values()
    (server_half,) = SERVER_HALVES[settings.family.name].values()
    return Halves(shards, settings, client_half=client_half, server_half=server_half)
