"""SCAFF-PD at a party (Algorithms 1 and 2).

Control     c_i = ∇f_i(x^r), on all rows; c = Σ λ_i^{r+1} c_i
Local       u_{i,j} = u_{i,j−1} − η_ℓ (g_i(u_{i,j−1}) − c_i + c), J times from x^r; Δu_i = (x^r − u_{i,J})/(η_ℓ J)
Model       x^{r+1} = x^r − τ_r Σ λ_i^{r+1} Δu_i
State       x^r and c, flat by feature name and class
"""

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.averaging.descent import DescentClient, LocalObjective, descend
from fenchel_client.algorithms.averaging.work import Contribution, Job, State, Update
from fenchel_common.algorithms.averaging.rails import MODEL
from fenchel_common.algorithms.averaging.scaffpd import CONTROL, TAU, UPDATE, ScaffpdSettings

Array = NDArray[np.float64]


def local_update(
    objective: LocalObjective,
    start: Array,
    control: Array,
    *,
    step: float,
    steps: int,
    batch: int | None = None,
    rng: np.random.Generator | None = None,
) -> Array:
    """Δu_i of Algorithm 2; `control` is c, and c_i is the gradient at the start."""
    correction = control - objective.gradient(start)
    end = descend(objective, start, step=step, steps=steps, batch=batch, rng=rng, correction=correction)
    return (start - end) / (step * steps)


class ScaffpdClient(DescentClient[ScaffpdSettings]):
    """The client half of SCAFF-PD."""

    def train(self, state: State, job: Job) -> Contribution:
        settings, start = self.settings, state[MODEL]
        tau = job.told.get(TAU)
        if tau is None:
            return Contribution({UPDATE: self.objective.gradient(start)})
        change = local_update(
            self.objective,
            start,
            state[CONTROL],
            step=tau / (settings.local_steps * settings.global_step),
            steps=settings.local_steps,
            batch=settings.batch,
            rng=job.rng,
        )
        return Contribution({UPDATE: change})

    def apply(self, state: State, update: Update) -> State:
        mean = update.mean(UPDATE, otherwise=np.zeros_like(state[MODEL]))
        tau = update.told.get(TAU)
        if tau is None:
            return {MODEL: state[MODEL], CONTROL: mean}
        return {MODEL: state[MODEL] - tau * mean, CONTROL: state[CONTROL]}
