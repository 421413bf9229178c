"""The algorithms' rounds without their halves, for thousands of rounds of up to thousands of parties.

Nothing is encrypted here, and values are not rounded to fixed point: only how many rounds an algorithm needs, and where
its model goes, is found in this way. With all samples of each party drawn, HyFDCA's rounds are those of the real halves
in clear, and so are FedAvg's and HyFEM's with the parties' rows in the order of their blocks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.averaging.sgd import local_sgd
from fenchel_common.algorithms.averaging.fedavg import FedavgSettings, LocalSgdSettings
from fenchel_common.algorithms.averaging.hyfem import HyfemSettings
from fenchel_common.algorithms.hyfdca.settings import HyfdcaSettings
from fenchel_common.algorithms.participation import active_clients, due_active
from fenchel_common.data.datasets import Dataset
from fenchel_common.data.shard import Matrix, Shard
from fenchel_common.ids import ClientId, RoundId

Array = NDArray[np.float64]
Positions = NDArray[np.int64]

DRAW_STREAM: Final = 1


class Simulated(Protocol):
    """An algorithm that goes on round by round."""

    def round(self) -> None:
        """Makes the next round."""
        ...

    def model(self) -> Array:
        """The model that the server has, in the order of the data set's columns."""
        ...


@dataclass(slots=True, eq=False)
class Part:
    """A party's part of the data set: the positions of its rows and columns, and its values there."""

    rows: Positions
    columns: Positions
    X: Matrix


def parts_of(dataset: Dataset, shards: Sequence[Shard]) -> list[Part]:
    """The parts of shards whose samples have the names that the splits give them."""
    column_of = {name: column for column, name in enumerate(dataset.features)}
    return [
        Part(
            np.array([int(sample.rpartition("-")[2]) for sample in shard.ids]),
            np.array([column_of[name] for name in shard.features]),
            shard.X,
        )
        for shard in shards
    ]


class SimulatedHyfdca:
    """HyFDCA's practical variant with a fixed h, in the regime of Algorithm 1 as printed.

    Parties that do not take part leave their contributions to the model, and their inner products, as of their last
    round. A second SecureInnerProduct is not made.
    """

    def __init__(self, dataset: Dataset, shards: Sequence[Shard], settings: HyfdcaSettings) -> None:
        assert isinstance(settings.h, int)
        assert settings.row_norm == "unit"
        self._settings, self._dataset = settings, dataset
        self._parts = parts_of(dataset, shards)
        self._names = tuple(ClientId(f"{number:06d}") for number in range(len(shards)))
        count = len(dataset.y)
        self._holders = np.zeros(count)
        for part in self._parts:
            self._holders[part.rows] += 1.0
        self._alpha = np.zeros(count)
        self._known = [np.zeros(len(part.rows)) for part in self._parts]
        self._products = [np.zeros(len(part.rows)) for part in self._parts]
        self._predictions = np.zeros(count)
        self._model = np.zeros(dataset.X.shape[1])
        self._round_id = 0

    def round(self) -> None:
        self._round_id += 1
        chosen = due_active(self._settings, self._names, RoundId(self._round_id))
        active = [number for number, name in enumerate(self._names) if name in chosen]
        for number in active:
            self._contribute(number)
        for number in active:
            part = self._parts[number]
            products = np.asarray(part.X @ self._model[part.columns], dtype=np.float64)
            self._predictions[part.rows] += products - self._products[number]
            self._products[number] = products
        change = np.zeros(len(self._alpha))
        drawn = np.concatenate([self._drawn(number) for number in active])
        np.add.at(change, drawn, self._steps(drawn))
        self._alpha += change
        for number in active:
            self._contribute(number)

    def model(self) -> Array:
        """The sum of everybody's latest contributions, which the server has."""
        return self._model

    def _contribute(self, number: int) -> None:
        """Carries the dual variables that have changed since a party's last contribution into the model."""
        part, known = self._parts[number], self._known[number]
        moved = self._alpha[part.rows] - known
        changed = np.flatnonzero(moved)
        if not len(changed):
            return
        scale = 1.0 / (self._settings.lambda_ * len(self._alpha))
        self._model[part.columns] += scale * np.asarray(part.X[changed].T @ moved[changed], dtype=np.float64)
        known += moved

    def _drawn(self, number: int) -> Positions:
        """H of the party's rows, without replacement."""
        rows, h = self._parts[number].rows, self._settings.h
        assert isinstance(h, int)
        if h >= len(rows):
            return rows
        rng = np.random.default_rng([self._settings.seed, self._round_id, DRAW_STREAM, number])
        return rows[rng.choice(len(rows), size=h, replace=False)]

    def _steps(self, rows: Positions) -> Array:
        settings, loss = self._settings, self._settings.loss_function
        curvature = np.full(len(rows), 1.0 / (settings.lambda_ * len(self._alpha)))
        step = loss.dual_step(self._alpha[rows], self._dataset.y[rows], self._predictions[rows], curvature)
        return np.asarray((settings.gamma or 1.0) * step / self._holders[rows], dtype=np.float64)


class SimulatedAveraging:
    """FedAvg or HyFEM: local SGD, then means over the holders of each feature that took part."""

    def __init__(self, dataset: Dataset, shards: Sequence[Shard], settings: LocalSgdSettings) -> None:
        self._settings, self._parts = settings, parts_of(dataset, shards)
        self._labels = [np.asarray(shard.y, dtype=np.float64) for shard in shards]
        self._names = tuple(ClientId(f"{number:06d}") for number in range(len(shards)))
        self._model = np.zeros(dataset.X.shape[1])
        self._own = {number: np.zeros(len(part.columns)) for number, part in enumerate(self._parts)}
        self._round_id = 0

    def round(self) -> None:
        # Steps that are too long end in infinite weights: the run has diverged, as its loss then says.
        with np.errstate(over="ignore", invalid="ignore"):
            self._round()

    def _round(self) -> None:
        self._round_id += 1
        round_id, settings = RoundId(self._round_id), self._settings
        chosen = active_of(settings, self._names, round_id)
        sums, weights = np.zeros_like(self._model), np.zeros_like(self._model)
        by_rows = isinstance(settings, FedavgSettings) and settings.weighting == "samples"
        for number in chosen:
            part = self._parts[number]
            shared = self._model[part.columns]
            rng = np.random.default_rng([settings.seed, self._round_id, number])
            if isinstance(settings, HyfemSettings):
                w = local_sgd(
                    part.X, self._labels[number], self._own[number], settings=settings, round_id=round_id, rng=rng,
                    anchor=shared, mu=settings.mu,
                )  # fmt: skip
                self._own[number] = w
            else:
                w = local_sgd(part.X, self._labels[number], shared, settings=settings, round_id=round_id, rng=rng)
            weight = float(len(part.rows)) if by_rows else 1.0
            sums[part.columns] += weight * w
            weights[part.columns] += weight
        self._model = np.divide(sums, weights, out=self._model.copy(), where=weights > 0.0)

    def model(self) -> Array:
        return self._model


def active_of(settings: LocalSgdSettings, names: Sequence[ClientId], round_id: RoundId) -> list[int]:
    """The numbers of the parties that train in a round."""
    chosen = active_clients(settings.participation_rule, names, seed=settings.seed, round_id=round_id)
    return [number for number, name in enumerate(names) if name in chosen]
