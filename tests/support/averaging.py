"""A whole federation on the averaging rails in one process, deterministic by its seed."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms import ALGORITHMS as CLIENT_HALVES
from fenchel_client.algorithms.averaging.rails import AveragingClient
from fenchel_client.algorithms.averaging.work import State
from fenchel_common.algorithms import SETTINGS
from fenchel_common.algorithms.averaging.settings import AveragingSettings
from fenchel_common.data.shard import Shard
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.wire.averaging import state_from_bytes
from fenchel_server.algorithms import ALGORITHMS as SERVER_HALVES
from fenchel_server.algorithms.averaging.rails import AveragingServer
from fenchel_server.algorithms.base import ServerHalf as ServerClass
from fenchel_server.contract import PhaseRequest, RoundReport, ServerState
from support.halves import Halves

Array = NDArray[np.float64]


class Averaging(Halves[AveragingClient[Any], AveragingServer[Any]]):
    """Clients and server of a run on the averaging rails."""

    def __init__(self, *args: Any, server_half: ServerClass, **values: Any) -> None:
        super().__init__(*args, server_half=server_half, **values)
        assert isinstance(self.server, AveragingServer)
        self.server_class = server_half

    @classmethod
    def of(
        cls,
        algorithm: str | tuple[type[AveragingSettings], Any, Any],
        shards: Sequence[Shard],
        settings: dict[str, object] | None = None,
        **values: Any,
    ) -> "Averaging":
        """A run of an algorithm of the tables, or of the given settings, client and server classes."""
        if isinstance(algorithm, str):
            listed = SETTINGS[algorithm].default
            assert issubclass(listed, AveragingSettings)
            algorithm = (listed, CLIENT_HALVES["averaging"][algorithm], SERVER_HALVES["averaging"][algorithm])
        settings_class, client_half, server_half = algorithm
        parsed = settings_class.parse(settings or {})
        return cls(shards, parsed, client_half=client_half, server_half=server_half, **values)

    def run(self, rounds: int) -> RoundReport:
        """Runs this many rounds, then the closing round, which measures the model."""
        for _ in range(rounds):
            report = self.round()
            if report.outcome is not None:
                return report
        return self.round(closing=True)

    def restore(self, snapshot: ServerState) -> None:
        """Replaces the server by one made from a snapshot; every client is then `restarted`."""
        restored = self.server_class.restore(
            snapshot, settings=self.settings, layout=self.alignment.federation, key=self.key
        )
        assert isinstance(restored, AveragingServer)
        self.server = restored
        self.attempt += 1

    def kill_server_in(self, round_id: int) -> ServerState:
        """Runs up to the round, and loses the server once the clients have answered the round's first phase.

        The new server is made from the snapshot after the round before, which is returned.
        """
        for _ in range(round_id - 1):
            self.round()
        committed = self.server.snapshot()
        step = self.server.begin_round(RoundId(round_id), self.names, frozenset(), attempt=self.attempt)
        assert isinstance(step, PhaseRequest)
        self.answers(RoundId(round_id), step)
        self.restore(committed)
        return committed

    def states(self) -> dict[ClientId, State]:
        """Every client's state after the last round on record."""
        states = {}
        for client, participant in self.participants.items():
            half = self.clients[client]
            update = state_from_bytes(participant._body(self.server.last_state(client)), half._scope)
            states[client] = half._memory.opened(update, participant.transcript.book)
        return states

    def weights(self, features: Sequence[str]) -> Array:
        """The model as the parties would save it, each in a process that remembers nothing."""
        for client in self.shards:
            self.restart(client)
        return super().weights(features)
