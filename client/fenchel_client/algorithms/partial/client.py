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

from fenchel_client.algorithms.codec import Origins
from fenchel_client.algorithms.corrective.points import Memory
from fenchel_client.algorithms.dualclient import DualClient
from fenchel_client.algorithms.duals import norms_alone, whole_norms
from fenchel_client.algorithms.partial.book import PartialBook, of_block
from fenchel_client.algorithms.partial.contributions import Contributions
from fenchel_client.algorithms.partial.start import state_before_pairs
from fenchel_client.algorithms.partial.state import Missing, PartyState, Steps
from fenchel_client.crypto.plain import Cipher
from fenchel_client.crypto.seal import Seal
from fenchel_client.table import PartyTable
from fenchel_common.algorithms.corrective.pairs import CATCH_UP, PAIR_DUALS, PAIR_PRIMAL, PAIR_PRODUCTS
from fenchel_common.algorithms.partial.messages import (
    Facts,
    PrimalResult,
)
from fenchel_common.algorithms.partial.settings import PartialSettings
from fenchel_common.blocks import BlockVector
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.errors import InvalidInput
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
        self._contributions = Contributions(self._rows, self._codec, layout, settings)
        self._states: Mapping[bytes, PartyState] = {}
        self._now: PartyState | None = None
        """The state in the round under way; None if the party cannot follow it."""
        self._measured: Memory | None = None
        """In a round that measures, the memory with its new points and with exact inner products."""
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
        if phase == PAIR_PRODUCTS:
            return self._answer_products(body, book)
        if phase == PAIR_DUALS:
            return self._answer_dual(body, book)
        if phase == PAIR_PRIMAL:
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
            shares = {born: self._contributions.share(state, born, book) for born in book.progress.owed(party)}
        with self._serialising():
            return wire.catch_up_result_to_bytes(shares)

    def _answer_products(self, body: bytes, book: PartialBook) -> bytes:
        with self._serialising():
            facts = wire.task_from_bytes(body, self._scope)
        self._continue(facts, book, first=book.begins)
        result = None
        if self._now is not None:
            try:
                result = self._contributions.products(self._now, book)
            except Missing:
                self._now = None
        with self._serialising():
            return wire.product_result_to_bytes(result)

    def _answer_dual(self, body: bytes, book: PartialBook) -> bytes:
        with self._serialising():
            task = wire.dual_task_from_bytes(body, self._scope)
        if task.norms is not None:
            self._norms = whole_norms(task.norms, self._rows, self._codec, book.norm_origins)
        self._continue(task.facts, book, first=False)
        before, result, self._measured = self._now, None, None
        if before is not None and self._norms is not None:
            try:
                self._now = self._steps.solved(before, book.progress.rounds[-1])
                if book.measures:
                    self._measured = self._contributions.measured(self._steps, before, task, book)
                result = self._contributions.dual_result(before, self._now, self._measured, book, self._norms)
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
            assert self._measured is not None, "`pair_primal` follows `pair_duals`"
            model, objectives = self._contributions.objectives(self._measured, task, book)
        share = conjugates = None
        if book.choices.owners:
            values = self._steps.opened_values(task.values, round_id, book) if book.live else None
            state = self._steps.with_pair(state, book.progress.rounds[-1], values, book)
            if self._layout.party in book.choices.owners:
                share = self._contributions.share(state, round_id, book)
            conjugates = self._contributions.conjugates(state, round_id, book)
        assert self._seal.stamp is not None, "every message has a stamp"
        kept = {book.memory[0]: self._states[book.memory[0]]} if book.memory[0] in self._states else {}
        self._states = {**kept, self._seal.stamp.nonce: replace(state, round_id=round_id)}
        if objectives is not None:
            self._gap = self._seal.stamp.nonce, objectives.primal - objectives.dual
        released = self._contributions.model(model, book)
        with self._serialising():
            return wire.primal_result_to_bytes(PrimalResult(share, conjugates, released, objectives))

    def _begin(self, facts: Facts, book: PartialBook) -> None:
        """Goes through the rounds that the party has missed."""
        try:
            state = self._states.get(book.memory[0]) or state_before_pairs(
                self._rows, self._codec, facts, book, loss=self._loss
            )
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
