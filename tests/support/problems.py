"""Small learning problems with known optima."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fenchel_common.data.datasets import Dataset
from fenchel_common.losses import Loss, loss_named
from fenchel_common.losses.weighted import ClassWeighted
from fenchel_common.objectives import dual, primal
from fenchel_deploy.experiments.centralized import solve_centralized

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Problem:
    """A data set whose rows have norms of at most 1, and its optimum."""

    data: Dataset
    loss: Loss
    lambda_: float
    optimum: float

    @property
    def ids(self) -> list[str]:
        """The sample ids that `partition` gives the rows."""
        count = len(self.data.y)
        return [f"{self.data.name}-{row:0{len(str(count - 1))}d}" for row in range(count)]

    def primal(self, w: Array) -> float:
        return primal(self.data.X, self.data.y, w, loss=self.loss, lambda_=self.lambda_)

    def dual(self, alpha: Array) -> float:
        return dual(self.data.X, self.data.y, alpha, loss=self.loss, lambda_=self.lambda_)


@lru_cache(maxsize=32)
def problem(
    *,
    rows: int = 80,
    columns: int = 8,
    loss: str = "hinge",
    lambda_: float = 1.0,
    seed: int = 0,
    positive_weight: float = 1.0,
) -> Problem:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, columns)) + 0.3
    X /= np.linalg.norm(X, axis=1, keepdims=True) * rng.uniform(1.0, 1.5, size=(rows, 1))
    score = X @ rng.standard_normal(columns) + 0.2 * rng.standard_normal(rows)
    chosen = loss_named(loss) if positive_weight == 1.0 else ClassWeighted(loss_named(loss), positive_weight)
    y = 2.0 * score if chosen.regression else np.where(score > 0.0, 1.0, -1.0)
    data = Dataset("made", X, y, tuple(f"x{column}" for column in range(columns)))
    return Problem(data, chosen, lambda_, solve_centralized(X, y, loss=chosen, lambda_=lambda_).primal)
