"""HyFDCA's rounds without its halves: fast enough for sweeps over many settings.

`FastSteps` computes the rounds of the real halves for `paper` and `theory`, for all clients at once and without fixed
point: the draws are the same, the results differ by rounding. In a run of some clients the others' contributions to the
model and their inner products are as of their last round, as at the server.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fenchel_common.algorithms.hyfdca.draw import draw_samples
from fenchel_common.algorithms.hyfdca.pace import Pace
from fenchel_common.algorithms.hyfdca.settings import HyfdcaSettings
from fenchel_common.algorithms.participation import due_active, measures_alone, training_round
from fenchel_common.data.datasets import Dataset
from fenchel_common.data.shard import Matrix, Shard
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.objectives import squared_row_norms
from fenchel_deploy.inprocess.layouts import aligned
from fenchel_server.algorithms.hyfdca.theorems import step_rule

Array = NDArray[np.float64]
Positions = NDArray[np.int64]


@dataclass(slots=True)
class _Part:
    """A client's part of the data set, and what the server keeps of the client.

    Attributes
    ----------
    rows, columns
        The positions of its rows and columns in the data set; `X` has the entries.
    contribution, products
        Its latest contribution to the model, on its columns, and its latest inner products, on its rows.
    """

    rows: Positions
    columns: Positions
    X: Matrix
    contribution: Array
    products: Array


class FastSteps:
    """HyFDCA with `local` paper or theory and a fixed h, on a data set as a whole; every client has labels."""

    def __init__(self, dataset: Dataset, shards: Sequence[Shard], settings: HyfdcaSettings) -> None:
        named, alignment = aligned(shards, seed=settings.seed)
        layout = alignment.federation
        row_of = {sample: row for row, sample in enumerate(_sample_names(dataset))}
        self._settings, self._dataset, self._clients = settings, dataset, layout.clients
        self._rows: dict[int, Positions] = {}
        self._held_by: dict[ClientId, Positions] = {}
        for name in layout.clients:
            own, ids = alignment.clients[name], named[name].ids
            for block in own.block_ids.tolist():
                self._rows[block] = np.array([row_of[ids[row]] for row in own.rows_of([block])])
            self._held_by[name] = np.concatenate([self._rows[block] for block in own.block_ids.tolist()])
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
        unit = settings.row_norm == "unit"
        self._norms = np.ones(len(dataset.y)) if unit else squared_row_norms(dataset.X)
        self._alpha = np.zeros(len(dataset.y))
        self._w = np.zeros(dataset.X.shape[1])
        self._predictions = np.zeros(len(dataset.y))
        self._round_id = 0
        partial = settings.participation_rule.kind != "all"
        self._parts = _parts_of(dataset, named, row_of) if partial else {}

    def round(self) -> None:
        self._round_id += 1
        settings, round_id = self._settings, RoundId(self._round_id)
        active = due_active(settings, self._clients, round_id)
        working = [client for client in self._clients if client in active]
        present = list(self._clients) if measures_alone(settings, round_id) else working
        predictions = self._predictions
        if self._parts:
            self._contribute(present)
            predictions = self._multiplied(present)
        self._update(working, predictions)
        if self._parts:
            self._contribute(present)
            if settings.asks_products_twice:
                self._multiplied(present)

    def _update(self, active: Sequence[ClientId], predictions: Array) -> None:
        """The steps of these clients, from the predictions as they know them."""
        drawn = [self._drawn(client) for client in active]
        rows = np.concatenate([np.zeros(0, dtype=np.int64), *drawn])
        scales = [self._rule.step_scale(self._sample_counts[client], len(self._alpha)) for client in active]
        change = np.zeros(len(self._alpha))
        steps = self._steps(rows, predictions[rows], np.repeat(scales, [len(part) for part in drawn]))
        np.add.at(change, rows, steps / self._divisors(active)[rows])
        changed = np.flatnonzero(change)
        self._alpha[changed] += change[changed]
        scale = 1.0 / (self._settings.lambda_ * len(change))
        self._w = self._w + scale * np.asarray(self._dataset.X[changed].T @ change[changed], dtype=np.float64)
        self._predictions = np.asarray(self._dataset.X @ self._w, dtype=np.float64)

    def _divisors(self, active: Sequence[ClientId]) -> Array:
        """|B_n| of each sample; only active clients count if sets of clients take turns."""
        in_turn = self._settings.participation_rule.kind == "cyclic"
        counts = np.zeros(len(self._alpha))
        for client in active if in_turn else self._clients:
            counts[self._held_by[client]] += 1.0
        return counts

    def _contribute(self, present: Sequence[ClientId]) -> None:
        """These clients make their contributions to the model of the dual variables as they are."""
        scale = 1.0 / (self._settings.lambda_ * len(self._alpha))
        for part in (self._parts[client] for client in present):
            part.contribution = scale * np.asarray(part.X.T @ self._alpha[part.rows], dtype=np.float64)

    def _multiplied(self, present: Sequence[ClientId]) -> Array:
        """Predictions from everybody's latest inner products; these clients make theirs of the model on record."""
        model = np.zeros_like(self._w)
        for part in self._parts.values():
            model[part.columns] += part.contribution
        predictions = np.zeros(len(self._alpha))
        for client, part in self._parts.items():
            if client in present:
                part.products = np.asarray(part.X @ model[part.columns], dtype=np.float64)
            predictions[part.rows] += part.products
        return predictions

    def _drawn(self, client: ClientId) -> Positions:
        """The rows that a client draws from all its cohorts."""
        counts = self._sample_counts
        share = Pace().samples(self._settings, counts, client) / counts[client]
        ranges = [
            part
            for cohort in self._cohorts[client]
            for part in draw_samples(
                cohort,
                share,
                seed=self._settings.seed,
                round_id=RoundId(self._round_id),
                client_index=self._clients.index(client),
            )
        ]
        pieces = [self._rows[part.block][part.start : part.stop] for part in ranges]
        return np.concatenate([np.zeros(0, dtype=np.int64), *pieces])

    def _steps(self, rows: Positions, products: Array, scale: Array) -> Array:
        settings, loss = self._settings, self._settings.loss_function
        alpha, y, norms = (values[rows] for values in (self._alpha, self._dataset.y, self._norms))
        gamma = self._rule.gamma_at(training_round(settings, RoundId(self._round_id)))
        if settings.local == "theory":
            s = loss.theory_step(alpha, y, products, norms / settings.lambda_, scale * gamma)
            return gamma * s * scale * (loss.subgradient(products, y) - alpha)
        return gamma * loss.dual_step(alpha, y, products, norms / (settings.lambda_ * len(self._alpha)))

    def model(self) -> Array:
        """w(α), the model that a certificate of all clients would be about, in the order of the data set's columns."""
        return self._w

    def primal(self) -> float:
        """P of the model."""
        losses = self._settings.loss_function.value(self._predictions, self._dataset.y)
        return float(self._settings.lambda_ / 2.0 * (self._w @ self._w) + losses.mean())


def _parts_of(dataset: Dataset, shards: Mapping[ClientId, Shard], row_of: Mapping[str, int]) -> dict[ClientId, _Part]:
    column_of = {name: column for column, name in enumerate(dataset.features)}
    parts = {}
    for client, shard in shards.items():
        rows = np.array([row_of[sample] for sample in shard.ids])
        columns = np.array([column_of[name] for name in shard.features])
        parts[client] = _Part(rows, columns, shard.X, np.zeros(len(columns)), np.zeros(len(rows)))
    return parts


def _sample_names(dataset: Dataset) -> list[str]:
    """The sample ids that `partition` gives the rows."""
    count = len(dataset.y)
    return [f"{dataset.name}-{row:0{len(str(count - 1))}d}" for row in range(count)]
