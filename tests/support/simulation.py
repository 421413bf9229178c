"""A whole HyFDCA federation in one process, deterministic by its seed, and in clear unless it is given a key."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.corrective import CorrectiveClient
from fenchel_client.algorithms.hyfdca import HyfdcaClient
from fenchel_client.algorithms.variants import hyfdca_client
from fenchel_common.algorithms.hyfdca import HyfdcaSettings
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import Cipher, PlainCipher
from fenchel_common.data.shard import Shard
from fenchel_common.ids import ClientId
from fenchel_server.algorithms.base import RoundReport
from fenchel_server.algorithms.corrective import CorrectiveServer
from fenchel_server.algorithms.hyfdca import HyfdcaServer
from fenchel_server.algorithms.variants import HyfdcaVariants
from fenchel_server.cohorts import OverlapRule
from support.halves import IN_CLEAR, KEY_BITS, Absent, Halves, aligned, nobody_is_absent

Array = NDArray[np.float64]


@dataclass
class Simulation(Halves[HyfdcaClient | CorrectiveClient, HyfdcaServer | CorrectiveServer]):
    """Clients and server of a run of HyFDCA."""

    settings: HyfdcaSettings = field(kw_only=True)

    @classmethod
    def of(
        cls,
        shards: Sequence[Shard],
        settings: HyfdcaSettings,
        *,
        cipher: Cipher | None = None,
        key: RunKey = IN_CLEAR,
        overlap: OverlapRule = OverlapRule.ERROR,
        absent: Absent = nobody_is_absent,
    ) -> "Simulation":
        named, alignment = aligned(shards, key=key, seed=settings.seed, overlap=overlap)
        used = PlainCipher(KEY_BITS) if cipher is None else cipher
        clients: dict[ClientId, HyfdcaClient | CorrectiveClient] = {
            name: hyfdca_client(settings, layout=alignment.clients[name], shard=shard, cipher=used, key=key)
            for name, shard in named.items()
        }
        openings = {name: client.opening() for name, client in clients.items()}
        server = HyfdcaVariants()(settings, layout=alignment.federation, key=key, openings=openings)
        return cls(alignment, named, used, key, clients, server, absent, settings=settings)

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
