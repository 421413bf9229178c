"""Both halves of an algorithm in one process, without kits and set-up; in clear unless a key is given."""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms import ALGORITHMS as CLIENT_HALVES
from fenchel_client.algorithms.base import AlgorithmClient
from fenchel_client.crypto.plain import Cipher
from fenchel_client.crypto.seal import Seal
from fenchel_client.crypto.stamps import Pads
from fenchel_client.participant import Participant
from fenchel_common.algorithms.dual import DualSettings
from fenchel_common.algorithms.settings import AlgorithmSettings
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.data.shard import Shard
from fenchel_common.ids import ClientId, RoundId, RunId
from fenchel_common.records import Moment, Record, seed_to_bytes
from fenchel_common.setup import LAYOUT
from fenchel_common.wire.records import record_to_bytes, round_result_from_bytes
from fenchel_deploy.inprocess.ciphers import FIRST_VIEW, RUN, TAG_SECRET, ciphers_without_key
from fenchel_deploy.inprocess.layouts import IN_CLEAR, aligned, label_scaling_of, table_in_run
from fenchel_deploy.inprocess.phases import run_phases
from fenchel_server.algorithms import ALGORITHMS as SERVER_HALVES
from fenchel_server.cohorts import OverlapRule
from fenchel_server.contract import AlgorithmServer, RoundReport

Array = NDArray[np.float64]

C = TypeVar("C", bound=AlgorithmClient)
S = TypeVar("S", bound=AlgorithmServer)

ATTEMPT = 1


class Halves(Generic[C, S]):
    """Clients and server of one run.

    `client_half` and `server_half` make the halves, with the arguments of the algorithms' own; `settings` are the
    settings of their algorithm. With a Paillier `key` the caller must give a `cipher` that decrypts under it, with the
    tags that `tags_of` gives for the same `run`. With a key of masks each party gets a cipher of its own.

    Attributes
    ----------
    ciphers
        The cipher of each party.
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
        run: RunId = RUN,
    ) -> None:
        self.run_id = run
        bits = settings.slot_bits(len(shards))
        self.shards, self.alignment = aligned(shards, seed=settings.seed, key=key, slot_bits=bits, overlap=overlap)
        self.settings = settings
        self.key = key
        self.ciphers = (
            ciphers_without_key(self.alignment.clients, run, key)
            if cipher is None
            else dict.fromkeys(self.shards, cipher)
        )
        self._labels = label_scaling_of(shards, settings.label_rules)
        self.attempt = ATTEMPT
        self.reports: list[RoundReport] = []
        self._client_half = client_half
        self.clients: dict[ClientId, C] = {}
        self.participants: dict[ClientId, Participant] = {}
        for client in self.shards:
            self.restart(client)
        preparations, record = self._prepared()
        layout = self.alignment.federation
        self.server = server_half(settings, layout=layout, key=key, preparations=preparations, records=[record])

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
        layout = self.alignment.clients[client]

        def made(seal: Seal) -> C:
            return self._client_half(
                self.settings,
                layout=layout,
                table=table_in_run(self.shards[client], self._labels, self.settings.label_rules),
                cipher=self.ciphers[client],
                key=self.key,
                seal=seal,
            )

        participant = Participant.of(
            made,
            layout=layout,
            tag_secret=TAG_SECRET,
            run=self.run_id,
            view=FIRST_VIEW,
            seed=self.settings.seed,
            attempt=ATTEMPT,
            make_seal=self.make_seal,
        )
        self.participants[client] = participant
        self.clients[client] = cast(C, participant.algorithm)

    def make_seal(self, pads: Pads) -> Seal:
        """The seal of a new client; a subclass that watches what is sealed and opened overrides it."""
        return Seal(pads)

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


def hyfdca_halves(
    shards: Sequence[Shard], settings: DualSettings, *, overlap: OverlapRule = OverlapRule.ERROR
) -> Halves[AlgorithmClient, AlgorithmServer]:
    """A run of HyFDCA in clear."""
    # A family with dual variables has one algorithm.
    (client_half,) = CLIENT_HALVES[settings.family.name].values()
    (server_half,) = SERVER_HALVES[settings.family.name].values()
    return Halves(shards, settings, client_half=client_half, server_half=server_half, overlap=overlap)
