"""FedAvg at a party: SGD from the averaged model, on its own rows and columns.

Objective   1/n_k Σ l_i(x_{k,i}·w_k) + λ/2 ‖w_k‖², over party k's n_k rows and its own columns
Update      w_k ← w_k − γ_t ∇, γ_t = a/(b + √t) in round t, as often as `local_steps` says
State       the model, (m,) by feature name; a round's mean replaces it

In the hybrid setting x_{k,i}·w_k is not x_i·w, so the parties minimise other functions than P, and the mean of their
minimisers is not its minimiser: the naive extension of the HyFDCA paper, section 2.
"""

from collections.abc import Mapping

from fenchel_client.algorithms.averaging.rails import AveragingClient
from fenchel_client.algorithms.averaging.sgd import local_sgd
from fenchel_client.algorithms.averaging.work import Contribution, Job, State
from fenchel_common.algorithms.averaging.fedavg import FedavgSettings
from fenchel_common.algorithms.averaging.rails import MODEL


class FedavgClient(AveragingClient[FedavgSettings]):
    """The client half of FedAvg."""

    def measured_numbers(self, state: State) -> Mapping[str, float]:
        return self.own_accuracy(state)

    def train(self, state: State, job: Job) -> Contribution:
        weights = local_sgd(
            self.X, self.labels(), state[MODEL], settings=self.settings, round_id=job.round_id, rng=job.rng
        )
        return Contribution({MODEL: weights})
