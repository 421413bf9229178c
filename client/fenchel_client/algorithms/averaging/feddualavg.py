"""FedDualAvg at a party: steps along the gradients of its losses, added up in a dual vector.

Update   z^(k+1) = z^k − η_c ∇F_j(w^k), w^k = z^k times the shrinkage of the step; T times from z
State    the model, and z
"""

import numpy as np

from fenchel_client.algorithms.averaging.proximal import ConsensusClient
from fenchel_client.algorithms.averaging.work import Contribution, Job, State, Update
from fenchel_common.algorithms.averaging.feddualavg import CHANGE, DUAL, FeddualavgSettings
from fenchel_common.algorithms.averaging.proximal import SAMPLE_WEIGHT
from fenchel_common.algorithms.averaging.rails import MODEL
from fenchel_common.ids import RoundId


class FeddualavgClient(ConsensusClient[FeddualavgSettings]):
    """The client half of FedDualAvg."""

    def train(self, state: State, job: Job) -> Contribution:
        settings, y = self.settings, self.labels()
        shape = (-1,) if settings.width == 1 else (-1, settings.width)
        start = state[DUAL].reshape(shape)
        z = start
        for step in range(settings.local_steps):
            w = settings.shrinkage(job.round_id, step) * z
            alpha = settings.local_loss.subgradient(np.asarray(self.X @ w, dtype=np.float64), y)
            pull = job.told[SAMPLE_WEIGHT] * np.asarray(self.X.T @ alpha, dtype=np.float64)
            z = z + settings.client_step * pull
        return Contribution({CHANGE: (z - start).reshape(-1)})

    def apply(self, state: State, update: Update) -> State:
        mean = update.mean(CHANGE, otherwise=np.zeros_like(state[DUAL]))
        dual = state[DUAL] + self.settings.server_step * mean
        return {MODEL: self.settings.shrinkage(RoundId(update.round_id + 1)) * dual, DUAL: dual}
