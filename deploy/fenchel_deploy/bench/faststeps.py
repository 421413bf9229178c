"""HyFDCA's rounds without its halves: fast enough for sweeps over many settings.

`FastSteps` computes the rounds of the real halves for `paper` and `theory`, for all clients at once and without fixed
point: the draws are the same, the results differ by rounding.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fenchel_common.algorithms.hyfdca.draw import draw_samples
from fenchel_common.algorithms.hyfdca.pace import Pace
from fenchel_common.algorithms.hyfdca.settings import HyfdcaSettings
from fenchel_common.data.datasets import Dataset
from fenchel_common.data.shard import Shard
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.objectives import squared_row_norms
from fenchel_deploy.inprocess.layouts import aligned
from fenchel_server.algorithms.hyfdca.theorems import step_rule

Array = NDArray[np.float64]


class FastSteps:
    """HyFDCA with `local` paper or theory and a fixed h, with full participation, on a data set as a whole."""

    def __init__(self, dataset: Dataset, shards: Sequence[Shard], settings: HyfdcaSettings) -> None:
        named, alignment = aligned(shards, seed=settings.seed)
        layout = alignment.federation
        row_of = {sample: row for row, sample in enumerate(_sample_names(dataset))}
        self._settings, self._dataset, self._clients = settings, dataset, layout.clients
        self._rows: dict[int, NDArray[np.int64]] = {}
        self._divisors = np.ones(len(dataset.y))
        for name in layout.clients:
            own, ids = alignment.clients[name], named[name].ids
            for block in own.block_ids.tolist():
                rows = np.array([row_of[ids[row]] for row in own.rows_of([block])])
                self._rows[block] = rows
                self._divisors[rows] = len(own.holders[block])
        self._cohorts = {
            name: [
                dict(zip(opened.cohort.blocks, opened.cohort.sizes, strict=True))
                for opened in alignment.clients[name].cohorts
                if not opened.cohort.features
            ]
            for name in layout.clients
        }
        self._sample_counts = {name: layout.samples_of(name) for name in layout.clients}
        self._rule, _ = step_rule(settings, layout, self._sample_counts)
        self._norms = squared_row_norms(dataset.X)
        self._alpha = np.zeros(len(dataset.y))
        self._w = np.zeros(dataset.X.shape[1])
        self._predictions = np.zeros(len(dataset.y))
        self._round_id = 0

    def round(self) -> None:
        self._round_id += 1
        drawn = [self._drawn(index, client) for index, client in enumerate(self._clients)]
        rows = np.concatenate(drawn)
        scales = [self._rule.step_scale(self._sample_counts[client], len(self._alpha)) for client in self._clients]
        change = np.zeros(len(self._alpha))
        steps = self._steps(rows, np.repeat(scales, [len(part) for part in drawn]))
        np.add.at(change, rows, steps / self._divisors[rows])
        changed = np.flatnonzero(change)
        self._alpha[changed] += change[changed]
        scale = 1.0 / (self._settings.lambda_ * len(change))
        self._w = self._w + scale * np.asarray(self._dataset.X[changed].T @ change[changed], dtype=np.float64)
        self._predictions = np.asarray(self._dataset.X @ self._w, dtype=np.float64)

    def _drawn(self, client_index: int, client: ClientId) -> NDArray[np.int64]:
        """The rows that a client draws from all its cohorts."""
        counts = self._sample_counts
        share = Pace().samples(self._settings, counts, client) / counts[client]
        seed, round_id = self._settings.seed, RoundId(self._round_id)
        ranges = [
            part
            for cohort in self._cohorts[client]
            for part in draw_samples(cohort, share, seed=seed, round_id=round_id, client_index=client_index)
        ]
        pieces = [self._rows[part.block][part.start : part.stop] for part in ranges]
        return np.concatenate([np.zeros(0, dtype=np.int64), *pieces])

    def _steps(self, rows: NDArray[np.int64], scale: Array) -> Array:
        settings, loss = self._settings, self._settings.loss_function
        alpha, y, norms, products = (
            values[rows] for values in (self._alpha, self._dataset.y, self._norms, self._predictions)
        )
        gamma = self._rule.gamma_at(RoundId(self._round_id))
        if settings.local == "theory":
            s = loss.theory_step(alpha, y, products, norms / settings.lambda_, scale * gamma)
            return gamma * s * scale * (loss.subgradient(products, y) - alpha)
        return gamma * loss.dual_step(alpha, y, products, norms / (settings.lambda_ * len(self._alpha)))

    def model(self) -> Array:
        """The model in the order of the data set's columns."""
        return self._w

    def primal(self) -> float:
        """P of the model."""
        losses = self._settings.loss_function.value(self._predictions, self._dataset.y)
        return float(self._settings.lambda_ / 2.0 * (self._w @ self._w) + losses.mean())


def _sample_names(dataset: Dataset) -> list[str]:
    """The sample ids that `partition` gives the rows."""
    count = len(dataset.y)
    return [f"{dataset.name}-{row:0{len(str(count - 1))}d}" for row in range(count)]
