"""The problems that a demonstration solves, on the whole data set in one place: one, or one for each class."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from fenchel_common.classlabels import check_classes, class_codes, one_against_rest
from fenchel_common.data.shard import Matrix
from fenchel_common.losses import Fit, Loss
from fenchel_common.objectives import correct_predictions, primal
from fenchel_deploy.experiments.centralized import solve_centralized

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Optimum:
    """The centralized optimum: w (M,) or (M, classes), P there, and of the problem where P is least, P there."""

    w: Array
    primal: float
    least: float


@dataclass(frozen=True, slots=True, eq=False)
class Problems:
    """The whole data with the labels of each problem.

    With several classes, P is the mean over the classes, and a prediction is the class with the largest score.
    """

    X: Matrix
    labels: tuple[Array, ...]
    loss: Loss
    lambda_: float

    @classmethod
    def of(cls, X: Matrix, y: Array, *, loss: Loss, lambda_: float, classes: tuple[str, ...]) -> Self:
        """With names of `classes`, `y` has their codes, and there is a problem for each; otherwise there is one."""
        if classes:
            check_classes(y, classes)
        labels = tuple(one_against_rest(y, code) for code in class_codes(classes)) or (y,)
        return cls(X, labels, loss, lambda_)

    def solved(self) -> Optimum:
        found = [solve_centralized(self.X, y, loss=self.loss, lambda_=self.lambda_) for y in self.labels]
        values = [one.primal for one in found]
        w = found[0].w if len(found) == 1 else np.stack([one.w for one in found], axis=1)
        return Optimum(w, sum(values) / len(values), min(values))

    def objective(self, weights: Array) -> float:
        """P of a model, (M,) or with several classes (M, classes)."""
        pairs = zip(weights.reshape(len(weights), -1).T, self.labels, strict=True)
        found = [primal(self.X, y, w, loss=self.loss, lambda_=self.lambda_) for w, y in pairs]
        return sum(found) / len(found)

    def fit_of_classes(self, weights: Array) -> Fit:
        """How well a model (M, classes) of several classes predicts."""
        own = np.stack(self.labels, axis=1).argmax(axis=1)
        return Fit(accuracy=correct_predictions(self.X @ weights, own) / len(own))
