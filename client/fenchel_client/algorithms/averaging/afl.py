"""AFL at a party: local steps on its own loss, from the averaged model."""

from fenchel_client.algorithms.averaging.descent import DescentClient
from fenchel_client.algorithms.averaging.work import Contribution, Job, State
from fenchel_common.algorithms.averaging.afl import AflSettings
from fenchel_common.algorithms.averaging.rails import MODEL


class AflClient(DescentClient[AflSettings]):
    """The client half of AFL."""

    def train(self, state: State, job: Job) -> Contribution:
        return Contribution({MODEL: self.descended(state[MODEL], job.rng)})
