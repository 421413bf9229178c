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
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import Cipher, PlainCipher
from fenchel_common.data.shard import Shard
from fenchel_common.ids import ClientId
from fenchel_server.algorithms import ALGORITHMS as SERVER_HALVES
from fenchel_server.algorithms.averaging import AveragingServer
from fenchel_server.algorithms.base import RoundReport
from fenchel_server.algorithms.base import ServerHalf as ServerClass
from support.halves import IN_CLEAR, Absent, Halves, aligned, nobody_is_absent

Array = NDArray[np.float64]


@dataclass
class Averaging(Halves[AveragingClient[Any], AveragingServer[Any]]):
    """Clients and server of a run, made of the halves `client_class` and `server_class`."""

    settings: AveragingSettings = field(kw_only=True)
    client_class: Any = field(kw_only=True)
    server_class: ServerClass = field(kw_only=True)

    @classmethod
    def of(
        cls,
        algorithm: str | tuple[type[AveragingSettings], Any, Any],
        shards: Sequence[Shard],
        values: dict[str, object] | None = None,
        *,
        cipher: Cipher | None = None,
        key: RunKey = IN_CLEAR,
        absent: Absent = nobody_is_absent,
    ) -> "Averaging":
        """A run of an algorithm of the tables, or of the given settings, client and server classes."""
        if isinstance(algorithm, str):
            listed = SETTINGS[algorithm]
            assert issubclass(listed, AveragingSettings)
            algorithm = (listed, CLIENT_HALVES[algorithm], SERVER_HALVES[algorithm])
        settings_class, client_class, server_class = algorithm
        settings = settings_class.parse(values or {})
        named, alignment = aligned(shards, key=key, seed=settings.seed)
        server = server_class(settings, layout=alignment.federation, key=key, openings={})
        assert isinstance(server, AveragingServer)
        used = PlainCipher(key.bits) if cipher is None else cipher
        run = cls(
            alignment,
            named,
            used,
            key,
            {},
            server,
            absent,
            settings=settings,
            client_class=client_class,
            server_class=server_class,
        )
        for name in named:
            run.restart(name)
        return run

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
