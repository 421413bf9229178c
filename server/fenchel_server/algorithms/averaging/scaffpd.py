"""SCAFF-PD at the server: the extrapolated dual step, which gives the weights of the clients (Algorithm 1).

s^r = (1 + θ_r) L^r − θ_r L^{r−1}, with the losses L^r of the clients
λ^{r+1} = argmin_{λ∈Λ} ψ(λ) − ⟨s^r, λ⟩ + 1/(2σ_r) ‖λ − λ^r‖²

Rounds alternate: one gathers c = Σ λ_i^{r+1} c_i, the next one Σ λ_i^{r+1} Δu_i and ends the round of the paper. Only
the first asks for losses: λ and the model are the same in the second.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fenchel_common.algorithms.averaging.scaffpd import TAU, Pace, ScaffpdSettings
from fenchel_common.ids import ClientId, RoundId
from fenchel_server.algorithms.averaging.descent import RobustServer
from fenchel_server.algorithms.averaging.plan import Closing, Numbers, Plan
from fenchel_server.algorithms.averaging.simplex import Ambiguity

Array = NDArray[np.float64]


def extrapolated_dual_step(
    ambiguity: Ambiguity, weights: Array, losses: Array, previous: Array, *, sigma: float, theta: float
) -> Array:
    """λ^{r+1} from λ^r, L^r and L^{r−1}."""
    return ambiguity.dual_step(weights, (1.0 + theta) * losses - theta * previous, sigma)


class ScaffpdServer(RobustServer[ScaffpdSettings]):
    """The server half of SCAFF-PD."""

    @property
    def pace(self) -> Pace:
        first, memory = self.settings.first_pace(len(self.layout.clients)), self.memory
        if "tau" not in memory:
            return first
        return Pace(memory["tau"], memory["sigma"], memory["theta"], first.strong_convexity)

    @property
    def _controlled(self) -> bool:
        """Whether c of the present round of the paper is known, and the corrected steps are due."""
        return self.memory.get("controlled", 0.0) > 0.0

    def surveys(self) -> bool:
        return not self._controlled

    def plan(self, round_id: RoundId, trainers: Sequence[ClientId], surveys: Mapping[ClientId, Numbers]) -> Plan:
        del round_id, trainers
        if self._controlled:
            return Plan({TAU: self.pace.tau}, self.by_client(self.weights))
        losses, pace = self.known_losses(surveys), self.pace
        previous = np.array([self.memory.get(f"loss_{position}", loss) for position, loss in enumerate(losses)])
        weights = extrapolated_dual_step(
            self.ambiguity, self.weights, losses, previous, sigma=pace.sigma, theta=pace.theta
        )
        self.stepped = {**self.memory, **self.remembered(weights, losses), "controlled": 1.0}
        return Plan(weights=self.by_client(weights))

    def close(self, plan: Plan, reports: Mapping[ClientId, Numbers]) -> Closing:
        if not self._controlled:
            return super().close(plan, reports)
        pace = self.pace.next()
        pacing = {"tau": pace.tau, "sigma": pace.sigma, "theta": pace.theta}
        return Closing(plan.told, {**self.memory, **pacing, "controlled": 0.0})
