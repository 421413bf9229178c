"""The problems that a demonstration solves, on the whole data set in one place: one, or one for each class."""

from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fenchel_common.classlabels import check_classes, class_codes, one_against_rest
from fenchel_common.data.shard import Matrix
from fenchel_common.losses import Fit, Loss
from fenchel_common.objectives import correct_predictions, primal
from fenchel_common.scoresums import ScoreFigures, exact_figures
from fenchel_deploy.experiments.centralized import solve_centralized

Array = NDArray[np.float64]

ROUNDING: Final = 1e-12
INTERCEPT_SHARE: Final = 1e-9
"""What the square of the intercept is multiplied by in the regulariser of the problem that is solved in its place."""


@dataclass(frozen=True, slots=True, eq=False)
class Optimum:
    """The centralized optimum: w (M,) or (M, classes), P there, and of the problem where P is least, P there."""

    w: Array
    primal: float
    least: float

    def relative_error(self, primal: float) -> float | None:
        """(P − P*)/P*; None where P* is no more than rounding error."""
        return (primal - self.primal) / self.primal if self.primal > ROUNDING else None


@dataclass(frozen=True, slots=True, eq=False)
class Problems:
    """The whole data with the labels of each problem.

    With several classes, P is the mean over the classes, and a prediction is the class with the largest score. With an
    intercept, the last column of X is of ones, and its weight is not regularised.
    """

    X: Matrix
    labels: tuple[Array, ...]
    loss: Loss
    lambda_: float
    intercept: bool = False

    @classmethod
    def of(
        cls, X: Matrix, y: Array, *, loss: Loss, lambda_: float, classes: tuple[str, ...], intercept: bool = False
    ) -> Self:
        """With names of `classes`, there is a problem for each; otherwise there is one.

        `y` has the labels, or the codes of classes; if samples have weights, those of each problem after them.
        """
        if not classes:
            return cls(X, (y,), loss, lambda_, intercept)
        codes = y if y.ndim == 1 else y[:, 0]
        check_classes(codes, classes)
        labels = [one_against_rest(codes, code) for code in class_codes(classes)]
        if y.ndim == 2:
            labels = [np.column_stack(pair) for pair in zip(labels, y.T[1:], strict=True)]
        return cls(X, tuple(labels), loss, lambda_, intercept)

    def solved(self) -> Optimum:
        # A constant so large that its weight is hardly regularised: by less than 1e-9 times its square.
        scale = np.ones(self.X.shape[1])
        scale[-1] = np.sqrt(self.lambda_ / INTERCEPT_SHARE) if self.intercept else 1.0
        scaled = csr_array(self.X * scale) if isinstance(self.X, csr_array) else self.X * scale
        found = [solve_centralized(scaled, y, loss=self.loss, lambda_=self.lambda_).w * scale for y in self.labels]
        values = [self._primal(w, y) for w, y in zip(found, self.labels, strict=True)]
        w = found[0] if len(found) == 1 else np.stack(found, axis=1)
        return Optimum(w, sum(values) / len(values), min(values))

    def objective(self, weights: Array) -> float:
        """P of a model, (M,) or with several classes (M, classes)."""
        pairs = zip(weights.reshape(len(weights), -1).T, self.labels, strict=True)
        found = [self._primal(w, y) for w, y in pairs]
        return sum(found) / len(found)

    def _primal(self, w: Array, y: Array) -> float:
        whole = primal(self.X, y, w, loss=self.loss, lambda_=self.lambda_)
        return whole - self.lambda_ / 2.0 * float(w[-1]) ** 2 if self.intercept else whole

    def scores(self, weights: Array) -> ScoreFigures | None:
        """How well the scores of a model predict; None with several classes."""
        return exact_figures(self.loss, self.X @ weights, self.labels[0]) if weights.ndim == 1 else None

    def fit_of_classes(self, weights: Array) -> Fit:
        """How well a model (M, classes) of several classes predicts."""
        own = np.stack([y if y.ndim == 1 else y[:, 0] for y in self.labels], axis=1).argmax(axis=1)
        return Fit(accuracy=correct_predictions(self.X @ weights, own) / len(own))
