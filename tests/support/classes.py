"""Small learning problems of several classes, and corrective federations that train on them in one process."""

from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fenchel_common.algorithms.corrective.settings import CorrectiveSettings
from fenchel_common.classlabels import class_code, one_against_rest
from fenchel_common.data.datasets import Dataset
from fenchel_common.data.partition import partition
from fenchel_common.losses import loss_named
from fenchel_common.objectives import primal
from fenchel_deploy.experiments.centralized import solve_centralized
from fenchel_deploy.inprocess.layouts import IN_CLEAR
from support.keys import MASKS, cipher, run_key
from support.simulation import Simulation

Array = NDArray[np.float64]

NAMES: Final = ("red", "green", "7")
LAMBDA: Final = 0.05


def coloured(rows: int = 60, columns: int = 8) -> Dataset:
    """Samples around three centres, each of one class."""
    rng = np.random.default_rng(3)
    classes = np.arange(rows) % len(NAMES)
    X = rng.standard_normal((rows, columns)) + 1.5 * rng.standard_normal((len(NAMES), columns))[classes]
    X /= np.linalg.norm(X, axis=1, keepdims=True) * rng.uniform(1.0, 1.5, size=(rows, 1))
    codes = np.array([class_code(name) for name in NAMES])
    return Dataset("coloured", X, codes[classes], tuple(f"x{column}" for column in range(columns)))


def class_settings(**values: object) -> CorrectiveSettings:
    chosen: dict[str, object] = {"lambda_": LAMBDA, "classes": NAMES, "privacy": "plain", "stop": {"gap": None}}
    return CorrectiveSettings.parse({**chosen, **values})


def class_run(
    data: Dataset,
    grid: tuple[int, int] = (2, 2),
    *,
    level: str = "plain",
    labels: str = "all",
    masked: bool = False,
    lambda_: float = LAMBDA,
    **values: Any,
) -> Simulation:
    """A run with a real key of 2048 bits or with masks, or in clear at the level plain."""
    shards = partition(data, grid=grid, labels="first" if labels == "first" else "all")
    settings = class_settings(privacy=level, lambda_=lambda_, **values)
    if level == "plain" or masked:
        return Simulation.of(shards, settings, key=MASKS if masked else IN_CLEAR)
    return Simulation.of(shards, settings, cipher=cipher(), key=run_key())


def of_class(data: Dataset, name: str) -> Dataset:
    """The data with the labels of the problem of one class."""
    return replace(data, y=one_against_rest(data.y, class_code(name)))


def objective(data: Dataset, name: str, w: Array, *, loss: str, lambda_: float = LAMBDA) -> float:
    """P of a model in the problem of one class."""
    own = of_class(data, name)
    return primal(own.X, own.y, w, loss=loss_named(loss), lambda_=lambda_)


def optimum(data: Dataset, name: str, *, loss: str, lambda_: float = LAMBDA) -> float:
    """The least P in the problem of one class, found on the whole table."""
    own = of_class(data, name)
    return solve_centralized(own.X, own.y, loss=loss_named(loss), lambda_=lambda_).primal
