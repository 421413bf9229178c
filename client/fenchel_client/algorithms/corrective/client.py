"""Corrective HyFDCA at a party: the answers to the phases of a round.

At the end of each round the client stores a memory under the nonce of its answer, and keeps the one with which the
round began, so that the server can repeat the round. The records say which answer counts, and so which memory goes on.
A client that has lost its memory says so, and the next round gives it the anchor and the best model. A memory consists
of decrypted numbers, and of numbers that elementwise arithmetic makes of them with the same bits at every party.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.codec import Origins
from fenchel_client.algorithms.corrective.book import CorrectiveBook, one_of
from fenchel_client.algorithms.corrective.local_dual import dual_result, with_combination
from fenchel_client.algorithms.corrective.points import Memory
from fenchel_client.algorithms.corrective.primal import end_round, narrow_error
from fenchel_client.algorithms.corrective.products import products_of, with_products
from fenchel_client.algorithms.corrective.round import ClientRound, begin_round, initial_memory
from fenchel_client.algorithms.dualclient import DualClient
from fenchel_client.algorithms.duals import norms_alone, whole_norms
from fenchel_client.crypto.plain import Cipher
from fenchel_client.crypto.seal import Seal
from fenchel_client.table import PartyTable
from fenchel_common.algorithms.corrective.messages import DualResult, DualTask, RoundStart
from fenchel_common.algorithms.corrective.settings import CorrectiveSettings
from fenchel_common.algorithms.dual import INNER_PRODUCT, LOCAL_DUAL, PRIMAL
from fenchel_common.blocks import BlockVector
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.errors import InvalidInput
from fenchel_common.wire import corrective as wire

Array = NDArray[np.float64]


class CorrectiveClient(DualClient[CorrectiveSettings, CorrectiveBook]):
    """The client half of HyFDCA with `local = "corrective"`."""

    def __init__(
        self,
        settings: CorrectiveSettings,
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
        self._lambda = settings.lambda_
        self._norms = norms_alone(self._rows)
        self._memories: dict[bytes, Memory] = {b"": initial_memory(self._rows)}
        self._gap: tuple[bytes, float] | None = None
        """P − D and its error by narrow slots, of the last round whose figures were opened, by the answer's nonce."""
        self._begun: ClientRound | None = None
        self._combined: ClientRound | None = None

    @property
    def squared_norms(self) -> Array | None:
        """(n,) ‖x_i‖² of whole rows; None until it is known."""
        return self._norms

    def first_book(self) -> CorrectiveBook:
        return CorrectiveBook(self._layout, self._settings)

    def answer(self, phase: str, body: bytes, book: CorrectiveBook) -> bytes:
        if phase == INNER_PRODUCT:
            return self._answer_products(body, book)
        if phase == LOCAL_DUAL:
            return self._answer_dual(body, book)
        if phase == PRIMAL:
            return self._answer_primal(body, book)
        raise InvalidInput(f"phase: HyFDCA with corrective steps has no phase {phase!r}")

    def certified_gap(self, book: CorrectiveBook) -> float | None:
        """As for `KnowsGap.certified_gap`."""
        return self._gap[1] if self._gap is not None and self._gap[0] == book.certified else None

    @property
    def last_gap(self) -> float | None:
        return None if self._gap is None else self._gap[1]

    def _model_in(self, state: bytes) -> BlockVector | None:
        return wire.model_from_bytes(state, self._scope)

    def _model_origins(self, book: CorrectiveBook) -> Origins:
        return one_of(book.model)

    def _answer_products(self, body: bytes, book: CorrectiveBook) -> bytes:
        with self._serialising():
            start = wire.product_task_from_bytes(body, self._scope)
        self._begin(start, book)
        products = None
        if self._begun is not None:
            products = products_of(self._rows, self._codec, self._begun, norms=self._norms, formats=self._formats)
        with self._serialising():
            return wire.product_result_to_bytes(products)

    def _answer_dual(self, body: bytes, book: CorrectiveBook) -> bytes:
        with self._serialising():
            task = wire.dual_task_from_bytes(body, self._scope)
        if (task.round_start is None) != bool(book.products):
            raise InvalidInput("round_start: must come with the first task of a round, and only with it")
        if task.round_start is not None:
            self._begin(task.round_start, book)
        if self._begun is not None and self._begun.plan != book.plan:
            raise InvalidInput("local_dual: this client has begun another round")
        if task.norms is not None:
            self._norms = whole_norms(task.norms, self._rows, self._codec, book.norm_origins)
        result = None
        if self._begun is not None and self._norms is not None:
            result = self._combine(self._begun, task, self._norms, book)
        with self._serialising():
            return wire.dual_result_to_bytes(result)

    def _answer_primal(self, body: bytes, book: CorrectiveBook) -> bytes:
        with self._serialising():
            task = wire.primal_task_from_bytes(body, self._scope)
        current = self._combined
        if current is None or current.plan != book.plan:
            raise InvalidInput("primal: this client has no round under way")
        assert self._norms is not None, "the round under way was combined with them"
        result, memory = end_round(
            self._rows,
            self._codec,
            current,
            task,
            book,
            norms=self._norms,
            lambda_=self._lambda,
            loss=self._loss,
            formats=self._formats,
        )
        assert self._seal.stamp is not None, "every message has a stamp"
        if (told := result.objectives) is not None:
            error = narrow_error(self._rows, told, loss=self._loss)
            self._gap = self._seal.stamp.nonce, told.primal - told.dual + error
        if memory is not None:
            earlier = {book.memory: self._memories[book.memory]} if book.memory in self._memories else {}
            self._memories = {**earlier, self._seal.stamp.nonce: memory}
        with self._serialising():
            return wire.primal_result_to_bytes(result)

    def _begin(self, start: RoundStart, book: CorrectiveBook) -> None:
        memory = self._memories.get(book.memory)
        self._begun = begin_round(
            self._rows,
            self._codec,
            start,
            memory,
            book,
            loss=self._loss,
            lambda_=self._lambda,
            formats=self._formats,
        )
        self._combined = None

    def _combine(self, begun: ClientRound, task: DualTask, norms: Array, book: CorrectiveBook) -> DualResult:
        known = with_products(self._rows, self._codec, begun, task.products, book, norms=norms, formats=self._formats)
        self._combined, combination = with_combination(self._rows, known, lambda_=self._lambda, loss=self._loss)
        return dual_result(
            self._rows,
            self._codec,
            self._combined,
            combination,
            norms=norms,
            lambda_=self._lambda,
            loss=self._loss,
            formats=self._formats,
            constant=self._settings.constant,
        )
