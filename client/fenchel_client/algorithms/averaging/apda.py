"""APDA with an inexact prox at a party: a proximal step, and a gradient step at the point that it reached.

Local problem   f_j(x̂) + 1/(2 η_x) ‖x̂ − (x_j − η_x y_j)‖², y_j = v_j − mean of v
Update          x_j ← x_j − η_x (∇f_j(x̂) + y_j); v_j from y_j, and from x_j before and after
State           the model, the mean of x_j; and the mean of v_j
Memory          x_j and v_j of the last round
"""

import numpy as np

from fenchel_client.algorithms.averaging.proximal import ToleratedClient
from fenchel_client.algorithms.averaging.rails import Array
from fenchel_client.algorithms.averaging.work import Contribution, Job, State, Update
from fenchel_common.algorithms.averaging.apda import DUAL, ApdaSettings
from fenchel_common.algorithms.averaging.proximal import SAMPLE_WEIGHT
from fenchel_common.algorithms.averaging.rails import MODEL


class ApdaClient(ToleratedClient[ApdaSettings]):
    """The client half of APDA with an inexact prox."""

    def train(self, state: State, job: Job) -> Contribution:
        settings, x, y = self.settings, job.kept[MODEL], job.kept[DUAL] - state[DUAL]
        eta_x, eta_y = settings.eta_x, settings.dual_step
        near = self.solved(
            scale=job.told[SAMPLE_WEIGHT], mu=settings.lambda_ + 1.0 / eta_x, shift=x / eta_x - y, start=x
        )
        pull = self._gradient(near, job.told[SAMPLE_WEIGHT]) + y
        following = x - eta_x * pull
        ahead = following + settings.overrelaxation * (following - x)
        return Contribution({MODEL: following, DUAL: y + eta_y * (ahead - settings.beta_y * pull)})

    def apply(self, state: State, update: Update) -> State:
        return {name: update.mean(name, otherwise=state[name]) for name in (MODEL, DUAL)}

    def _gradient(self, at: Array, loss_weight: float) -> Array:
        """∇f_j"""
        settings = self.settings
        theta = at.reshape((-1,) if settings.width == 1 else (-1, settings.width))
        alpha = settings.local_loss.subgradient(np.asarray(self.X @ theta, dtype=np.float64), self.labels())
        descent = loss_weight * np.asarray(self.X.T @ alpha, dtype=np.float64)
        return settings.lambda_ * at - descent.reshape(-1)
