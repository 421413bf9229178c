"""DualFL at the server: the momentum sequence and the allowed inexactness, from public numbers alone.

The server adds the encrypted changes of the clients' dual variables. It sends the clients β of (3.4) and the bound of
(3.7) or (3.8). ρ is a setting, or ν divided by the largest smoothness constant that the clients report.
"""

from collections.abc import Mapping, Sequence

from fenchel_common.algorithms.averaging.dualfl import (
    BETA,
    CRITERION_MET,
    SMOOTHNESS,
    TOLERANCE,
    DualflSettings,
    gap_bound,
    next_momentum,
)
from fenchel_common.algorithms.averaging.proximal import CLIENTS, SAMPLE_WEIGHT
from fenchel_common.ids import ClientId, RoundId
from fenchel_server.algorithms.averaging.plan import Closing, Numbers, Plan
from fenchel_server.algorithms.averaging.rails import AveragingServer

T = "t"
RHO = "rho"


class DualflServer(AveragingServer[DualflSettings]):
    """The server half of DualFL."""

    def plan(self, round_id: RoundId, trainers: Sequence[ClientId], surveys: Mapping[ClientId, Numbers]) -> Plan:
        del trainers, surveys
        clients = len(self.layout.clients)
        bound = gap_bound(
            round_id - 1,
            clients=clients,
            rho=self.memory.get(RHO, self._given_rho()),
            nu=self.settings.duality,
            gamma=self.settings.gamma,
        )
        return Plan(
            told={
                CLIENTS: float(clients),
                SAMPLE_WEIGHT: clients / self.layout.sample_count,
                BETA: self.memory.get(BETA, 0.0),
                TOLERANCE: self.settings.gap_factor * bound,
            }
        )

    def close(self, plan: Plan, reports: Mapping[ClientId, Numbers]) -> Closing:
        rho = self._rho(reports)
        t, beta = next_momentum(self.memory.get(T, 1.0), rho)
        if len(reports) < len(self.layout.clients):
            # The dual variables of missing clients did not change, so the last step gives no direction for momentum.
            t, beta = 1.0, 0.0
        met = sum(report[CRITERION_MET] for report in reports.values()) / len(reports)
        return Closing(told=plan.told, memory={T: t, BETA: beta, RHO: rho, CRITERION_MET: met})

    def figures(self, measured: Mapping[ClientId, Numbers]) -> Numbers:
        del measured
        return {"rho": self.memory[RHO], "local_criterion_met": self.memory[CRITERION_MET]} if self.memory else {}

    def _given_rho(self) -> float:
        return self.settings.rho if isinstance(self.settings.rho, float) else 0.0

    def _rho(self, reports: Mapping[ClientId, Numbers]) -> float:
        """ρ: the setting, or ν/L for the largest L that was reported in any round, and at most 1."""
        if not self.settings.asks_smoothness:
            return self._given_rho()
        largest = max(report[SMOOTHNESS] for report in reports.values())
        return min(self.settings.duality / largest, self.memory.get(RHO, 1.0))
