"""5GCS at a party: a proximal step on the sum of its losses.

Local problem   F_j(θ) + τ/2 ‖θ − w' − u_j/τ‖², w' = (w − γ v)/(1 + γλ)
Update          u_j ← ∇F_j(θ_j) = u_j + τ (w' − θ_j)
State           w, and v = Σ u_j
"""

from fenchel_client.algorithms.averaging.proximal import ToleratedClient
from fenchel_client.algorithms.averaging.rails import Array
from fenchel_client.algorithms.averaging.work import Contribution, Job, State, Update
from fenchel_common.algorithms.averaging.fivegcs import CHANGE, DUAL, TOTAL, FivegcsSettings
from fenchel_common.algorithms.averaging.proximal import CLIENTS, SAMPLE_WEIGHT
from fenchel_common.algorithms.averaging.rails import MODEL, MODEL_FORMAT


class FivegcsClient(ToleratedClient[FivegcsSettings]):
    """The client half of 5GCS."""

    def train(self, state: State, job: Job) -> Contribution:
        clients, dual, ahead = job.told[CLIENTS], job.kept[DUAL], self._ahead(state)
        tau = self.settings.tau or 1.0 / (2.0 * self.settings.gamma * clients)
        theta = self.solved(scale=job.told[SAMPLE_WEIGHT] / clients, mu=tau, shift=tau * ahead + dual, start=ahead)
        following = MODEL_FORMAT.rounded(dual + tau * (ahead - theta))
        return Contribution({CHANGE: following - dual, DUAL: following})

    def apply(self, state: State, update: Update) -> State:
        change = update.sums[CHANGE]
        factor = self.settings.gamma * update.told[CLIENTS] / update.weights.clip(min=1.0)
        return {MODEL: self._ahead(state) - factor * change, TOTAL: state[TOTAL] + change}

    def _ahead(self, state: State) -> Array:
        """w' of the local problem."""
        gamma = self.settings.gamma
        return (state[MODEL] - gamma * state[TOTAL]) / (1.0 + gamma * self.settings.lambda_)
