"""FedAvg at the server: the weighted mean of what the clients have."""

from collections.abc import Mapping, Sequence

from fenchel_common.algorithms.fedavg import FedavgSettings
from fenchel_common.ids import ClientId, RoundId
from fenchel_server.algorithms.averaging import AveragingServer
from fenchel_server.algorithms.averaging_plan import Numbers, Plan


class FedavgServer(AveragingServer[FedavgSettings]):
    """The server half of FedAvg."""

    def plan(self, round_id: RoundId, trainers: Sequence[ClientId], surveys: Mapping[ClientId, Numbers]) -> Plan:
        del round_id, surveys
        if self.settings.weighting == "uniform":
            return Plan()
        return Plan(weights={client: self.samples_of(client) / self.layout.sample_count for client in trainers})
