"""FedSGM at a party (Algorithm 1 of the paper's appendix).

Problem     min f(w) subject to g(w) ≤ ε, f and g the means over the parties of f_j and g_j
Update      w_{j,τ+1} = w_{j,τ} − η((1 − σ)∇f_j(w_{j,τ}) + σ∇g_j(w_{j,τ})), E times from w_t; σ as the server tells it
Returned    Δ_j = C((w_t − w_{j,E})/η); then w_{t+1} = w_t − η·1/n Σ Δ_j
State       the iterate w_t and the model w̄, (m,) by feature name; w̄ ← w̄ + φ·(w_t − w̄), φ = (1 − σ)/Σ(1 − σ) over
            the rounds so far, told as `ITERATE_WEIGHT`
"""

from collections.abc import Mapping
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.averaging.constraints import ConstrainedProblem, constrained_problem
from fenchel_client.algorithms.averaging.rails import AveragingClient
from fenchel_client.algorithms.averaging.work import Contribution, Job, State, Update
from fenchel_common.algorithms.averaging.compression import (
    largest_coordinates,
    on_coordinates,
    random_coordinates,
    scaled_to_coordinates,
)
from fenchel_common.algorithms.averaging.fedsgm import (
    ITERATE,
    ITERATE_WEIGHT,
    RESIDUAL,
    SWITCH,
    UPDATE,
    FedsgmSettings,
)
from fenchel_common.algorithms.averaging.rails import MODEL
from fenchel_common.ids import RoundId

Array = NDArray[np.float64]


def local_change(problem: ConstrainedProblem, start: Array, *, switch: float, step: float, steps: int) -> Array:
    """(w_t − w_{j,E})/η, which is the sum of the directions of E steps."""
    change = np.zeros_like(start)
    for _ in range(steps):
        w = start - step * change
        # A switched-off function is not evaluated: it may be undefined there, and 0·∞ would spoil the step.
        if switch < 1.0:
            change = change + (1.0 - switch) * problem.objective(w)[1]
        if switch > 0.0:
            change = change + switch * problem.constraint(w)[1]
    return change


class FedsgmClient(AveragingClient[FedsgmSettings]):
    """The client half of FedSGM."""

    _own_memory: tuple[RoundId, Array, Array] | None = None
    """With `error_memory = "client"`: a round, and the residual before and after it."""

    @cached_property
    def problem(self) -> ConstrainedProblem:
        return constrained_problem(self.settings, self.X, self.labels())

    def check_labels(self, y: Array) -> None:
        super().check_labels(y)
        constrained_problem(self.settings, self.X, y)

    def survey(self, state: State) -> Mapping[str, float]:
        objective, descent = self.problem.objective(state[ITERATE])
        constraint, relief = self.problem.constraint(state[ITERATE])
        told = {"objective": objective, "constraint": constraint}
        if self.settings.compression == "quantised":
            told |= {
                "objective_reach": float(np.abs(descent).max()),
                "constraint_reach": float(np.abs(relief).max()),
            }
        return told

    def train(self, state: State, job: Job) -> Contribution:
        settings = self.settings
        switch, steps = job.told[SWITCH], settings.local_steps
        change = local_change(self.problem, state[ITERATE], switch=switch, step=settings.step, steps=steps)
        if settings.compression == "none":
            return Contribution({UPDATE: change})
        if settings.compression == "quantised":
            lanes = settings.lanes(job.told)
            slots = np.zeros_like(change)
            slots[: lanes.slots(len(change))] = lanes.packed(lanes.quantised(change, job.rng))
            return Contribution({UPDATE: slots})
        if settings.coordinates == "own":
            own = random_coordinates(len(change), settings.k, job.rng)
            return Contribution({UPDATE: scaled_to_coordinates(change, own)})
        assert job.coordinates is not None, "Rand-K and Top-K come with coordinates"
        if settings.compression == "rand_k":
            return Contribution({UPDATE: scaled_to_coordinates(change, job.coordinates)})
        return self._fed_back(change, job)

    @property
    def votes_for_coordinates(self) -> bool:
        return self.settings.compression == "top_k"

    def apply(self, state: State, update: Update) -> State:
        iterate, model, told = state[ITERATE], state[MODEL], update.told
        if self.settings.compression == "quantised":
            lanes = self.settings.lanes(told)
            slots = update.sums[UPDATE][: lanes.slots(len(iterate))]
            mean = lanes.unpacked(slots, len(iterate)) / update.weights[0]
        else:
            mean = update.mean(UPDATE, otherwise=np.zeros_like(iterate))
        return {
            MODEL: model + told[ITERATE_WEIGHT] * (iterate - model),
            ITERATE: iterate - self.settings.step * mean,
        }

    def _fed_back(self, change: Array, job: Job) -> Contribution:
        """Top-K with error feedback, and the client's votes for the coordinates of the next round."""
        assert job.coordinates is not None
        earlier = self._earlier_residual(job)
        wanted = change + earlier
        sent = on_coordinates(wanted, job.coordinates)
        residual = wanted - sent
        if self.settings.error_memory == "client":
            self._own_memory = (job.round_id, earlier, residual)
        votes = self.counted_by_server(largest_coordinates(residual + change, self.settings.k))
        reported = {name: float(vote) for name, vote in zip(self.settings.votes, votes, strict=True)}
        return Contribution({UPDATE: sent, RESIDUAL: residual}, reported)

    def _earlier_residual(self, job: Job) -> Array:
        """The sum of the changes that earlier rounds did not send; a repeated round gets the same residual again."""
        if self.settings.error_memory == "server":
            return job.kept[RESIDUAL]
        if self._own_memory is None or job.round_id < self._own_memory[0]:
            return np.zeros(self.X.shape[1])
        round_id, before, after = self._own_memory
        return before if job.round_id == round_id else after
