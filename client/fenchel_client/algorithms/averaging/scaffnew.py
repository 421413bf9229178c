"""Scaffnew at a party: gradient steps on all its rows, with a control variate.

Update   θ_j ← θ_j − γ (∇f_j(θ_j) − c_j), as often as the server says, from the model
State    the model, the mean of θ_j; and the mean of c_j, which is zero unless a party was missing
Memory   θ_j and c_j of the last round
"""

import numpy as np

from fenchel_client.algorithms.averaging.proximal import ConsensusClient
from fenchel_client.algorithms.averaging.work import Contribution, Job, State, Update
from fenchel_common.algorithms.averaging.proximal import SAMPLE_WEIGHT
from fenchel_common.algorithms.averaging.rails import MODEL
from fenchel_common.algorithms.averaging.scaffnew import STEPS, VARIATE, ScaffnewSettings


class ScaffnewClient(ConsensusClient[ScaffnewSettings]):
    """The client half of Scaffnew."""

    def train(self, state: State, job: Job) -> Contribution:
        settings, y = self.settings, self.labels()
        pulled = settings.p / settings.step * (state[MODEL] - job.kept[MODEL])
        variate = job.kept[VARIATE] - state[VARIATE] + pulled
        shape = (-1,) if settings.width == 1 else (-1, settings.width)
        theta, shift = state[MODEL].reshape(shape), variate.reshape(shape)
        for _ in range(int(job.told[STEPS])):
            alpha = settings.local_loss.subgradient(np.asarray(self.X @ theta, dtype=np.float64), y)
            pull = job.told[SAMPLE_WEIGHT] * np.asarray(self.X.T @ alpha, dtype=np.float64)
            theta = theta - settings.step * (settings.lambda_ * theta - pull - shift)
        return Contribution({MODEL: theta.reshape(-1), VARIATE: variate})

    def apply(self, state: State, update: Update) -> State:
        return {name: update.mean(name, otherwise=state[name]) for name in (MODEL, VARIATE)}
