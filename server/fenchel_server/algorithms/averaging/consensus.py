"""The server side of the algorithms that DualFL is compared with: sums, and two public numbers."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from fenchel_common.algorithms.averaging.proximal import CLIENTS, SAMPLE_WEIGHT, ConsensusSettings
from fenchel_common.ids import ClientId, RoundId
from fenchel_server.algorithms.averaging.plan import Numbers, Plan
from fenchel_server.algorithms.averaging.rails import AveragingServer

S = TypeVar("S", bound=ConsensusSettings)


class ConsensusServer(AveragingServer[S]):
    """The server half of an algorithm that needs to know K and N only."""

    def plan(self, round_id: RoundId, trainers: Sequence[ClientId], surveys: Mapping[ClientId, Numbers]) -> Plan:
        del round_id, trainers, surveys
        return Plan(told=self.sizes())

    def sizes(self) -> dict[str, float]:
        """K, and K/N."""
        clients = len(self.layout.clients)
        return {CLIENTS: float(clients), SAMPLE_WEIGHT: clients / self.layout.sample_count}
