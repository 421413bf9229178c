"""q-FFL at a party: Δ_i = (x − u_i)/η_ℓ after local steps; then x ← x − Σ f_i^q Δ_i / Σ h_i, with the server's h_i."""

from fenchel_client.algorithms.averaging.descent import DescentClient
from fenchel_client.algorithms.averaging.work import Contribution, Job, State, Update
from fenchel_common.algorithms.averaging.qffl import TOTAL, UPDATE, QfflSettings
from fenchel_common.algorithms.averaging.rails import MODEL


class QfflClient(DescentClient[QfflSettings]):
    """The client half of q-FFL."""

    def train(self, state: State, job: Job) -> Contribution:
        change = (state[MODEL] - self.descended(state[MODEL], job.rng)) / self.settings.step
        return Contribution({UPDATE: change}, {"squared_change": float(change @ change)})

    def apply(self, state: State, update: Update) -> State:
        return {MODEL: state[MODEL] - update.sums[UPDATE] / update.told[TOTAL]}
