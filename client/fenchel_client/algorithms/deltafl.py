"""Δ-FL at a party: local steps on its own loss, from the averaged model."""

from fenchel_client.algorithms.averaging import Contribution, Job, State
from fenchel_client.algorithms.descent import DescentClient
from fenchel_common.algorithms.averaging import MODEL
from fenchel_common.algorithms.deltafl import DeltaflSettings


class DeltaflClient(DescentClient[DeltaflSettings]):
    """The client half of Δ-FL."""

    def train(self, state: State, job: Job) -> Contribution:
        return Contribution({MODEL: self.descended(state[MODEL], job.rng)})
