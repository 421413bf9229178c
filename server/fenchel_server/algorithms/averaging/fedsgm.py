"""FedSGM at the server: the switch between objective and constraint, and the average (Algorithm 1 of the appendix).

Hard switching   σ(z) = 1 for z > 0, else 0
Soft switching   σ(z) = min{1, [1 + βz]₊}, β ≥ 2/ε
Model            w̄ = Σ (1 − σ_t) w_t / Σ (1 − σ_t) (Theorems 6 and 7)

The server sees f_j(w_t) and g_j(w_t). By convexity f(w̄) and g(w̄) are at most the same averages of f(w_t) and g(w_t).
The server reports these averages as bounds: g(w̄) ≤ `constraint_bound` ≤ ε proves that the model is feasible.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fenchel_common.algorithms.averaging.compression import Lanes, Positions, most_wanted
from fenchel_common.algorithms.averaging.fedsgm import (
    HEADROOM,
    ITERATE_WEIGHT,
    LANE_BITS,
    LIMIT,
    QUANTUM,
    SWITCH,
    FedsgmSettings,
)
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.layout import FederationLayout
from fenchel_server.algorithms.averaging.plan import Closing, Numbers, Plan
from fenchel_server.algorithms.averaging.rails import AveragingServer


def switching_weight(excess: float, *, rule: Literal["soft", "hard"], beta: float) -> float:
    """σ_β(g(w_t) − ε)."""
    if rule == "hard":
        return 1.0 if excess > 0.0 else 0.0
    return min(1.0, max(0.0, 1.0 + beta * excess))


class FedsgmServer(AveragingServer[FedsgmSettings]):
    """The server half of FedSGM."""

    _means: tuple[float, float] = (0.0, 0.0)
    """f(w_t) and g(w_t) of the round under way."""

    def __init__(
        self,
        settings: FedsgmSettings,
        *,
        layout: FederationLayout,
        key: RunKey,
        preparations: Mapping[ClientId, bytes],
        records: Sequence[bytes],
    ) -> None:
        super().__init__(settings, layout=layout, key=key, preparations=preparations, records=records)
        self._length = len(layout.features)
        if settings.compression in ("rand_k", "top_k") and settings.k > self._length:
            raise InvalidInput(f"k: is {settings.k}, but the model has {self._length} coordinates; use fewer")

    def plan(self, round_id: RoundId, trainers: Sequence[ClientId], surveys: Mapping[ClientId, Numbers]) -> Plan:
        settings = self.settings
        objective = fmean(surveys[client]["objective"] for client in trainers)
        constraint = fmean(surveys[client]["constraint"] for client in trainers)
        switch = switching_weight(constraint - settings.tolerance, rule=settings.switching, beta=settings.beta)
        self._means = (objective, constraint)
        told = {SWITCH: switch}
        if settings.compression == "quantised":
            reach = max(
                (1.0 - switch) * surveys[client]["objective_reach"] + switch * surveys[client]["constraint_reach"]
                for client in trainers
            )
            lanes = Lanes.of(
                reach=settings.local_steps * reach,
                levels=settings.levels,
                headroom=HEADROOM,
                clients=len(self.layout.clients),
            )
            told |= {QUANTUM: lanes.step, LIMIT: float(lanes.limit), LANE_BITS: float(lanes.bits)}
            return Plan(told, coordinates=np.arange(lanes.slots(self._length)))
        return Plan(told, coordinates=self._coordinates(round_id))

    def close(self, plan: Plan, reports: Mapping[ClientId, Numbers]) -> Closing:
        before, (objective, constraint) = self.memory, self._means
        weight = 1.0 - plan.told[SWITCH]
        total = before.get("weight", 0.0) + weight
        memory = {
            "weight": total,
            "objective_sum": before.get("objective_sum", 0.0) + weight * objective,
            "constraint_sum": before.get("constraint_sum", 0.0) + weight * constraint,
            "violations": before.get("violations", 0.0) + (constraint > self.settings.tolerance),
            "objective": objective,
            "constraint": constraint,
        }
        if self.settings.compression == "top_k":
            votes = [np.array([report[name] for name in self.settings.votes]) for report in reports.values()]
            memory |= dict(zip(self.settings.votes, self._wanted(votes).tolist(), strict=True))
        return Closing({**plan.told, ITERATE_WEIGHT: weight / total if total > 0.0 else 1.0}, memory)

    def figures(self, measured: Mapping[ClientId, Numbers]) -> Numbers:
        del measured
        memory = self.memory
        if not memory:
            return {}
        names = ("objective", "constraint", "violations")
        figures = {name: memory[name] for name in names}
        if memory["weight"] > 0.0:
            figures["objective_bound"] = memory["objective_sum"] / memory["weight"]
            figures["constraint_bound"] = memory["constraint_sum"] / memory["weight"]
        return figures

    def _coordinates(self, round_id: RoundId) -> Positions | None:
        settings = self.settings
        if settings.covers_all:
            return None
        if settings.compression == "top_k" and settings.votes[0] in self.memory:
            return np.array([self.memory[name] for name in settings.votes], dtype=np.int64)
        return settings.drawn_coordinates(round_id, self._length)

    def _wanted(self, votes: Sequence[NDArray[np.float64]]) -> Positions:
        sound = [vote.astype(np.int64) for vote in votes if vote.min() >= 0.0 and vote.max() < self._length]
        return most_wanted(sound, self.settings.k, self._length)
