"""The data sets of the experiments as the papers condition them, and samples that never train.

    mnist            pixels divided by 255, both parts of the data set; the digit against the others
    digits           pixels divided by 16; the digit against the others
    covtype          columns scaled to [0, 1]; cover type 2 against the rest
    news20_rebuilt   rows of length 1, as they are

The HyFDCA paper does not say how the ten digits become two classes; one against the others is our reading.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fenchel_common.data.datasets import Dataset, numbered_features
from fenchel_common.data.shard import Matrix, Shard, load_arrays, matrix_from_arrays
from fenchel_common.errors import InvalidInput
from fenchel_common.losses import Loss, loss_named
from fenchel_common.objectives import primal
from fenchel_deploy.experiments.centralized import CentralizedSolution, solve_centralized
from fenchel_deploy.papers.definitions import ProblemPlan, SettingPlan
from fenchel_deploy.papers.splits import nonzeros, quadrants
from fenchel_server.cohorts import OverlapRule

Array = NDArray[np.float64]

BIAS: Final = "bias"
SPLIT_STREAM: Final = 7


@dataclass(frozen=True)
class Problem:
    """The samples that train, those that never do, and the problem to solve.

    `stands_in` says whether another data set has the place of the one that the experiment names.
    """

    plan: ProblemPlan
    training: Dataset
    X_validation: Matrix
    y_validation: Array
    stands_in: bool

    @property
    def loss(self) -> Loss:
        return loss_named(self.plan.loss)

    @property
    def overlap(self) -> OverlapRule:
        return OverlapRule.ERROR if self.plan.split == "quadrants" else OverlapRule.SUM

    @cached_property
    def optimum(self) -> CentralizedSolution:
        return solve_centralized(self.training.X, self.training.y, loss=self.loss, lambda_=self.plan.lambda_)

    def relative_loss(self, w: Array) -> float:
        """P_R of the paper: (P(w) − P*)/P*."""
        reached = primal(self.training.X, self.training.y, w, loss=self.loss, lambda_=self.plan.lambda_)
        return reached / self.optimum.primal - 1.0

    def accuracy(self, w: Array) -> float:
        """The fraction of the samples for validation that the model classifies correctly."""
        return float(np.mean(np.where(self.X_validation @ w >= 0.0, 1.0, -1.0) == self.y_validation))

    def shards(self, setting: SettingPlan, *, seed: int) -> list[Shard]:
        """The shards of a setting."""
        if isinstance(setting.parties, int):
            return quadrants(self.training, setting.parties)
        return nonzeros(self.training, setting.parties, seed=seed)


def load_problem(plan: ProblemPlan, folder: Path | None) -> Problem:
    """The problem of a plan, with the data set that stands in if no folder has the one that the plan names."""
    there = folder is not None and (folder / f"{plan.dataset}.npz").is_file()
    name = plan.dataset if there else plan.stands_in
    X, positive = _digits(plan) if name == "digits" else _collected(name, plan, folder)
    if plan.bias:
        X = _with_column(X, plan.bias)
    order = np.random.default_rng(SPLIT_STREAM).permutation(len(positive))[: plan.rows]
    held_out = round(plan.validation * len(order))
    # A column that is zero in all rows that train is at no party.
    kept, validation = order[held_out:], order[:held_out]
    rows = X[kept]
    features = numbered_features(X.shape[1])
    if plan.split == "nonzeros":
        used = np.flatnonzero(np.asarray(abs(csr_array(rows)).sum(axis=0)).ravel())
        X, rows, features = X[:, used], rows[:, used], tuple(features[column] for column in used.tolist())
    y = np.where(positive, 1.0, -1.0)
    training = Dataset(name, rows, y[kept], features)
    return Problem(plan, training, X[validation], y[validation], not there and plan.dataset != name)


def _with_column(X: Matrix, value: float) -> Matrix:
    column = np.full((X.shape[0], 1), value)
    if isinstance(X, csr_array):
        raise InvalidInput("bias: a sparse table gets no column of ones; leave the bias out")
    return np.hstack([X, column])


def _digits(plan: ProblemPlan) -> tuple[Matrix, NDArray[np.bool_]]:
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return bunch.data / 16.0, bunch.target == plan.positive


def _collected(name: str, plan: ProblemPlan, folder: Path | None) -> tuple[Matrix, NDArray[np.bool_]]:
    if folder is None:
        raise InvalidInput(f"{name}: needs {name}.npz; name the folder that has it with --data")
    archive = load_arrays(folder / f"{name}.npz")
    if name == "mnist":
        images = np.concatenate([archive["x_train"], archive["x_test"]]).astype(np.float64)
        digits = np.concatenate([archive["y_train"], archive["y_test"]])
        return images.reshape(len(images), -1) / 255.0, digits == plan.positive
    if name == "covtype":
        raw = archive["X"].astype(np.float64)
        low, high = raw.min(axis=0), raw.max(axis=0)
        return (raw - low) / (high - low), archive["y"] == 2
    if name == "news20_rebuilt":
        return matrix_from_arrays(archive), archive["y"].astype(np.int64) > 0
    raise InvalidInput(f"{name}: is not one of mnist, covtype, news20_rebuilt and digits")
