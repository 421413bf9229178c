"""q-FFL at the server: weights f_i^q, and h_i = q f_i^{q−1} ‖Δ_i‖² + f_i^q/η_ℓ (q-FedAvg of Li et al. 2019)."""

from collections.abc import Mapping, Sequence
from typing import Final

from fenchel_common.algorithms.averaging.qffl import TOTAL, QfflSettings
from fenchel_common.ids import ClientId, RoundId
from fenchel_server.algorithms.averaging.descent import DescentServer
from fenchel_server.algorithms.averaging.plan import Closing, Numbers, Plan

SMALLEST_LOSS: Final = 1e-12
"""A smaller loss counts as this one: 0 has no negative power, and a negative loss no real one."""


def curvature(loss: float, squared_change: float, *, q: float, step: float) -> float:
    """h_i"""
    positive = max(loss, SMALLEST_LOSS)
    return float(q * positive ** (q - 1.0) * max(squared_change, 0.0) + positive**q / step)


class QfflServer(DescentServer[QfflSettings]):
    """The server half of q-FFL."""

    _losses: Mapping[ClientId, float] = {}

    def plan(self, round_id: RoundId, trainers: Sequence[ClientId], surveys: Mapping[ClientId, Numbers]) -> Plan:
        del round_id
        self._losses = {client: max(surveys[client]["loss"], SMALLEST_LOSS) for client in trainers}
        return Plan(weights={client: loss**self.settings.q for client, loss in self._losses.items()})

    def close(self, plan: Plan, reports: Mapping[ClientId, Numbers]) -> Closing:
        del plan
        q, step = self.settings.q, self.settings.step
        total = sum(
            curvature(self._losses[client], numbers["squared_change"], q=q, step=step)
            for client, numbers in reports.items()
        )
        return Closing({TOTAL: total})
