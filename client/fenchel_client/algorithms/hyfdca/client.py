"""HyFDCA at a party: its dual variables, its part of the model, and the steps on its own samples.

    P(w) = λ/2 ‖w‖² + 1/N Σ l_i(x_i·w)             minimised over w (equation 1)
    D(α) = −λ/2 ‖w(α)‖² − 1/N Σ l_i*(−α_i)         maximised over α (equation 2)
    w(α) = 1/(λN) Σ α_i x_i

Party k holds some samples i, and of each the columns x_{k,i}. It keeps α_i of its samples and w on its columns, both
exactly as decrypted, and ‖x_i‖² of its whole rows. For each sample that it is told to update it takes

    `paper`   Δ = argmax −l*(−(α+Δ)) − Δ·x·w − ‖x‖²/(2λN)·Δ²                       (Algorithm 5, line 6)
    `theory`  Δ = s·c_k·(u − α), u ∈ ∂l(x·w), s the best in [0, 1] with ‖x‖²/λ      (Algorithm 3)

all against the w that entered the round, and returns enc(γ_t/|B_n|·Δ). X (n, m), alpha and y (n,) are in the order of
the layout's blocks, model (m,) by feature name.

Reference: Overman, Blum, Klabjan, "A Primal-Dual Algorithm for Hybrid Federated Learning".
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.dualclient import DualClient
from fenchel_client.algorithms.duals import checked_duals, whole_norms
from fenchel_client.table import PartyTable
from fenchel_common.algorithms.dual import (
    ALPHA_FORMAT,
    INNER_PRODUCT,
    LOCAL_DUAL,
    PRIMAL,
    PRODUCT_FORMAT,
    ProductResult,
)
from fenchel_common.algorithms.hyfdca.messages import (
    INNER_PRODUCT_AFTER,
    SYNC,
    DualResult,
    DualTask,
    Figures,
    PrimalResult,
    PrimalTask,
    StateUpdate,
)
from fenchel_common.algorithms.hyfdca.settings import HyfdcaSettings
from fenchel_common.blocks import BlockVector
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import Cipher, Vector
from fenchel_common.errors import InvalidInput
from fenchel_common.objectives import correct_predictions, squared_row_norms
from fenchel_common.wire import hyfdca as wire

Array = NDArray[np.float64]


class HyfdcaClient(DualClient[HyfdcaSettings, Any]):
    """The client half of HyFDCA."""

    def __init__(
        self,
        settings: HyfdcaSettings,
        *,
        layout: ClientLayout,
        table: PartyTable,
        cipher: Cipher,
        key: RunKey,
        serialising: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        super().__init__(settings, layout=layout, table=table, cipher=cipher, key=key, serialising=serialising)
        self._forget()

    def answer(self, phase: str, body: bytes) -> bytes:
        if phase in (SYNC, PRIMAL):
            return self._answer_primal(body)
        if phase in (INNER_PRODUCT, INNER_PRODUCT_AFTER):
            return self._answer_products(body)
        if phase == LOCAL_DUAL:
            return self._answer_dual(body)
        raise InvalidInput(f"phase: HyFDCA has no phase {phase!r}")

    def _model_in(self, state: bytes) -> BlockVector | None:
        return wire.state_from_bytes(state, self._scope).model

    def _forget(self) -> None:
        self._alpha = np.zeros(self._rows.count)
        self._model = np.zeros(self._rows.width)
        self._norms: Array | None = None if self._rows.shared else squared_row_norms(self._rows.X)

    def _take(self, state: StateUpdate) -> None:
        if state.reset:
            self._forget()
        if state.model is not None:
            self._model = self._codec.from_features(state.model)

    def _answer_primal(self, body: bytes) -> bytes:
        with self._serialising():
            task = wire.primal_task_from_bytes(body, self._scope)
        result = self._primal_result(task)
        with self._serialising():
            return wire.primal_result_to_bytes(result)

    def _primal_result(self, task: PrimalTask) -> PrimalResult:
        self._take(task.state)
        alpha = task.state.alpha
        if alpha is not None:
            self._alpha[self._rows.positions_of(alpha.blocks)] = checked_duals(alpha, self._rows, self._codec)
        # Always from all of α, never by adding changes up: a repeated round then gives the same bits.
        scale = self._settings.lambda_ * self._rows.sample_count
        contribution = np.asarray(self._rows.X.T @ self._alpha, dtype=np.float64) / scale
        figures = None if task.totals is None else Figures(*self._codec.from_numbers(task.totals).tolist())
        return PrimalResult(self._codec.to_features(contribution), figures)

    def _answer_products(self, body: bytes) -> bytes:
        with self._serialising():
            task = wire.product_task_from_bytes(body, self._scope)
        self._take(task.state)
        if not task.blocks:
            raise InvalidInput("blocks: no block to give inner products of")
        values = self._own_products(task.blocks)
        products = self._codec.to_blocks(task.blocks, values, PRODUCT_FORMAT)
        with self._serialising():
            return wire.product_result_to_bytes(ProductResult(products))

    def _answer_dual(self, body: bytes) -> bytes:
        with self._serialising():
            task = wire.dual_task_from_bytes(body, self._scope)
        self._take(task.state)
        if task.norms is not None:
            self._norms = whole_norms(task.norms, self._rows, self._codec)
        drawn = {part.block for part in task.ranges}
        needed = drawn.union(task.report_blocks) if task.with_losses else drawn
        predictions = self._predictions(sorted(needed), task.products)
        changes = None
        if task.ranges:
            changes = self._codec.to_blocks(sorted(drawn), self._steps(task, predictions), ALPHA_FORMAT)
        figures = self._figures(task, predictions) if task.asks_figures else None
        with self._serialising():
            return wire.dual_result_to_bytes(DualResult(changes, figures))

    def _own_products(self, blocks: Sequence[int]) -> Array:
        """x_{k,i}·w_k at the positions of `blocks`, zero elsewhere."""
        return self._rows.products(self._rows.positions_of(blocks), self._model)

    def _predictions(self, blocks: Sequence[int], products: BlockVector | None) -> Array:
        """x_i·w at the positions of `blocks`: the secure sum on shared blocks, computed from own columns on others."""
        values = self._own_products([block for block in blocks if block not in self._rows.shared])
        due = tuple(block for block in blocks if block in self._rows.shared)
        if due != (() if products is None else products.blocks):
            raise InvalidInput("products.blocks: must be the shared blocks that are updated or reported on")
        if products is not None:
            values[self._rows.positions_of(due)] = self._codec.from_blocks(products)
        return values

    def _steps(self, task: DualTask, predictions: Array) -> Array:
        """γ_t/|B_n|·Δ at the drawn samples, zero elsewhere."""
        starts = [self._rows.positions[part.block][0] for part in task.ranges]
        pieces = [
            np.arange(first + part.start, first + part.stop) for first, part in zip(starts, task.ranges, strict=True)
        ]
        drawn = np.concatenate(pieces)
        divisors = np.repeat(np.array(task.divisors, dtype=np.float64), [len(piece) for piece in pieces])
        if self._norms is None:
            raise InvalidInput("norms: missing; they come with the first task that needs them")
        alpha, ip, norms = self._alpha[drawn], predictions[drawn], self._norms[drawn]
        y, lambda_ = self._rows.labels()[drawn], self._settings.lambda_
        if self._settings.local == "theory":
            scale = task.step_scale
            s = self._loss.theory_step(alpha, y, ip, norms / lambda_, scale * task.gamma)
            delta = s * scale * (self._loss.subgradient(ip, y) - alpha)
        else:
            delta = self._loss.dual_step(alpha, y, ip, norms / (lambda_ * self._rows.sample_count))
        values = np.zeros(self._rows.count)
        # Rounded towards zero. Rounded to nearest, the sum of the holders' contributions could carry α past the end of
        # its interval, where D is minus infinity. Rounded towards zero, it stays between the old α and feasible points.
        unit = ALPHA_FORMAT.resolution
        values[drawn] = np.trunc(task.gamma * delta / divisors / unit) * unit
        return values

    def _figures(self, task: DualTask, predictions: Array) -> Vector:
        """This client's contribution to the round's `Figures`."""
        loss = conjugate = correct = 0.0
        if task.report_blocks:
            reported = self._rows.positions_of(task.report_blocks)
            z, y = predictions[reported], self._rows.labels()[reported]
            conjugate = float(self._loss.conjugate(self._alpha[reported], y).sum())
            if task.with_losses:
                loss = float(self._loss.value(z, y).sum())
                correct = float(correct_predictions(z, y))
        weights = self._model[self._codec.feature_positions(task.norm_blocks)]
        regulariser = self._settings.lambda_ / 2.0 * float(weights @ weights)
        count = self._rows.sample_count
        return self._codec.to_numbers(np.array([loss / count, conjugate / count, correct / count, regulariser]))
