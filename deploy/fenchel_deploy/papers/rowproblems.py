"""Problems of whole rows: the data of the DualFL, SCAFF-PD and FedSGM papers, and how they are dealt out to parties.

even         rows in equal numbers at random (DualFL, section 7)
stratified   equal numbers and class ratios (FedSGM, section 4)
dirichlet    class ratios drawn from Dir(α); half of each party's rows never train, and of the others 30 % of the
             parties lose 70 % (SCAFF-PD, C.2)
made         the robust regression of SCAFF-PD, C.1: 5 parties, 10 columns, 100 rows each
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.averaging.descent import LocalObjective
from fenchel_client.algorithms.averaging.local_problem import LocalProblem
from fenchel_client.algorithms.averaging.local_solvers import lbfgs
from fenchel_common.data.datasets import Dataset, load_dataset, numbered_features
from fenchel_common.data.heterogeneous import Rows, dirichlet_rows, row_shards, stratified_rows, thinned_rows
from fenchel_common.data.shard import Shard, load_arrays
from fenchel_common.errors import InvalidInput
from fenchel_common.losses import LOSSES
from fenchel_common.losses.multinomial import Multinomial
from fenchel_common.losses.squared import Squared
from fenchel_deploy.papers.definitions import ProblemPlan
from fenchel_deploy.papers.problems import Problem
from fenchel_deploy.papers.saddle import saddle_point
from fenchel_server.algorithms.averaging.simplex import Ambiguity

Array = NDArray[np.float64]

MADE: Final = "made"
PARTIES, COLUMNS, ROWS_EACH = 5, 10, 100
"""N, d and m of C.1."""
EXACT: Final = 1e-10
"""The duality gap to which E* is solved."""
MOST_ITERATIONS: Final = 5000
ORDER_STREAM: Final = 21
HELD_OUT_STREAM: Final = 9


@dataclass(frozen=True)
class RowProblem(Problem):
    """A problem over whole rows, whose objective is E(θ) = 1/N Σ l_i(x_i·θ) + λ/2 ‖θ‖²."""

    def energy(self, theta: Array) -> float:
        """E(θ), θ (M,) or (M, classes)."""
        whole = self._whole
        return whole.value(theta, whole.loss.value(whole.predictions(theta), whole.y))

    @cached_property
    def least(self) -> float:
        """E*"""
        whole = self._whole
        return self.energy(lbfgs(whole, whole.shift, tolerance=EXACT, iterations=MOST_ITERATIONS).theta)

    @property
    def _whole(self) -> LocalProblem:
        plan, training = self.plan, self.training
        many = plan.loss == Multinomial.name
        loss = Multinomial(plan.classes) if many else LOSSES[plan.loss]
        shape = (training.X.shape[1], plan.classes) if many else (training.X.shape[1],)
        return LocalProblem(training.X, training.y, loss, 1.0 / len(training.y), plan.lambda_, np.zeros(shape))


@dataclass(frozen=True)
class Dealt:
    """The shards of the parties, the rows of each that never train, and the point that is to be reached if known."""

    shards: list[Shard]
    held_out: list[Rows]
    solution: Array | None = None


def load_rows(plan: ProblemPlan, folder: Path | None) -> RowProblem:
    """The problem of a plan; labels are classes from 0 if the plan has more than two, and numbers if it is made."""
    there = folder is not None and (folder / f"{plan.dataset}.npz").is_file()
    name = plan.dataset if there or plan.dataset in (MADE, "breast_cancer", "digits") else plan.stands_in
    if name == MADE:
        shards = made(0.1, seed=0)
        X, y = np.concatenate([np.asarray(shard.X) for shard in shards]), np.concatenate([_y(one) for one in shards])
        training = Dataset(MADE, X, y, shards[0].features)
        return RowProblem(plan, training, X[:0], y[:0], stands_in=False)
    X, y = _table(name, folder)
    if plan.bias:
        X = np.hstack([X, np.full((len(X), 1), plan.bias)])
    if plan.centred:
        X = X - X.mean(axis=0)
        X = X / np.sqrt((X**2).sum(axis=1).mean())
    kept = np.random.default_rng(ORDER_STREAM).permutation(len(y))[: plan.rows]
    training = Dataset(name, X[kept], y[kept], numbered_features(X.shape[1]))
    return RowProblem(plan, training, X[:0], y[:0], stands_in=name != plan.dataset)


def dealt(problem: RowProblem, parties: int, case: Mapping[str, object], *, seed: int) -> Dealt:
    """The rows of a problem, dealt out to so many parties; a case may set α or σ."""
    plan, training = problem.plan, problem.training
    if plan.split == "made":
        shards = made(_number(case, "sigma", 0.1), seed=seed)
        clients = [LocalObjective(np.asarray(one.X), _y(one), Squared(), plan.lambda_) for one in shards]
        solution, _ = saddle_point(clients, Ambiguity(_number(case, "rho", 0.1)))
        return Dealt(shards, [], solution)
    if plan.split == "stratified":
        return Dealt(row_shards(training, stratified_rows(training.y, parties, seed=seed)), [])
    if plan.split == "even":
        order = np.random.default_rng([seed, ORDER_STREAM]).permutation(len(training.y))
        return Dealt(row_shards(training, [np.asarray(part) for part in np.array_split(order, parties)]), [])
    rng = np.random.default_rng([seed, HELD_OUT_STREAM])
    split = dirichlet_rows(training.y, parties, alpha=_number(case, "alpha", 0.1), seed=seed)
    split = [rng.permutation(rows) for rows in split]
    held_out = [rows[: len(rows) // 2] for rows in split]
    kept = thinned_rows([rows[len(rows) // 2 :] for rows in split], seed=seed)
    return Dealt(row_shards(training, kept), held_out)


def made(sigma: float, *, seed: int) -> list[Shard]:
    """C.1: rows a from N(0, I), and y = ⟨a, x̂ + δ_i⟩ with δ_i from N(0, σ²I) for party i."""
    rng = np.random.default_rng(seed)
    centre = rng.standard_normal(COLUMNS)
    shards = []
    for party in range(PARTIES):
        rows = rng.standard_normal((ROWS_EACH, COLUMNS))
        y = rows @ (centre + sigma * rng.standard_normal(COLUMNS))
        ids = tuple(f"{MADE}-{party}-{row:02d}" for row in range(ROWS_EACH))
        shards.append(Shard(ids=ids, features=numbered_features(COLUMNS), X=rows, y=y))
    return shards


def _table(name: str, folder: Path | None) -> tuple[Array, Array]:
    if name == "digits":
        from sklearn.datasets import load_digits

        bunch = load_digits()
        return bunch.data / 16.0, bunch.target.astype(np.float64)
    if name == "breast_cancer":
        found = load_dataset(name)
        return np.asarray(found.X), found.y
    if name == "mnist" and folder is not None:
        archive = load_arrays(folder / "mnist.npz")
        images = archive["x_train"].astype(np.float64)
        return images.reshape(len(images), -1) / 255.0, archive["y_train"].astype(np.float64)
    raise InvalidInput(f"{name}: is not one of mnist, digits, breast_cancer and made")


def _y(shard: Shard) -> Array:
    assert shard.y is not None
    return shard.y


def _number(case: Mapping[str, object], name: str, otherwise: float) -> float:
    value = case.get(name, otherwise)
    assert isinstance(value, int | float)
    return float(value)
