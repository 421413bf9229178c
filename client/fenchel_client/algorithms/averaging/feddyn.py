"""FedDyn at a party: a local problem less its last gradient, with a penalty on the distance from the model.

Local problem   f_j(θ) − ⟨g_j, θ⟩ + α/2 ‖θ − w‖²
Update          g_j ← g_j − α (θ_j − w), the gradient of f_j at θ_j
State           w, and h = the mean over the parties of their last g_j
"""

from fenchel_client.algorithms.averaging.proximal import ToleratedClient
from fenchel_client.algorithms.averaging.work import Contribution, Job, State, Update
from fenchel_common.algorithms.averaging.feddyn import CORRECTION, GRADIENT, FeddynSettings
from fenchel_common.algorithms.averaging.proximal import CLIENTS, SAMPLE_WEIGHT
from fenchel_common.algorithms.averaging.rails import MODEL


class FeddynClient(ToleratedClient[FeddynSettings]):
    """The client half of FedDyn."""

    def train(self, state: State, job: Job) -> Contribution:
        alpha, centre, gradient = self.settings.alpha, state[MODEL], job.kept[GRADIENT]
        theta = self.solved(
            scale=job.told[SAMPLE_WEIGHT],
            mu=self.settings.lambda_ + alpha,
            shift=gradient + alpha * centre,
            start=centre,
        )
        return Contribution({MODEL: theta, GRADIENT: gradient - alpha * (theta - centre)})

    def apply(self, state: State, update: Update) -> State:
        alpha = self.settings.alpha
        moved = update.sums[MODEL] - update.weights * state[MODEL]
        correction = state[CORRECTION] - alpha * moved / update.told[CLIENTS]
        mean = update.mean(MODEL, otherwise=state[MODEL])
        return {MODEL: mean - correction / alpha, CORRECTION: correction}
