"""HyFDCA at a party: its dual variables, its part of the model, and the steps on its own samples.

    P(w) = λ/2 ‖w‖² + 1/N Σ l_i(x_i·w)             minimised over w (equation 1)
    D(α) = −λ/2 ‖w(α)‖² − 1/N Σ l_i*(−α_i)         maximised over α (equation 2)
    w(α) = 1/(λN) Σ α_i x_i

Party k holds some samples i, and of each the columns x_{k,i}. It keeps α_i of its samples and w on its columns, both
exactly as decrypted, and ‖x_i‖² of its whole rows. For each sample that it draws it takes

    `paper`   Δ = argmax −l*(−(α+Δ)) − Δ·x·w − ‖x‖²/(2λN)·Δ²                       (Algorithm 5, line 6)
    `theory`  Δ = s·c_k·(u − α), u ∈ ∂l(x·w), s the best in [0, 1] with ‖x‖²/λ      (Algorithm 3)

all against the w that entered the round, and returns enc(γ_t/|B_n|·Δ). X (n, m), alpha and y (n,) are in the order of
the layout's blocks, model (m,) by feature name.

Reference: Overman, Blum, Klabjan, "A Primal-Dual Algorithm for Hybrid Federated Learning".
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.codec import Origins
from fenchel_client.algorithms.dualclient import DualClient
from fenchel_client.algorithms.duals import checked_duals, norms_alone, whole_norms
from fenchel_client.algorithms.hyfdca.book import (
    CHANGES,
    CONTRIBUTION,
    FIGURES,
    PRODUCTS,
    RESTATED,
    HyfdcaBook,
)
from fenchel_client.algorithms.hyfdca.gap import checked_gap
from fenchel_client.algorithms.hyfdca.roundonrecord import RoundOnRecord
from fenchel_client.crypto.plain import Cipher
from fenchel_client.crypto.seal import Seal
from fenchel_client.crypto.stamps import Origin
from fenchel_client.table import PartyTable
from fenchel_common.algorithms.dual import (
    ALPHA_FORMAT,
    INNER_PRODUCT,
    LOCAL_DUAL,
    PRIMAL,
    PRODUCT_FORMAT,
    ProductResult,
)
from fenchel_common.algorithms.hyfdca.messages import SAMPLES_UNIT, SYNC, DualResult, Figures, PrimalResult, SampleRange
from fenchel_common.algorithms.hyfdca.settings import HyfdcaSettings
from fenchel_common.blocks import BlockVector
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import Vector
from fenchel_common.errors import InvalidInput
from fenchel_common.wire import hyfdca as wire

Array = NDArray[np.float64]


class HyfdcaClient(DualClient[HyfdcaSettings, HyfdcaBook]):
    """The client half of HyFDCA.

    It remembers with its dual variables, and with its model, which contributions they are made of. It works with both
    only if these are the contributions that its book names.
    """

    def __init__(
        self,
        settings: HyfdcaSettings,
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
        self._first_book = HyfdcaBook.first(settings, layout)
        self._alpha = np.zeros(self._rows.count)
        self._alpha_versions: dict[int, Origin] = {}
        self._model = np.zeros(self._rows.width)
        self._model_version: dict[int, Sequence[Origin]] = {}
        self._gap: tuple[Sequence[Origin], float] | None = None
        """P − D of the last certificate that this client opened, and the contributions to it."""
        self._norms = np.ones(self._rows.count) if settings.row_norm == "unit" else norms_alone(self._rows)

    def first_book(self) -> HyfdcaBook:
        return self._first_book

    def answer(self, phase: str, body: bytes, book: HyfdcaBook) -> bytes:
        current = book.round_for(phase)
        if self._layout.party not in current.present:
            raise InvalidInput("phase: this party does not take part in it")
        if phase in (SYNC, PRIMAL):
            return self._answer_primal(phase, body, book)
        if phase == LOCAL_DUAL:
            return self._answer_dual(body, book, current)
        return self._answer_products(phase, body, book)

    def certified_gap(self, book: HyfdcaBook) -> float | None:
        """As for `KnowsGap.certified_gap`."""
        given = () if book.current is None or not book.current.rules.certifying else book.current.figures
        return self._gap[1] if given and self._gap is not None and self._gap[0] == given else None

    @property
    def last_gap(self) -> float | None:
        return None if self._gap is None else self._gap[1]

    def _model_in(self, state: bytes) -> BlockVector | None:
        return wire.state_from_bytes(state, self._scope).model

    def _model_origins(self, book: HyfdcaBook) -> Origins:
        return book.entered_model_of

    def _take_model(self, model: BlockVector | None, origins: Origins) -> None:
        """Opens a model, or verifies that the model that this party has is the one that is due."""
        due = {block: given for block in self._layout.feature_blocks if (given := origins(block))}
        if model is not None:
            if model.blocks != tuple(due):
                raise InvalidInput("model.blocks: must be the blocks of features that have a model on record")
            self._model, self._model_version = self._codec.from_features(model, origins), due
        if not due:
            self._model, self._model_version = np.zeros(self._rows.width), {}
        if self._model_version != due:
            raise InvalidInput("model: missing, and the one that this party has is not the one on record")

    def _take_alpha(self, alpha: BlockVector | None, book: HyfdcaBook) -> None:
        """Opens dual variables that have changed, and verifies that those of all blocks are then as on record."""
        if alpha is not None:
            if not book.alpha.keys() >= set(alpha.blocks):
                raise InvalidInput("alpha.blocks: names a block whose dual variables are zero")
            opened = checked_duals(alpha, self._rows, self._codec, book.alpha_of, loss=self._loss)
            self._alpha[self._rows.positions_of(alpha.blocks)] = opened
            self._alpha_versions |= {block: book.alpha[block].version for block in alpha.blocks}
        for block in self._alpha_versions.keys() - book.alpha.keys():
            self._alpha[self._rows.positions[block]] = 0.0
            del self._alpha_versions[block]
        if self._alpha_versions != {block: on_record.version for block, on_record in book.alpha.items()}:
            raise InvalidInput("alpha: this party lacks dual variables that are on record")

    def _answer_primal(self, phase: str, body: bytes, book: HyfdcaBook) -> bytes:
        """The answer to `sync` or `primal`."""
        current = book.round_for(phase)
        due = current.figures if phase == PRIMAL else ()
        with self._serialising():
            task = wire.primal_task_from_bytes(body, self._scope)
        if (task.totals is not None) != bool(due):
            raise InvalidInput("totals: must be there if and only if all parties gave figures")
        self._take_alpha(task.alpha, book)
        # Always from all of α, never by adding changes up: a repeated round then gives the same bits.
        scale = self._settings.lambda_ * self._rows.sample_count
        contribution = self._rows.held.pull(self._alpha) / scale
        figures = None
        if task.totals is not None:
            figures = self._opened_figures(task.totals, due)
            if current.rules.certifying:
                self._gap = due, checked_gap(figures, settings=self._settings, layout=self._layout)
        given = self._codec.to_features(CONTRIBUTION, contribution, among=book.among(phase))
        with self._serialising():
            return wire.primal_result_to_bytes(PrimalResult(given, figures))

    def _opened_figures(self, totals: Vector, origins: Sequence[Origin]) -> Figures:
        *figures, samples = self._codec.from_numbers(totals, origins).tolist()
        if samples * SAMPLES_UNIT != self._rows.sample_count:
            raise InvalidInput("totals: the figures do not cover every sample once")
        return Figures(*figures)

    def _answer_products(self, phase: str, body: bytes, book: HyfdcaBook) -> bytes:
        with self._serialising():
            task = wire.product_task_from_bytes(body, self._scope)
        blocks = book.blocks_asked_in(phase)
        if not blocks:
            raise InvalidInput("phase: there is no block to give inner products of")
        self._take_model(task.model, book.entered_model_of if phase == INNER_PRODUCT else book.latest_model_of)
        values = self._own_products(blocks)
        products = self._codec.to_blocks(PRODUCTS, blocks, values, PRODUCT_FORMAT, among=book.among(phase))
        with self._serialising():
            return wire.product_result_to_bytes(ProductResult(products))

    def _answer_dual(self, body: bytes, book: HyfdcaBook, current: RoundOnRecord) -> bytes:
        with self._serialising():
            task = wire.dual_task_from_bytes(body, self._scope)
        ranges = current.draws.get(self._layout.party, ())
        drawn = sorted({part.block for part in ranges})
        asks_figures = current.rules.asks_figures(current.present)
        reported = self._layout.reports if asks_figures and current.rules.certifying else ()
        predicted = sorted({*drawn, *reported})
        book.check_products(self._rows.shared.intersection(predicted))
        if asks_figures and not book.synced:
            raise InvalidInput("figures: the model on record lacks this party's latest dual variables")
        self._take_alpha(None, book)
        self._take_model(task.model, book.entered_model_of)
        if task.norms is not None:
            if self._settings.row_norm == "unit":
                raise InvalidInput("norms: the steps of this run do not use them")
            self._norms = whole_norms(task.norms, self._rows, self._codec, book.norms_of)
        predictions = self._predictions(predicted, task.products, book)
        changes = restated = figures = None
        if ranges:
            steps = self._steps(ranges, predictions, book)
            changes = self._codec.to_blocks(
                CHANGES, drawn, steps, self._settings.alpha_format, among=book.among(LOCAL_DUAL)
            )
        if stated := book.blocks_restated_by(self._layout.party):
            restated = self._codec.to_blocks(RESTATED, stated, self._alpha, self._settings.alpha_format)
        if asks_figures:
            figures = self._figures(predictions, with_losses=current.rules.certifying)
        with self._serialising():
            return wire.dual_result_to_bytes(DualResult(changes, restated, figures))

    def _own_products(self, blocks: Sequence[int]) -> Array:
        """x_{k,i}·w_k at the positions of `blocks`, zero elsewhere."""
        return self._rows.products(self._rows.positions_of(blocks), self._model)

    def _predictions(self, blocks: Sequence[int], products: BlockVector | None, book: HyfdcaBook) -> Array:
        """x_i·w at the positions of `blocks`: the secure sum on shared blocks, computed from own columns on others."""
        values = self._own_products([block for block in blocks if block not in self._rows.shared])
        due = tuple(block for block in blocks if block in self._rows.shared)
        if due != (() if products is None else products.blocks):
            raise InvalidInput("products.blocks: must be the shared blocks that are updated or reported on")
        if products is not None:
            values[self._rows.positions_of(due)] = self._codec.from_blocks(products, book.products_of)
        return values

    def _steps(self, ranges: Sequence[SampleRange], predictions: Array, book: HyfdcaBook) -> Array:
        """γ_t/|B_n|·Δ at the drawn samples, zero elsewhere."""
        current = book.round_for(LOCAL_DUAL)
        starts = [self._rows.positions[part.block][0] for part in ranges]
        pieces = [np.arange(first + part.start, first + part.stop) for first, part in zip(starts, ranges, strict=True)]
        drawn = np.concatenate([np.zeros(0, dtype=np.int64), *pieces])
        divisors = np.repeat([float(book.divisor(part.block)) for part in ranges], [len(piece) for piece in pieces])
        if self._norms is None:
            raise InvalidInput("norms: missing; they come with the first task that needs them")
        alpha, ip, norms = self._alpha[drawn], predictions[drawn], self._norms[drawn]
        y, lambda_ = self._rows.labels()[drawn], self._settings.lambda_
        gamma = current.rule.gamma_at(current.rules.training_round)
        if self._settings.local == "theory":
            scale = current.rule.step_scale(self._rows.count, self._rows.sample_count)
            s = self._loss.theory_step(alpha, y, ip, norms / lambda_, scale * gamma)
            delta = s * scale * (self._loss.subgradient(ip, y) - alpha)
        else:
            delta = self._loss.dual_step(alpha, y, ip, norms / (lambda_ * self._rows.sample_count))
        values = np.zeros(self._rows.count)
        # Rounded towards zero. Rounded to nearest, the sum of the holders' contributions could carry α past the end of
        # its interval, where D is minus infinity. Rounded towards zero, it stays between the old α and feasible points.
        unit = ALPHA_FORMAT.resolution
        values[drawn] = np.trunc(gamma * delta / divisors / unit) * unit
        return values

    def _figures(self, predictions: Array, *, with_losses: bool) -> Vector:
        """This party's contribution to the round's `Figures`, and the number of samples that it reports on.

        Without losses they are only the sums that D needs.
        """
        loss = conjugate = correct = 0.0
        reported = self._rows.positions_of(self._layout.reports)
        if len(reported):
            z, y = predictions[reported], self._rows.labels()[reported]
            conjugate = float(self._loss.conjugate(self._alpha[reported], y).sum())
            if with_losses:
                loss = float(self._loss.value(z, y).sum())
                correct = self._loss.fit_sum(z, y)
        weights = self._model[self._codec.feature_positions(self._layout.first_holder_of(self._layout.clients))]
        regulariser = self._settings.lambda_ / 2.0 * float(weights @ weights)
        count = self._rows.sample_count
        figures = [loss / count, conjugate / count, correct / count, regulariser, len(reported) / SAMPLES_UNIT]
        return self._codec.to_numbers(FIGURES, np.array(figures), contributors=self._layout.clients)
