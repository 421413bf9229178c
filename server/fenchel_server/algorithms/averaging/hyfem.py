"""HyFEM at the server: the mean of the clients' own models, w_0."""

from collections.abc import Mapping, Sequence

from fenchel_common.algorithms.averaging.hyfem import HyfemSettings
from fenchel_common.ids import ClientId, RoundId
from fenchel_server.algorithms.averaging.plan import Numbers, Plan
from fenchel_server.algorithms.averaging.rails import AveragingServer


class HyfemServer(AveragingServer[HyfemSettings]):
    """The server half of HyFEM."""

    def plan(self, round_id: RoundId, trainers: Sequence[ClientId], surveys: Mapping[ClientId, Numbers]) -> Plan:
        del round_id, trainers, surveys
        return Plan()
