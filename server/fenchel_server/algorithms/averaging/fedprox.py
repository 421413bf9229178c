"""FedProx at the server: the mean of the clients' models, weighted by rows."""

from collections.abc import Mapping, Sequence

from fenchel_common.algorithms.averaging.fedprox import FedproxSettings
from fenchel_common.ids import ClientId, RoundId
from fenchel_server.algorithms.averaging.descent import DescentServer
from fenchel_server.algorithms.averaging.plan import Numbers, Plan


class FedproxServer(DescentServer[FedproxSettings]):
    """The server half of FedProx."""

    def plan(self, round_id: RoundId, trainers: Sequence[ClientId], surveys: Mapping[ClientId, Numbers]) -> Plan:
        del round_id, surveys
        return Plan(weights=self.weights_by_samples(trainers))
