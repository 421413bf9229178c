"""SCAFFOLD at the server: unweighted means, and the fraction of the clients that contributed."""

from collections.abc import Mapping

from fenchel_common.algorithms.averaging.scaffold import CONTRIBUTED, ScaffoldSettings
from fenchel_common.ids import ClientId
from fenchel_server.algorithms.averaging.descent import DescentServer
from fenchel_server.algorithms.averaging.plan import Closing, Numbers, Plan


class ScaffoldServer(DescentServer[ScaffoldSettings]):
    """The server half of SCAFFOLD."""

    def close(self, plan: Plan, reports: Mapping[ClientId, Numbers]) -> Closing:
        del plan
        return Closing({CONTRIBUTED: len(reports) / len(self.layout.clients)})
