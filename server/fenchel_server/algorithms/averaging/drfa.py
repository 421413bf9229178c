"""DRFA at the server: draws the clients and the local step at which losses are evaluated; makes the dual step."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from fenchel_common.algorithms.averaging.drfa import SNAPSHOT_STEP, DrfaSettings
from fenchel_common.ids import ClientId, RoundId
from fenchel_server.algorithms.averaging.descent import RobustServer
from fenchel_server.algorithms.averaging.plan import Numbers, Plan

DRAW_STREAM: Final = 0xDF


class DrfaServer(RobustServer[DrfaSettings]):
    """The server half of DRFA."""

    def plan(self, round_id: RoundId, trainers: Sequence[ClientId], surveys: Mapping[ClientId, Numbers]) -> Plan:
        settings = self.settings
        rng = np.random.default_rng([settings.seed, round_id, DRAW_STREAM])
        losses, weights = self.known_losses(surveys), self.weights
        # In the first round there are no losses of a snapshot model yet, so there is no dual step.
        if self.memory:
            weights = self.ambiguity.dual_step(weights, losses, settings.dual_step)
        self.stepped = self.remembered(weights, losses)
        told = {SNAPSHOT_STEP: float(rng.integers(1, settings.local_steps + 1))}
        if settings.sampled is None:
            return Plan(told, self.by_client(weights))
        chances = np.array([self.by_client(weights)[client] for client in trainers])
        chances = chances / chances.sum() if chances.sum() > 0.0 else np.full(len(trainers), 1.0 / len(trainers))
        drawn = rng.choice(len(trainers), size=settings.sampled, p=chances)
        counts = np.bincount(drawn, minlength=len(trainers)).astype(np.float64)
        return Plan(told, dict(zip(trainers, counts.tolist(), strict=True)))
