"""FedProx at a party: steps on f_i(w) + μ/2 ‖w − w_t‖² from the averaged model w_t."""

from fenchel_client.algorithms.averaging.descent import DescentClient, descend
from fenchel_client.algorithms.averaging.work import Contribution, Job, State
from fenchel_common.algorithms.averaging.fedprox import FedproxSettings
from fenchel_common.algorithms.averaging.rails import MODEL


class FedproxClient(DescentClient[FedproxSettings]):
    """The client half of FedProx."""

    def train(self, state: State, job: Job) -> Contribution:
        settings = self.settings
        weights = descend(
            self.objective,
            state[MODEL],
            step=settings.step,
            steps=settings.local_steps,
            batch=settings.batch,
            rng=job.rng,
            pull=settings.mu,
        )
        return Contribution({MODEL: weights})
