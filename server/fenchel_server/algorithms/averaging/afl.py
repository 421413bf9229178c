"""AFL at the server: x^{t+1} by the weights λ^t, and λ^{t+1} by a projected ascent step from the losses at x^t."""

from collections.abc import Mapping, Sequence

from fenchel_common.algorithms.averaging.afl import AflSettings
from fenchel_common.ids import ClientId, RoundId
from fenchel_server.algorithms.averaging.descent import RobustServer
from fenchel_server.algorithms.averaging.plan import Numbers, Plan


class AflServer(RobustServer[AflSettings]):
    """The server half of AFL."""

    def plan(self, round_id: RoundId, trainers: Sequence[ClientId], surveys: Mapping[ClientId, Numbers]) -> Plan:
        del round_id, trainers
        losses, weights = self.known_losses(surveys), self.weights
        risen = self.ambiguity.dual_step(weights, losses, self.settings.dual_step)
        self.stepped = self.remembered(risen, losses)
        return Plan(weights=self.by_client(weights))
