"""A party's contributions to the vectors of a round with some of the parties."""

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.codec import Among, RowCodec, together
from fenchel_client.algorithms.corrective.measures import figures_of
from fenchel_client.algorithms.corrective.points import ANCHOR, BEST, POINT, VERTEX, Memory
from fenchel_client.algorithms.corrective.round import rounded_towards_zero
from fenchel_client.algorithms.corrective.simplex_qp import dot
from fenchel_client.algorithms.partial.book import PartialBook
from fenchel_client.algorithms.partial.local import found_locally, predicted
from fenchel_client.algorithms.partial.measuring import measured_memory, objectives_of
from fenchel_client.algorithms.partial.state import CONJUGATES_FIELD, KINDS, PartyState, Steps, field_of, gram_numbers
from fenchel_client.algorithms.rows import PartyRows
from fenchel_common.algorithms.corrective.messages import (
    COUNT_UNIT,
    FIGURES_FIELD,
    GRAM_FIELD,
    MODEL_FIELD,
    POINT_PRODUCT_FORMAT,
    Objectives,
)
from fenchel_common.algorithms.partial.messages import DualResult, DualTask, OfPair, PrimalTask, ProductResult
from fenchel_common.algorithms.partial.settings import PartialSettings
from fenchel_common.blocks import BlockVector
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.crypto.vectors import Vector
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId

Array = NDArray[np.float64]


