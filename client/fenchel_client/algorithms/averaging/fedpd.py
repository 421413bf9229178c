"""FedPD at a party: a local problem with a multiplier and a penalty on the distance from the model.

Local problem   f_j(θ) + ⟨π_j, θ − w⟩ + 1/(2η) ‖θ − w‖²
Update          π_j ← π_j + (θ_j − w)/η
State           w, the mean of θ_j + η π_j
"""

from fenchel_client.algorithms.averaging.proximal import ToleratedClient
from fenchel_client.algorithms.averaging.work import Contribution, Job, State
from fenchel_common.algorithms.averaging.fedpd import MULTIPLIER, FedpdSettings
from fenchel_common.algorithms.averaging.proximal import SAMPLE_WEIGHT
from fenchel_common.algorithms.averaging.rails import MODEL


class FedpdClient(ToleratedClient[FedpdSettings]):
    """The client half of FedPD."""

    def train(self, state: State, job: Job) -> Contribution:
        eta, centre, multiplier = self.settings.eta, state[MODEL], job.kept[MULTIPLIER]
        theta = self.solved(
            scale=job.told[SAMPLE_WEIGHT],
            mu=self.settings.lambda_ + 1.0 / eta,
            shift=centre / eta - multiplier,
            start=centre,
        )
        following = multiplier + (theta - centre) / eta
        return Contribution({MODEL: theta + eta * following, MULTIPLIER: following})
