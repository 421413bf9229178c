"""HyFEM at a party: SGD on its own model, with a penalty on the distance from the averaged one.

Objective   1/n_k Σ l_i(x_{k,i}·w_k) + λ/2 ‖w_k‖² + μ/2 ‖w_k − w_0|_k‖², over party k's n_k rows and its own columns
Update      w_k ← w_k − γ_t ∇, γ_t = a/(b + √t) in round t, as often as `local_steps` says, from its last w_k
State       w_0, (m,) by feature name; the mean of the w_k replaces it
"""

from fenchel_client.algorithms.averaging.rails import AveragingClient
from fenchel_client.algorithms.averaging.sgd import local_sgd
from fenchel_client.algorithms.averaging.work import Contribution, Job, State
from fenchel_common.algorithms.averaging.hyfem import HyfemSettings
from fenchel_common.algorithms.averaging.rails import MODEL


class HyfemClient(AveragingClient[HyfemSettings]):
    """The client half of HyFEM."""

    def train(self, state: State, job: Job) -> Contribution:
        weights = local_sgd(
            self.X,
            self.labels(),
            job.kept[MODEL],
            settings=self.settings,
            round_id=job.round_id,
            rng=job.rng,
            anchor=state[MODEL],
            mu=self.settings.mu,
        )
        return Contribution({MODEL: weights})
