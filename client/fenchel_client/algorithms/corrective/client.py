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
from fenchel_client.algorithms.corrective.primal import CountRight, EndOfRound, end_round, narrow_error
from fenchel_client.algorithms.corrective.products import products_of, with_products
from fenchel_client.algorithms.corrective.round import ClientRound, begin_round, initial_memory, problem_of
from fenchel_client.algorithms.dualclient import DualClient
from fenchel_client.algorithms.duals import norms_alone, whole_norms
from fenchel_client.crypto.plain import Cipher
from fenchel_client.crypto.seal import Seal
from fenchel_client.table import PartyTable
from fenchel_common.algorithms.corrective.messages import DualResult, DualTask, RoundStart
from fenchel_common.algorithms.corrective.settings import CorrectiveSettings
from fenchel_common.algorithms.dual import INNER_PRODUCT, LOCAL_DUAL, MEASURED, PRIMAL
from fenchel_common.blocks import BlockVector
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.errors import InvalidInput
from fenchel_common.scoresums import ScoreFigures
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
        self._all_rows, self._loss_of_all = self._rows, self._loss
        self._leg = settings.leg(0)
        self._on_leg()
        self._measured: dict[int, float] = {}
        """The metric of each leg with a fold, as this party opened it."""
        self._norms = norms_alone(self._rows)
        self._memories = {b"": initial_memory(self._rows)}
        self._gap: tuple[bytes, float] | None = None
        """P − D and its error by narrow slots, of the last round whose figures were opened, by the answer's nonce."""
        self._ended: tuple[bytes, EndOfRound] | None = None
        """The end of the last round, by the nonce of the answer to `primal`."""
        self.right: CountRight | None = None
        """As for `end_round`; a run of several classes sets it, in one of its problems."""
        self._begun: ClientRound | None = None
        self._combined: ClientRound | None = None

    @property
    def squared_norms(self) -> Array | None:
        """(n,) ‖x_i‖² of whole rows; None until it is known."""
        return self._norms

    @squared_norms.setter
    def squared_norms(self, norms: Array | None) -> None:
        """Takes the norms that another half with the same rows was told."""
        self._norms = norms

    def first_book(self) -> CorrectiveBook:
        return CorrectiveBook(self._layout, self._settings)

    def answer(self, phase: str, body: bytes, book: CorrectiveBook) -> bytes:
        if phase == INNER_PRODUCT:
            return self._answer_products(body, book)
        if phase == LOCAL_DUAL:
            return self._answer_dual(body, book)
        if phase == PRIMAL:
            return self._answer_primal(body, book)
        if phase == MEASURED:
            return self._answer_measured(body, book)
        raise InvalidInput(f"phase: HyFDCA with corrective steps has no phase {phase!r}")

    def certified_gap(self, book: CorrectiveBook) -> float | None:
        """As for `KnowsGap.certified_gap`."""
        return self._gap[1] if self._gap is not None and self._gap[0] == book.certified else None

    @property
    def labels(self) -> Array | None:
        """(n,) the labels, in the order of predictions, without weights of samples; None without labels."""
        y = self._rows.y
        return y if y is None or y.ndim == 1 else y[:, 0]

    def predictions_under_way(self) -> Array:
        """(n,) x_i·w of the best model, after an answer to `primal`, while the round lasts."""
        assert self._ended is not None, "a round is under way"
        return self._ended[1].predictions

    def predictions_on_record(self, book: CorrectiveBook) -> Array | None:
        """(n,) x_i·w of the best model whose certificate is on record; None if this half did not see that round end."""
        known = self._ended is not None and self._ended[0] == book.certified
        return self._ended[1].predictions if self._ended is not None and known else None

    @property
    def own_scores(self) -> ScoreFigures | None:
        """As for `KnowsScores.own_scores`."""
        scores = None if self._ended is None else self._ended[1].scores
        return None if scores is None else scores.own

    @property
    def last_gap(self) -> float | None:
        return None if self._gap is None else self._gap[1]

    def _model_in(self, state: bytes) -> BlockVector | None:
        return wire.model_from_bytes(state, self._scope)

    def _model_origins(self, book: CorrectiveBook) -> Origins:
        path = self._settings.path
        if path is not None and not path.is_last(book.progress):
            raise InvalidInput("model: the run ends before the last leg of its path")
        return one_of(book.released)

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
        end = end_round(
            self._rows,
            self._codec,
            current,
            task,
            book,
            norms=self._norms,
            lambda_=self._lambda,
            loss=self._loss,
            formats=self._formats,
            goal=self._settings.stop.gap,
            right=self.right,
        )
        assert self._seal.stamp is not None, "every message has a stamp"
        self._ended = self._seal.stamp.nonce, end
        if (told := end.result.objectives) is not None:
            error = narrow_error(self._rows, told, loss=self._loss)
            self._gap = self._seal.stamp.nonce, told.primal - told.dual + error
        if end.memory is not None:
            earlier = {book.memory: self._memories[book.memory]} if book.memory in self._memories else {}
            self._memories = {**earlier, self._seal.stamp.nonce: end.memory}
        with self._serialising():
            return wire.primal_result_to_bytes(end.result)

    def _answer_measured(self, body: bytes, book: CorrectiveBook) -> bytes:
        with self._serialising():
            totals = wire.measured_task_from_bytes(body, self._scope)
        figures = None
        if totals is not None:
            own = book.scored.get(self._layout.party)
            scores = self._ended[1].scores if self._ended and own and self._ended[0] == own.nonce else None
            if scores is None:
                raise InvalidInput("scores: this client has given no sums of scores in this round")
            figures = scores.figures(self._codec, totals, book)
            if self._settings.path is not None and self._leg.fold is not None:
                self._measured[self._leg.number] = self._settings.path.measured_in(figures)
        with self._serialising():
            return wire.measured_result_to_bytes(figures)

    def _begin(self, start: RoundStart, book: CorrectiveBook) -> None:
        told = dict(enumerate(book.progress.measured))
        if any(told.get(number, value) != value for number, value in self._measured.items()):
            raise InvalidInput("record: value: is not what this party found")
        if self._leg != (leg := book.required_plan().leg):
            self._leg = leg
            self._on_leg()
        memory = self._memories.get(book.memory) if book.memory else initial_memory(self._rows)
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

    def _on_leg(self) -> None:
        """Takes up the problem of the leg: its λ, and the labels of the samples that count."""
        self._lambda = self._leg.lambda_
        self._rows, self._loss = problem_of(self._leg, self._all_rows, self._loss_of_all, self._settings)

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
