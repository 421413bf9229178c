"""FedAvg at the server: the weighted mean of the clients' models."""

from collections.abc import Mapping, Sequence

from fenchel_common.algorithms.averaging.fedavg import FedavgSettings
from fenchel_common.ids import ClientId, RoundId
from fenchel_server.algorithms.averaging.descent import accuracies, accuracy_spread
from fenchel_server.algorithms.averaging.plan import Numbers, Plan
from fenchel_server.algorithms.averaging.rails import AveragingServer


class FedavgServer(AveragingServer[FedavgSettings]):
    """The server half of FedAvg."""

    def plan(self, round_id: RoundId, trainers: Sequence[ClientId], surveys: Mapping[ClientId, Numbers]) -> Plan:
        del round_id, surveys
        if self.settings.weighting == "uniform":
            return Plan()
        return Plan(weights=self.weights_by_samples(trainers))

    def figures(self, measured: Mapping[ClientId, Numbers]) -> Numbers:
        """How the clients' accuracies differ; empty if rows are shared: no accuracy then belongs to one client."""
        if not self.layout.is_horizontal:
            return {}
        return accuracy_spread(accuracies(measured))
