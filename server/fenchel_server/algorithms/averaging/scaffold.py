"""SCAFFOLD at the server: unweighted means, and the fraction of the clients that contributed."""

from collections.abc import Mapping, Sequence

from fenchel_common.algorithms.averaging.scaffold import ScaffoldSettings
from fenchel_common.ids import ClientId, RoundId
from fenchel_server.algorithms.averaging.descent import DescentServer
from fenchel_server.algorithms.averaging.plan import Closing, Numbers, Plan


class ScaffoldServer(DescentServer[ScaffoldSettings]):
    """The server half of SCAFFOLD."""

    def plan(self, round_id: RoundId, trainers: Sequence[ClientId], surveys: Mapping[ClientId, Numbers]) -> Plan:
        del round_id, trainers, surveys
        return Plan()

    def close(self, plan: Plan, reports: Mapping[ClientId, Numbers]) -> Closing:
        del plan
        return Closing({"share": len(reports) / len(self.layout.clients)})
