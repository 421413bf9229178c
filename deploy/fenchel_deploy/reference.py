"""The centralized optimum of a demonstration's data, and the figures of other models on the same data."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fenchel_common.classlabels import check_classes, class_codes, one_against_rest
from fenchel_common.data.datasets import Dataset
from fenchel_common.losses import Fit, Loss
from fenchel_common.objectives import correct_predictions, primal
from fenchel_deploy.experiments.centralized import solve_centralized

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """The whole data set with its optimum.

    With several classes there is a problem for each of them: P is the mean over the classes, and a prediction is the
    class with the largest score.

    Attributes
    ----------
    labels
        The labels of each problem; one problem without classes.
    primal, least
        P at the optimum; of the problem where it is least, P there.
    fit
        How well the optimal model predicts.
    """

    dataset: Dataset
    loss: Loss
    lambda_: float
    labels: tuple[Array, ...]
    primal: float
    least: float
    fit: Fit

    @classmethod
    def of(cls, dataset: Dataset, *, loss: Loss, lambda_: float, classes: tuple[str, ...]) -> "Reference":
        if classes:
            check_classes(dataset.y, classes)
        labels = tuple(one_against_rest(dataset.y, code) for code in class_codes(classes)) or (dataset.y,)
        solved = [solve_centralized(dataset.X, y, loss=loss, lambda_=lambda_) for y in labels]
        found = [one.primal for one in solved]
        fit = solved[0].fit
        if classes:
            fit = _largest_scores(dataset, labels, np.stack([one.w for one in solved], axis=1))
        return cls(dataset, loss, lambda_, labels, sum(found) / len(found), min(found), fit)

    def objective(self, weights: Array) -> float:
        """P of a model, (M,) or with several classes (M, classes)."""
        pairs = zip(weights.reshape(len(weights), -1).T, self.labels, strict=True)
        found = [primal(self.dataset.X, y, w, loss=self.loss, lambda_=self.lambda_) for w, y in pairs]
        return sum(found) / len(found)

    def fit_of(self, weights: Array) -> Fit:
        """How well a model predicts, in the shapes of `objective`."""
        if weights.ndim == 2:
            return _largest_scores(self.dataset, self.labels, weights)
        y = self.dataset.y
        return self.loss.fit(self.loss.fit_sum(self.dataset.X @ weights, y) / len(y))


def _largest_scores(dataset: Dataset, labels: tuple[Array, ...], weights: Array) -> Fit:
    own = np.stack(labels, axis=1).argmax(axis=1)
    return Fit(accuracy=correct_predictions(dataset.X @ weights, own) / len(own))