class Contributions:
    """Makes what a party gives in a round, from its state and its book."""

    def __init__(self, rows: PartyRows, codec: RowCodec, layout: ClientLayout, settings: PartialSettings) -> None:
        self._rows, self._codec, self._layout, self._settings = rows, codec, layout, settings
        self._formats = settings.formats(len(layout.clients))
        self._loss = settings.loss_function

    def share(self, state: PartyState, born: int, book: PartialBook) -> OfPair:
        """The party's part of the models of a pair, as differences from the anchor's model."""
        pair = state.pairs.get(born)
        if pair is None:
            raise InvalidInput("shares: this client does not know the pair")
        new = born == book.round_id
        giving = book.choices.owners & book.choices.participants if new else book.progress.owing(born)
        among = self._those_in(giving)
        scale = self._settings.lambda_ * self._rows.sample_count
        parts = [self._rows.held.pull(pair.alpha[kind] - pair.base.alpha) / scale for kind in KINDS]
        point, vertex = (
            self._codec.to_features(field_of(kind, born), part, among=among)
            for kind, part in zip(KINDS, parts, strict=True)
        )
        return OfPair(point, vertex)

    def products(self, state: PartyState, book: PartialBook) -> ProductResult:
        shared = tuple(sorted(self._rows.shared))
        products = {}
        for born in book.progress.unmultiplied(self._layout.party):
            there = book.progress.multiplying(born)
            models = [self._model_of(state, born, kind) for kind in KINDS]
            products[born] = OfPair(
                *(
                    self._to_blocks(field_of(kind, born), shared, model, there)
                    for kind, model in zip(KINDS, models, strict=True)
                )
            )
        measured = None
        if book.measures:
            memory, everybody = state.memory, book.choices.participants
            measured = OfPair(
                self._to_blocks(BEST, shared, memory.best.weights, everybody),
                self._to_blocks(ANCHOR, shared, memory.anchor.weights, everybody),
            )
        gram = None
        if batch := book.progress.next_batch:
            numbers = self._gram_parts(state, batch, book)
            gram = self._codec.to_numbers(GRAM_FIELD, numbers, contributors=book.choices.participants)
        return ProductResult(products if shared else {}, gram, measured if shared else None)

    def _model_of(self, state: PartyState, born: int, kind: str) -> Array:
        """The model of a point of a complete pair, whether it is solved or not."""
        known = state.memory.entries.get((kind, born))
        return state.model_of(born, kind) if known is None else known.weights

    def _to_blocks(
        self, name: str, shared: tuple[int, ...], weights: Array, among: frozenset[ClientId]
    ) -> BlockVector | None:
        if not shared:
            return None
        values = self._rows.products(self._rows.positions_of(shared), weights)
        return self._codec.to_blocks(name, shared, values, POINT_PRODUCT_FORMAT, among=self._those_in(among))

    def _those_in(self, clients: frozenset[ClientId]) -> Among:
        """All contributions to a block are made in one phase, by those of its holders that are among the clients."""
        return together(lambda holders: [one for one in holders or self._layout.clients if one in clients])

    def _gram_parts(self, state: PartyState, batch: tuple[int, ...], book: PartialBook) -> Array:
        features = self._codec.feature_positions(book.gram_blocks)
        known = [entry.weights[features] for entry in state.memory.entries.values()]
        new = [state.model_of(born, kind)[features] for born in batch for kind in KINDS]
        rows = np.array([dot(weights, other) for weights in new for other in (*known, *new)])
        return gram_numbers(rows, features=len(features))

    def new_pair(
        self, state: PartyState, book: PartialBook, norms: Array
    ) -> tuple[BlockVector | None, BlockVector | None]:
        rows, formats, loss, live = self._rows, self._formats, self._loss, self._rows.positions_of(book.live)
        predictions = predicted(rows, self._layout, state, (ANCHOR, 0))
        solution = found_locally(
            rows,
            self._layout,
            state,
            predictions,
            live=live,
            norms=norms,
            strength=book.choices.live_samples / len(live) / (self._settings.lambda_ * rows.sample_count),
            loss=loss,
            constant=self._settings.constant,
        )
        divisors = np.repeat([book.divisor(block) for block in book.live], [len(rows.positions[b]) for b in book.live])
        values = np.zeros(rows.count)
        values[live] = rounded_towards_zero(solution / divisors, formats)
        point = self._codec.to_blocks(POINT, book.live, values, formats.alpha, among=together(book.labelled))
        reports = book.reports(book.live)
        if not reports:
            return point, None
        told, vertices = rows.positions_of(reports), np.zeros(rows.count)
        # At the same mean model as before, the same vertex would come again.
        newest = (BEST, 0) if book.progress.rounds[-1].solved else (ANCHOR, 0)
        z = predicted(rows, self._layout, state, newest)[told]
        bound = formats.alpha.bound
        vertices[told] = np.clip(loss.subgradient(z, rows.labels()[told]), -bound, bound)
        told_values = rounded_towards_zero(vertices, formats)
        return point, self._codec.to_blocks(VERTEX, reports, told_values, formats.alpha)

    def conjugates(self, state: PartyState, born: int, book: PartialBook) -> Vector:
        """The mean conjugates of the new points on the party's reports, and the number of these samples.

        If not all samples are live: by how much they differ from the anchor's.
        """
        reports, numbers = self._rows.positions_of(book.reports(book.live)), np.zeros(len(KINDS))
        if len(reports):
            y, pair = self._rows.labels()[reports], state.pairs[born]
            before = 0.0 if pair.whole else self._loss.conjugate(pair.base.alpha[reports], y).sum()
            after = [self._loss.conjugate(pair.alpha[kind][reports], y).sum() for kind in KINDS]
            numbers = (np.array(after) - before) / self._rows.sample_count
        counted = np.append(numbers, len(reports) / COUNT_UNIT)
        return self._codec.to_numbers(CONJUGATES_FIELD, counted, contributors=book.choices.participants)

    def dual_result(
        self, before: PartyState, state: PartyState, measured: Memory | None, book: PartialBook, norms: Array
    ) -> DualResult:
        """The answer to `pair_duals`; `before` is the state before combining, `measured` as of `measured_memory`."""
        point = vertex = figures = None
        live = self._rows.positions_of(book.live)
        if self._rows.y is not None and len(live):
            point, vertex = self.new_pair(state, book, norms)
        if measured is not None:
            reports = self._rows.positions_of(self._layout.reports)
            constant = self._settings.constant
            sums = figures_of(
                self._rows, measured, book.round_id, reports, norms=norms, loss=self._loss, constant=constant
            )
            figures = self._codec.to_numbers(FIGURES_FIELD, sums, contributors=book.choices.participants)
        memory = state.memory
        common = (memory.names, memory.gram[0].tolist(), memory.gram[1].tolist(), memory.anchor.conjugate_part)
        moved = memory.anchor_round != before.memory.anchor_round
        return DualResult(point, vertex, figures, self._codec.digest(repr(common).encode()), moved)

    def measured(self, steps: Steps, before: PartyState, task: DualTask, book: PartialBook) -> Memory:
        """As for `measured_memory`."""
        return measured_memory(steps, self._rows, self._codec, before, task, book)

    def objectives(self, measured: Memory, task: PrimalTask, book: PartialBook) -> tuple[Array, Objectives]:
        """The measured model, and P there and D."""
        return objectives_of(self._rows, self._codec, measured, task, book, lambda_=self._settings.lambda_)

    def model(self, weights: Array, book: PartialBook) -> BlockVector | None:
        """A model on the blocks of features on which the party reports."""
        features = book.feature_blocks
        return self._codec.to_features(MODEL_FIELD, weights, features) if features else None
