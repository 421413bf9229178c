"""DRFA at a party: local steps, and a snapshot of the point after a number of them that the server draws.

State     the model and the snapshot: the means over the parties of their last points and of their snapshots
Survey    the party's loss at the snapshot
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.averaging.descent import DescentClient, LocalObjective, descend
from fenchel_client.algorithms.averaging.work import Contribution, Job, State, Update
from fenchel_common.algorithms.averaging.drfa import SNAPSHOT, SNAPSHOT_STEP, DrfaSettings
from fenchel_common.algorithms.averaging.rails import MODEL

Array = NDArray[np.float64]


def steps_with_snapshot(
    objective: LocalObjective,
    start: Array,
    *,
    snapshot_step: int,
    step: float,
    steps: int,
    batch: int | None = None,
    rng: np.random.Generator | None = None,
) -> tuple[Array, Array]:
    """The point after all local steps, and the point after the first `snapshot_step` of them."""
    snapshot = descend(objective, start, step=step, steps=snapshot_step, batch=batch, rng=rng)
    return descend(objective, snapshot, step=step, steps=steps - snapshot_step, batch=batch, rng=rng), snapshot


class DrfaClient(DescentClient[DrfaSettings]):
    """The client half of DRFA."""

    def survey(self, state: State) -> Mapping[str, float]:
        return {"loss": self.objective.value(state[SNAPSHOT])}

    def train(self, state: State, job: Job) -> Contribution:
        settings = self.settings
        end, snapshot = steps_with_snapshot(
            self.objective,
            state[MODEL],
            snapshot_step=int(job.told[SNAPSHOT_STEP]),
            step=settings.step,
            steps=settings.local_steps,
            batch=settings.batch,
            rng=job.rng,
        )
        return Contribution({MODEL: end, SNAPSHOT: snapshot})

    def apply(self, state: State, update: Update) -> State:
        return {name: update.mean(name, otherwise=state[name]) for name in (MODEL, SNAPSHOT)}
