"""Corrective HyFDCA at a party while some of the parties take part: the answers to the phases of a round.

With its answer to the last phase of a round the party stores its state under the nonce of the answer, so that the
server can repeat the round. The records say which answers count. A party that lacks sums which it needs says so, and
gets all of them in the next round.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.codec import Among, Origins, together
from fenchel_client.algorithms.corrective.measures import figures_of
from fenchel_client.algorithms.corrective.points import (
    ANCHOR,
    BEST,
    MODEL,
    POINT,
    VERTEX,
    Entry,
    Memory,
    combined_row,
    extended,
)
from fenchel_client.algorithms.corrective.round import rounded_towards_zero
from fenchel_client.algorithms.corrective.settlement import RoundFigures, interpolated, primal_values
from fenchel_client.algorithms.corrective.simplex_qp import dot
from fenchel_client.algorithms.dualclient import DualClient
from fenchel_client.algorithms.duals import norms_alone, whole_norms
from fenchel_client.algorithms.partial.book import PartialBook, of_block
from fenchel_client.algorithms.partial.local import found_locally, predicted
from fenchel_client.algorithms.partial.state import (
    CONJUGATES_FIELD,
    KINDS,
    Missing,
    PartyState,
    Steps,
    averaged,
    field_of,
    first_state,
    gram_numbers,
)
from fenchel_client.crypto.plain import Cipher
from fenchel_client.crypto.seal import Seal
from fenchel_client.table import PartyTable
from fenchel_common.algorithms.corrective.messages import (
    FIGURES_FIELD,
    GRAM_FIELD,
    MODEL_FIELD,
    POINT_PRODUCT_FORMAT,
    Objectives,
)
from fenchel_common.algorithms.dual import INNER_PRODUCT, LOCAL_DUAL, PRIMAL
from fenchel_common.algorithms.partial.messages import (
    DualResult,
    DualTask,
    Facts,
    OfPair,
    PrimalResult,
    PrimalTask,
    ProductResult,
)
from fenchel_common.algorithms.partial.progress import CATCH_UP
from fenchel_common.algorithms.partial.settings import PartialSettings
from fenchel_common.blocks import BlockVector
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import Vector
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId
from fenchel_common.records import ROUND
from fenchel_common.wire import partial as wire
from fenchel_common.wire.corrective import model_from_bytes

Array = NDArray[np.float64]


class PartialClient(DualClient[PartialSettings, PartialBook]):
    """The client half of HyFDCA with `local = "corrective"` and any participation but `all`."""

    def __init__(
        self,
        settings: PartialSettings,
        *,
        layout: ClientLayout,
        table: PartyTable,
        cipher: Cipher,
        key: RunKey,
        seal: Seal,
        serialising: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        super().__init__(
            settings, layout=layout, table=table, cipher=cipher, key=key, seal=seal, serialising=serialising
        )
        self._seal = seal
        self._formats = settings.formats(len(layout.clients))
        self._scope = replace(self._scope, alpha_format=self._formats.alpha, product_formats=self._formats.products)
        self._norms = norms_alone(self._rows)
        self._steps = Steps(
            self._rows, self._codec, features=layout.feature_count, lambda_=settings.lambda_, loss=self._loss
        )
        self._states: Mapping[bytes, PartyState] = {}
        self._now: PartyState | None = None
        """The state in the round under way; None if the party cannot follow it."""
        self._measured: Memory | None = None
        """In a round that measures, the memory that entered it, with exact inner products."""
        self._gap: tuple[bytes, float] | None = None

    @property
    def squared_norms(self) -> Array | None:
        """As for `KnowsRows.squared_norms`."""
        return self._norms

    def first_book(self) -> PartialBook:
        return PartialBook(self._layout, self._settings)

    def answer(self, phase: str, body: bytes, book: PartialBook) -> bytes:
        if phase == CATCH_UP:
            return self._answer_catch_up(body, book)
        if phase == INNER_PRODUCT:
            return self._answer_products(body, book)
        if phase == LOCAL_DUAL:
            return self._answer_dual(body, book)
        if phase == PRIMAL:
            return self._answer_primal(body, book)
        raise InvalidInput(f"phase: a round with some of the parties has no phase {phase!r}")

    def certified_gap(self, book: PartialBook) -> float | None:
        """As for `KnowsGap.certified_gap`."""
        return self._gap[1] if self._gap is not None and self._gap[0] == book.certified else None

    @property
    def last_gap(self) -> float | None:
        return None if self._gap is None else self._gap[1]

    def _model_in(self, state: bytes) -> BlockVector | None:
        return model_from_bytes(state, self._scope)

    def _model_origins(self, book: PartialBook) -> Origins:
        return of_block(book.released)

    def _answer_catch_up(self, body: bytes, book: PartialBook) -> bytes:
        with self._serialising():
            facts = wire.task_from_bytes(body, self._scope)
        self._begin(facts, book)
        shares = None
        if self._now is not None:
            state, party = self._now, self._layout.party
            shares = {born: self._share(state, born, book) for born in book.progress.owed(party)}
        with self._serialising():
            return wire.catch_up_result_to_bytes(shares)

    def _answer_products(self, body: bytes, book: PartialBook) -> bytes:
        with self._serialising():
            facts = wire.task_from_bytes(body, self._scope)
        self._continue(facts, book, first=book.progress.phase == ROUND)
        result = None
        if self._now is not None:
            try:
                result = self._products(self._now, book)
            except Missing:
                self._now = None
        with self._serialising():
            return wire.product_result_to_bytes(result)

    def _answer_dual(self, body: bytes, book: PartialBook) -> bytes:
        with self._serialising():
            task = wire.dual_task_from_bytes(body, self._scope)
        if task.norms is not None:
            self._norms = whole_norms(task.norms, self._rows, self._codec, book.norm_origins)
        before = self._now
        self._continue(task.facts, book, first=False)
        result = None
        if before is not None and self._now is not None and self._norms is not None:
            try:
                self._now = averaged(self._steps.solved(self._now, book.progress.rounds[-1]))
                result = self._combined(before, self._now, task, book, self._norms)
            except Missing:
                self._now = None
        with self._serialising():
            return wire.dual_result_to_bytes(result)

    def _answer_primal(self, body: bytes, book: PartialBook) -> bytes:
        with self._serialising():
            task = wire.primal_task_from_bytes(body, self._scope)
        if self._now is None:
            raise InvalidInput("primal: this client has no round under way")
        state, round_id = self._now, book.round_id
        model, objectives = state.memory.best.weights, None
        if book.measures:
            model, objectives = self._objectives(task, book)
        share = conjugates = None
        if book.choices.owners:
            values = self._steps.opened_values(task.values, round_id, book) if book.live else None
            state = self._steps.with_pair(state, round_id, values, book)
            if self._layout.party in book.choices.owners:
                share = self._share(state, round_id, book)
            conjugates = self._conjugates(state, round_id, book)
        assert self._seal.stamp is not None, "every message has a stamp"
        kept = {book.memory[0]: self._states[book.memory[0]]} if book.memory[0] in self._states else {}
        self._states = {**kept, self._seal.stamp.nonce: replace(state, round_id=round_id)}
        if objectives is not None:
            self._gap = self._seal.stamp.nonce, objectives.primal - objectives.dual
        features = book.feature_blocks
        released = self._codec.to_features(MODEL_FIELD, model, features) if features else None
        with self._serialising():
            return wire.primal_result_to_bytes(PrimalResult(share, conjugates, released, objectives))

    def _begin(self, facts: Facts, book: PartialBook) -> None:
        """Goes through the rounds that the party has missed."""
        state = self._states.get(book.memory[0], first_state(self._rows))
        try:
            state = self._steps.absorbed(state, facts, book)
            for steps in book.progress.past:
                if steps.id > state.round_id:
                    state = self._steps.through(state, steps, book)
            self._now = state
        except Missing:
            self._now = None

    def _continue(self, facts: Facts, book: PartialBook, *, first: bool) -> None:
        if first:
            self._begin(facts, book)
        elif self._now is not None:
            self._now = self._steps.absorbed(self._now, facts, book)

    def _share(self, state: PartyState, born: int, book: PartialBook) -> OfPair:
        """The party's part of the models of a pair, as differences from the anchor's model."""
        pair = state.pairs.get(born)
        if pair is None:
            raise InvalidInput("shares: this client does not know the pair")
        new = born == book.round_id
        giving = book.choices.owners & book.choices.participants if new else book.progress.owing(born)
        among = self._those_in(giving)
        scale = self._settings.lambda_ * self._rows.sample_count
        parts = [np.asarray(self._rows.X.T @ (pair.alpha[kind] - pair.base.alpha)) / scale for kind in KINDS]
        point, vertex = (
            self._codec.to_features(field_of(kind, born), part, among=among)
            for kind, part in zip(KINDS, parts, strict=True)
        )
        return OfPair(point, vertex)

    def _products(self, state: PartyState, book: PartialBook) -> ProductResult:
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

    def _combined(
        self, before: PartyState, state: PartyState, task: DualTask, book: PartialBook, norms: Array
    ) -> DualResult:
        """The party's answer to `local_dual`; `before` is the state before the combination."""
        point = vertex = figures = None
        live = self._rows.positions_of(book.live)
        if self._rows.y is not None and len(live):
            point, vertex = self._new_pair(state, book, norms)
        if book.measures:
            memory = self._measured_memory(before, task, book)
            reports = self._rows.positions_of(self._layout.reports)
            constant = self._settings.constant
            sums = figures_of(
                self._rows, memory, book.round_id, reports, norms=norms, loss=self._loss, constant=constant
            )
            figures = self._codec.to_numbers(FIGURES_FIELD, sums, contributors=book.choices.participants)
            self._measured = memory
        memory = state.memory
        common = (memory.names, memory.gram[0].tolist(), memory.gram[1].tolist(), memory.anchor.conjugate_part)
        moved = memory.anchor_round != before.memory.anchor_round
        return DualResult(point, vertex, figures, self._codec.digest(repr(common).encode()), moved)

    def _new_pair(
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
        z = predicted(rows, self._layout, state, (BEST, 0))[told]
        bound = formats.alpha.bound
        vertices[told] = np.clip(loss.subgradient(z, rows.labels()[told]), -bound, bound)
        told_values = rounded_towards_zero(vertices, formats)
        return point, self._codec.to_blocks(VERTEX, reports, told_values, formats.alpha)

    def _measured_memory(self, before: PartyState, task: DualTask, book: PartialBook) -> Memory:
        """The memory that entered the round with the anchor as its model, and with exact inner products."""
        shared, memory = tuple(sorted(self._rows.shared)), before.memory
        alone = self._rows.positions_of([block for block in self._rows.positions if block not in self._rows.shared])
        told = (None, None) if task.measured is None else (task.measured.point, task.measured.vertex)
        exact = []
        for name, vector, entry in zip((BEST, ANCHOR), told, (memory.best, memory.anchor), strict=True):
            if (() if vector is None else vector.blocks) != shared:
                raise InvalidInput("measured.blocks: must be all shared blocks of this client")
            values = self._rows.products(alone, entry.weights)
            if vector is not None:
                origins = book.of_holders(book.products_here, name)
                values[self._rows.positions_of(shared)] = self._codec.from_blocks(vector, origins)
            exact.append(replace(entry, products=values))
        mean, anchor = exact
        memory = replace(memory, entries={**memory.entries, (BEST, 0): mean})
        row = combined_row(memory.gram, memory.rows([(ANCHOR, 0)]), np.ones(1))
        new: dict[tuple[str, int], Entry] = {(MODEL, book.round_id): anchor}
        return extended(memory, new, gram=row, spread=np.zeros_like(row))

    def _objectives(self, task: PrimalTask, book: PartialBook) -> tuple[Array, Objectives]:
        """The measured model, and P there and D at the anchor that entered the round."""
        if task.figures is None:
            raise InvalidInput("figures: must be there in a round that measures")
        figures = RoundFigures.of(self._codec.from_numbers(task.figures, book.of_all(book.duals_here, FIGURES_FIELD)))
        if figures.samples != self._rows.sample_count:
            raise InvalidInput("figures: the parties reported on another number of samples than there are")
        memory, round_id, lambda_ = self._measured, book.round_id, self._settings.lambda_
        assert memory is not None, "`primal` follows `local_dual`"
        primals = primal_values(memory, round_id, losses=figures.losses, lambda_=lambda_)
        step = int(np.argmin(primals))
        (mean, anchor) = memory.rows([(BEST, 0), (MODEL, round_id)])
        norms = float(memory.gram[mean, mean]), float(memory.gram[anchor, anchor])
        dual = -figures.conjugate - lambda_ / 2.0 * norms[1]
        dual -= figures.shortfall(float(np.sqrt(max(norms[1], 0.0))), lambda_=lambda_)
        model = interpolated(memory.best.weights, memory.anchor.weights, step)
        objectives = Objectives(
            primal=primals[step],
            dual=dual,
            accuracy=figures.accuracies[step],
            squared_norm=max(norms),
            row_norm=figures.row_norm,
        )
        return model, objectives

    def _conjugates(self, state: PartyState, born: int, book: PartialBook) -> Vector:
        """By how much the mean conjugates of the new points differ from the anchor's, on the party's reports."""
        reports, numbers = self._rows.positions_of(book.reports(book.live)), np.zeros(len(KINDS))
        if len(reports):
            y, pair = self._rows.labels()[reports], state.pairs[born]
            before = self._loss.conjugate(pair.base.alpha[reports], y).sum()
            after = [self._loss.conjugate(pair.alpha[kind][reports], y).sum() for kind in KINDS]
            numbers = (np.array(after) - before) / self._rows.sample_count
        return self._codec.to_numbers(CONJUGATES_FIELD, numbers, contributors=book.choices.participants)
