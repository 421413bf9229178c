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
from scipy.sparse import csr_array

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

    The rows of all parties stand side by side in one sparse matrix, row i having x_{k,i} at the columns of each party k
    that holds sample i. So a round costs as much as the drawn samples have values, not as the parties have samples:
    inner products are those of the drawn samples with the models that their holders last had, and what a party owes the
    model is summed up as the dual variables change.
    """

    def __init__(self, dataset: Dataset, shards: Sequence[Shard], settings: HyfdcaSettings) -> None:
        assert isinstance(settings.h, int)
        self._settings, self._dataset = settings, dataset
        self._parts = parts_of(dataset, shards)
        self._names = tuple(ClientId(f"{number:06d}") for number in range(len(shards)))
        count = len(dataset.y)
        self._holders = np.zeros(count)
        for part in self._parts:
            self._holders[part.rows] += 1.0
        self._beside = side_by_side(self._parts, count)
        self._places = _slices(self._parts)
        measured = settings.row_norm == "measured"
        self._norms = np.asarray(self._beside.multiply(self._beside).sum(axis=1)) if measured else np.ones(count)
        self._alpha = np.zeros(count)
        self._known = np.zeros(self._beside.shape[1])
        self._owed = np.zeros(self._beside.shape[1])
        self._owing: set[int] = set()
        self._model = np.zeros(dataset.X.shape[1])
        self._round_id = 0

    def round(self) -> None:
        self._round_id += 1
        chosen = due_active(self._settings, self._names, RoundId(self._round_id))
        active = [number for number, name in enumerate(self._names) if name in chosen]
        self._contribute(active)
        for number in active:
            self._known[self._places[number]] = self._model[self._parts[number].columns]
        drawn, times = np.unique(np.concatenate([self._drawn(number) for number in active]), return_counts=True)
        rows = self._beside[drawn]
        change = times * self._steps(drawn, np.asarray(rows @ self._known, dtype=np.float64))
        self._alpha[drawn] += change
        scale = 1.0 / (self._settings.lambda_ * len(self._alpha))
        np.add.at(self._owed, rows.indices, scale * rows.data * np.repeat(change, np.diff(rows.indptr)))
        self._owing = set(range(len(self._parts)))
        self._contribute(active)

    def model(self) -> Array:
        """The sum of everybody's latest contributions, which the server has."""
        return self._model

    def _contribute(self, active: Sequence[int]) -> None:
        """Carries what parties owe into the model, for the dual variables that changed since they contributed last."""
        for number in self._owing.intersection(active):
            self._model[self._parts[number].columns] += self._owed[self._places[number]]
            self._owed[self._places[number]] = 0.0
        self._owing.difference_update(active)

    def _drawn(self, number: int) -> Positions:
        """H of the party's rows, without replacement."""
        rows, h = self._parts[number].rows, self._settings.h
        assert isinstance(h, int)
        if h >= len(rows):
            return rows
        rng = np.random.default_rng([self._settings.seed, self._round_id, DRAW_STREAM, number])
        return rows[rng.choice(len(rows), size=h, replace=False)]

    def _steps(self, rows: Positions, predictions: Array) -> Array:
        settings, loss = self._settings, self._settings.loss_function
        curvature = self._norms[rows] / (settings.lambda_ * len(self._alpha))
        step = loss.dual_step(self._alpha[rows], self._dataset.y[rows], predictions, curvature)
        return np.asarray((settings.gamma or 1.0) * step / self._holders[rows], dtype=np.float64)


def side_by_side(parts: Sequence[Part], count: int) -> csr_array:
    """The values of all parties as one sparse matrix of `count` rows, each party having columns of its own."""
    stored = [csr_array(part.X).tocoo() for part in parts]
    places = _slices(parts)
    rows = np.concatenate([part.rows[own.row] for part, own in zip(parts, stored, strict=True)])
    columns = np.concatenate([own.col + place.start for own, place in zip(stored, places, strict=True)])
    values = np.concatenate([own.data for own in stored])
    return csr_array((values, (rows, columns)), shape=(count, places[-1].stop))


def _slices(parts: Sequence[Part]) -> list[slice]:
    """The columns of each party where all stand side by side."""
    ends = np.cumsum([len(part.columns) for part in parts]).tolist()
    return [slice(end - len(part.columns), end) for end, part in zip(ends, parts, strict=True)]


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
