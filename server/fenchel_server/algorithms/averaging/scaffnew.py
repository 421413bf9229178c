"""Scaffnew at the server: the random number of local steps before each communication, and sums."""

from collections.abc import Mapping, Sequence

from fenchel_common.algorithms.averaging.scaffnew import STEPS, ScaffnewSettings
from fenchel_common.ids import ClientId, RoundId
from fenchel_server.algorithms.averaging.consensus import ConsensusServer
from fenchel_server.algorithms.averaging.plan import Numbers, Plan


class ScaffnewServer(ConsensusServer[ScaffnewSettings]):
    """The server half of Scaffnew."""

    def plan(self, round_id: RoundId, trainers: Sequence[ClientId], surveys: Mapping[ClientId, Numbers]) -> Plan:
        del trainers, surveys
        return Plan(told={**self.sizes(), STEPS: float(self.settings.steps_in(round_id))})
