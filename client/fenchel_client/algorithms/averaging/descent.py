"""Gradient steps on a party's own rows, for the algorithms whose parties hold whole rows.

Objective   f_i(x) = 1/n_i Σ l(x_j·x, y_j) + λ/2 ‖x‖², x (m,), or (m·k,) for k classes
Step        u ← u − η_ℓ (g_i(u) + correction + μ (u − anchor)), g_i the gradient on all rows, or on some drawn at random
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.averaging.rails import AveragingClient
from fenchel_client.algorithms.averaging.work import Contribution, Job, State
from fenchel_common.algorithms.averaging.descent import DescentLoss, DescentSettings
from fenchel_common.algorithms.averaging.rails import MODEL
from fenchel_common.objectives import Matrix, correct_predictions

Array = NDArray[np.float64]
Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class LocalObjective:
    """f_i of a party; vectors are flat, by feature and then by class."""

    X: Matrix
    y: Array
    loss: DescentLoss
    ridge: float
    width: int = 1

    @property
    def length(self) -> int:
        return int(self.X.shape[1]) * self.width

    def scores(self, x: Array, rows: Rows | None = None) -> Array:
        X = self.X if rows is None else self.X[rows]
        return np.asarray(X @ (x if self.width == 1 else x.reshape(-1, self.width)), dtype=np.float64)

    def value(self, x: Array) -> float:
        return float(self.loss.value(self.scores(x), self.y).mean()) + self.ridge / 2.0 * float(x @ x)

    def gradient(self, x: Array, rows: Rows | None = None) -> Array:
        """∇f_i, or its estimate on some rows."""
        X, labels = (self.X, self.y) if rows is None else (self.X[rows], self.y[rows])
        descent = np.asarray(X.T @ self.loss.subgradient(self.scores(x, rows), labels), dtype=np.float64)
        return self.ridge * x - descent.reshape(-1) / len(labels)

    def correct(self, x: Array) -> int:
        return correct_predictions(self.scores(x), self.y)


def descend(
    objective: LocalObjective,
    start: Array,
    *,
    step: float,
    steps: int,
    batch: int | None = None,
    rng: np.random.Generator | None = None,
    correction: Array | float = 0.0,
    pull: float = 0.0,
) -> Array:
    """The point u after some steps from `start`; `pull` is μ, and `start` is the anchor.

    Rows of a batch are drawn without replacement, so that a batch of all rows is the whole gradient.
    """
    u = start
    for _ in range(steps):
        rows = None
        if batch is not None and batch < len(objective.y):
            assert rng is not None, "a batch is drawn by a seeded generator"
            rows = rng.permutation(len(objective.y))[:batch]
        u = u - step * (objective.gradient(u, rows) + correction + pull * (u - start))
    return u


S = TypeVar("S", bound=DescentSettings)


class DescentClient(AveragingClient[S]):
    """The client half of an algorithm of gradient steps; a subclass overrides `train` and `apply` where it differs."""

    @cached_property
    def objective(self) -> LocalObjective:
        settings = self.settings
        return LocalObjective(self.X, self.labels(), settings.local_loss, settings.lambda_, settings.width)

    def losses(self, predictions: Array, y: Array) -> tuple[float, int]:
        total = float(self.settings.local_loss.value(predictions, y).sum())
        return total, 0 if self.settings.predicts_numbers else correct_predictions(predictions, y)

    def train(self, state: State, job: Job) -> Contribution:
        """The model after the local steps of the settings, from the averaged model."""
        return Contribution({MODEL: self.descended(state[MODEL], job.rng)})

    def measured_numbers(self, state: State) -> Mapping[str, float]:
        return self.own_accuracy(state) if self.settings.measured else {}

    def survey(self, state: State) -> Mapping[str, float]:
        return {"loss": self.objective.value(state[MODEL])}

    def descended(self, start: Array, rng: np.random.Generator, *, correction: Array | float = 0.0) -> Array:
        """The point after the local steps of the settings, from `start`."""
        settings = self.settings
        return descend(
            self.objective,
            start,
            step=settings.step,
            steps=settings.local_steps,
            batch=settings.batch,
            rng=rng,
            correction=correction,
        )
