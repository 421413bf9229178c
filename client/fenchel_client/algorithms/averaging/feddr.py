"""FedDR at a party: a proximal step at a point that moves towards the model.

Local problem   f_j(θ) + 1/(2η) ‖θ − y_j‖², y_j ← y_j + α (w − θ_j)
Update          x̂_j ← 2 θ_j − y_j
State           w = 1/K Σ x̂_j, and that sum
Memory          x̂_j and θ_j, from which y_j = 2 θ_j − x̂_j
"""

from fenchel_client.algorithms.averaging.proximal import ToleratedClient
from fenchel_client.algorithms.averaging.work import Contribution, Job, State, Update
from fenchel_common.algorithms.averaging.feddr import CHANGE, REFLECTED, SOLUTION, TOTAL, FeddrSettings
from fenchel_common.algorithms.averaging.proximal import CLIENTS, SAMPLE_WEIGHT
from fenchel_common.algorithms.averaging.rails import MODEL, MODEL_FORMAT


class FeddrClient(ToleratedClient[FeddrSettings]):
    """The client half of FedDR."""

    def train(self, state: State, job: Job) -> Contribution:
        eta, solution, reflected = self.settings.eta, job.kept[SOLUTION], job.kept[REFLECTED]
        point = 2.0 * solution - reflected + self.settings.alpha * (state[MODEL] - solution)
        theta = self.solved(
            scale=job.told[SAMPLE_WEIGHT],
            mu=self.settings.lambda_ + 1.0 / eta,
            shift=point / eta,
            start=solution,
        )
        # Rounded here, so that the changes add up to x̂_j without any further error.
        following = MODEL_FORMAT.rounded(2.0 * theta - point)
        return Contribution({CHANGE: following - reflected, REFLECTED: following, SOLUTION: theta})

    def apply(self, state: State, update: Update) -> State:
        total = state[TOTAL] + update.sums[CHANGE]
        return {MODEL: total / update.told[CLIENTS], TOTAL: total}
