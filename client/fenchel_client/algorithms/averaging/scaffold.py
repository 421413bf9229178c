"""SCAFFOLD at a party.

Local     y_i ← y_i − η_ℓ (g_i(y_i) − c_i + c), J times from x
Control   c_i⁺ = c_i − c + (x − y_i)/(J η_ℓ) (option II)
State     x ← x + η_g·mean(y_i − x) and c ← c + |S|/N·mean(c_i⁺ − c_i); the server keeps each party's c_i, encrypted
"""

import numpy as np

from fenchel_client.algorithms.averaging.descent import DescentClient
from fenchel_client.algorithms.averaging.work import Contribution, Job, State, Update
from fenchel_common.algorithms.averaging.rails import MODEL
from fenchel_common.algorithms.averaging.scaffold import CONTRIBUTED, CONTROL, OWN_CONTROL, ScaffoldSettings


class ScaffoldClient(DescentClient[ScaffoldSettings]):
    """The client half of SCAFFOLD."""

    def train(self, state: State, job: Job) -> Contribution:
        settings, x, control, own = self.settings, state[MODEL], state[CONTROL], job.kept[OWN_CONTROL]
        y = self.descended(x, job.rng, correction=control - own)
        renewed = own - control + (x - y) / (settings.local_steps * settings.step)
        return Contribution({MODEL: y - x, CONTROL: renewed - own, OWN_CONTROL: renewed})

    def apply(self, state: State, update: Update) -> State:
        none = np.zeros_like(state[MODEL])
        return {
            MODEL: state[MODEL] + self.settings.global_step * update.mean(MODEL, otherwise=none),
            CONTROL: state[CONTROL] + update.told[CONTRIBUTED] * update.mean(CONTROL, otherwise=none),
        }
