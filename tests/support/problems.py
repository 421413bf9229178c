"""Small learning problems with known optima."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fenchel_common.algorithms.corrective.settings import CorrectiveSettings
from fenchel_common.data.datasets import Dataset
from fenchel_common.labelscaling import LabelScaling
from fenchel_common.losses import Loss
from fenchel_common.objectives import dual, primal
from fenchel_deploy.experiments.centralized import solve_centralized

Array = NDArray[np.float64]
ClassWeight = Literal["balanced"] | tuple[float, float] | None
"""The weights of the negative and the positive class."""


@dataclass(frozen=True)
class Problem:
    """A data set whose rows have norms of at most 1, and its optimum.

    `labels` are the labels as `loss` takes them; `label_settings` are the settings of a run that make them so.
    """

    data: Dataset
    loss: Loss
    lambda_: float
    optimum: float
    labels: Array
    label_settings: Mapping[str, Any]

    @property
    def ids(self) -> list[str]:
        """The sample ids that `partition` gives the rows."""
        count = len(self.data.y)
        return [f"{self.data.name}-{row:0{len(str(count - 1))}d}" for row in range(count)]

    def primal(self, w: Array) -> float:
        return primal(self.data.X, self.labels, w, loss=self.loss, lambda_=self.lambda_)

    def dual(self, alpha: Array) -> float:
        return dual(self.data.X, self.labels, alpha, loss=self.loss, lambda_=self.lambda_)


@lru_cache(maxsize=32)
def problem(
    *,
    rows: int = 80,
    columns: int = 8,
    loss: str = "hinge",
    lambda_: float = 1.0,
    seed: int = 0,
    class_weight: ClassWeight = None,
    sample_weights: bool = False,
    target_scale: Literal["standard", "none"] = "none",
) -> Problem:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, columns)) + 0.3
    X /= np.linalg.norm(X, axis=1, keepdims=True) * rng.uniform(1.0, 1.5, size=(rows, 1))
    score = X @ rng.standard_normal(columns) + 0.2 * rng.standard_normal(rows)
    chosen: dict[str, Any] = {"sample_weights": sample_weights, "target_scale": target_scale}
    if class_weight is not None:
        by_name = (
            class_weight
            if class_weight == "balanced"
            else dict(zip(("negative", "positive"), class_weight, strict=True))
        )
        chosen["class_weight"] = by_name
    settings = CorrectiveSettings.parse({"loss": loss, **chosen})
    y = 2.0 * score if settings.loss_function.regression else np.where(score > 0.0, 1.0, -1.0)
    y = 1e4 + 3e3 * y if target_scale == "standard" else y
    weights = rng.uniform(0.1, 4.0, size=rows) if sample_weights else None
    data = Dataset("made", X, y, tuple(f"x{column}" for column in range(columns)), weights)
    rules = settings.label_rules
    labels = LabelScaling.of_labels(rules, y).applied(y, weights, rules)
    optimum = solve_centralized(X, labels, loss=settings.loss_function, lambda_=lambda_).primal
    return Problem(data, settings.loss_function, lambda_, optimum, labels, chosen)
