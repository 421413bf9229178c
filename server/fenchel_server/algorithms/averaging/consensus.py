"""The server half of the algorithms with which DualFL is compared: it adds vectors and sends two public numbers."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from fenchel_common.algorithms.averaging.proximal import CLIENTS, SAMPLE_WEIGHT, ConsensusSettings
from fenchel_common.ids import ClientId, RoundId
from fenchel_server.algorithms.averaging.plan import Numbers, Plan
from fenchel_server.algorithms.averaging.rails import AveragingServer

S = TypeVar("S", bound=ConsensusSettings)


class ConsensusServer(AveragingServer[S]):
    """The server half of an algorithm whose clients need only K and N of the server."""

    def plan(self, round_id: RoundId, trainers: Sequence[ClientId], surveys: Mapping[ClientId, Numbers]) -> Plan:
        del round_id, trainers, surveys
        return Plan(told=self.sizes())

    def sizes(self) -> dict[str, float]:
        """The numbers K and K/N, for the clients."""
        clients = len(self.layout.clients)
        return {CLIENTS: float(clients), SAMPLE_WEIGHT: clients / self.layout.sample_count}
