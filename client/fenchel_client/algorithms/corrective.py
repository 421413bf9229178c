"""Corrective HyFDCA at a party: the points of its samples, and a local problem that knows more than its own columns.

α, the point p and the inner products x_i·w_j of the last models w_j are exactly what was decrypted, or made of it by
elementwise arithmetic that every holder of a sample repeats to the same bits; so all agree on every point without
sending it.

The local problem wants the kernel x_i·x_{i'} of whole rows, and the party has only its own columns. But of the other
columns it knows u_ij = x_i·w_j − x_{k,i}·w_{k,j}: the rest of row i along the rest of each remembered model. With the
Gram matrix G of these rests, U G⁻¹ Uᵀ is the kernel of the rows' projections onto their span, never more than the
true one. F = [X_k, U G^(−1/2)] therefore describes the rows better with each round; what it still lacks is made up for
by one factor, the ratio of the true squared row norms to those of F.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

from fenchel_client.algorithms.hyfdca import HyfdcaClient
from fenchel_client.algorithms.local_newton import local_point
from fenchel_common.algorithms.corrective import (
    Combination,
    DualResult,
    DualTask,
    Measured,
    Memory,
    Opened,
    Opening,
    PrimalResult,
    ProductResult,
)
from fenchel_common.algorithms.hyfdca import (
    ALPHA_FORMAT,
    INNER_PRODUCT,
    LOCAL_DUAL,
    PRIMAL,
    PRODUCT_FORMAT,
    BlockVector,
    HyfdcaSettings,
)
from fenchel_common.crypto.paillier import PublicKey
from fenchel_common.crypto.vectors import Cipher
from fenchel_common.data.shard import Matrix, Shard
from fenchel_common.errors import InvalidInput
from fenchel_common.layout import ClientLayout
from fenchel_common.objectives import squared_row_norms
from fenchel_common.wire import corrective as wire

Array = NDArray[np.float64]
Positions = NDArray[np.int64]

SMALLEST_EIGENVALUE: Final = 1e-9
"""Of the Gram matrix, relative to its largest: below it, the rounding of inner products would drown the direction."""


@dataclass(frozen=True, slots=True)
class _Model:
    """w_j on the own columns, the samples that took part, and x_i·w_j of these (0 elsewhere)."""

    weights: Array
    held: Positions
    predictions: Array


class CorrectiveClient(HyfdcaClient):
    """The client half of HyFDCA with `local = "corrective"`; parameters as for `HyfdcaClient`."""

    def __init__(
        self,
        settings: HyfdcaSettings,
        *,
        layout: ClientLayout,
        shard: Shard,
        cipher: Cipher,
        key: PublicKey | int,
        serialising: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        super().__init__(settings, layout=layout, shard=shard, cipher=cipher, key=key, serialising=serialising)
        # Where another party gives some of this party's features, the rest of a row is not on the other features.
        self._own_columns_apart = not layout.ignored

    def answer(self, phase: str, body: bytes) -> bytes:
        if phase == INNER_PRODUCT:
            return self._answer_products(body)
        if phase == LOCAL_DUAL:
            return self._answer_dual(body)
        if phase == PRIMAL:
            return self._answer_primal(body)
        raise InvalidInput(f"phase: HyFDCA with corrective steps has no phase {phase!r}")

    def _forget(self) -> None:
        super()._forget()
        self._anchors: dict[int, Array] = {0: self._alpha}
        self._point: Array | None = None
        self._models: dict[int, _Model] = {}

    def _answer_products(self, body: bytes) -> bytes:
        with self._serialising():
            task = wire.product_task_from_bytes(body, self._scope)
        opened = self._open(task.opening)
        if not task.blocks:
            raise InvalidInput("blocks: no block to give inner products of")
        values = np.zeros(len(self._alpha))
        held = self._positions(task.blocks)
        values[held] = self._X[held] @ self._model
        products = self._to_blocks(task.blocks, values, PRODUCT_FORMAT)
        with self._serialising():
            return wire.product_result_to_bytes(ProductResult(opened, products))

    def _answer_dual(self, body: bytes) -> bytes:
        with self._serialising():
            task = wire.dual_task_from_bytes(body, self._scope)
        opened = None if task.opening is None else self._open(task.opening)
        if task.norms is not None:
            self._take_norms(task.norms)
        predictions = self._predictions(sorted({*task.blocks, *task.certificate_blocks}), task.products)
        point = None
        if not task.certify_only:
            held = self._positions(task.blocks)
            self._models[task.round_id] = _Model(self._model, held, predictions)
            point = self._to_blocks(task.blocks, self._local_point(task, held), ALPHA_FORMAT)
        reported = task.certificate_blocks
        certificate = self._certificate(reported, predictions) if reported else None
        with self._serialising():
            return wire.dual_result_to_bytes(DualResult(opened, point, certificate))

    def _answer_primal(self, body: bytes) -> bytes:
        with self._serialising():
            task = wire.primal_task_from_bytes(body, self._scope)
        self._anchors = {task.anchor: self._anchor(task.anchor)}
        self._alpha = self._anchors[task.anchor]
        self._models = {model: self._remembered(model) for model in task.models}
        self._point = self._filled(task.point)
        vertex = None
        if task.vertex:
            vertex = self._measured(self._vertex(task.models[-1]), task.report_blocks)
        point = self._measured(self._point, task.report_blocks)
        with self._serialising():
            return wire.primal_result_to_bytes(PrimalResult(point, vertex))

    def _open(self, opening: Opening) -> Opened:
        if opening.memory is not None:
            self._recall(opening.memory, opening.anchor)
        if opening.model is not None:
            self._model = opening.model.applied_to(self._model)
        anchor = self._anchor(opening.anchor)
        self._alpha = anchor
        self._anchors = {opening.anchor: anchor}
        alpha = None
        if opening.combination is not None:
            self._alpha = self._combined(opening.combination, anchor)
            self._anchors[opening.combination.round_id] = self._alpha
            if opening.report_blocks:
                alpha = self._to_blocks(opening.report_blocks, self._alpha, ALPHA_FORMAT)
        measured = self._measured(self._alpha, opening.report_blocks)
        return Opened(measured.share, measured.conjugate_sum, alpha)

    def _recall(self, memory: Memory, anchor: int) -> None:
        self._forget()
        if memory.alpha is not None:
            self._alpha[self._positions(memory.alpha.blocks)] = self._from_blocks(memory.alpha)
        self._anchors = {anchor: self._alpha}
        if memory.point is not None:
            self._point = self._filled(memory.point)
        for model in memory.models:
            self._model = model.weights
            predictions = self._predictions(model.blocks, model.products)
            self._models[model.id] = _Model(model.weights, self._positions(model.blocks), predictions)

    def _combined(self, combination: Combination, anchor: Array) -> Array:
        """The new α, cut to fixed point towards zero, where it stays feasible; the same bits at every holder."""
        alpha = combination.anchor * anchor
        if combination.point:
            if self._point is None:
                raise InvalidInput("combination.point: there is no such point here")
            alpha += combination.point * self._point
        for model, weight in sorted(combination.vertices.items()):
            alpha += weight * self._vertex(model)
        unit = ALPHA_FORMAT.resolution
        return np.trunc(alpha / unit) * unit

    def _local_point(self, task: DualTask, held: Positions) -> Array:
        """The local problem's solution divided by |B_n|, at the samples `held`; zero elsewhere."""
        if self._norms is None:
            raise InvalidInput("norms: missing; they come with the first task that needs them")
        rows = self._described(held, (*task.models, task.round_id), task.gram)
        known = float(squared_row_norms(rows).sum())
        completion = float(self._norms[held].sum()) / known if known > 0.0 else 1.0
        found = local_point(
            rows,
            self._labels()[held],
            self._alpha[held],
            self._models[task.round_id].predictions[held],
            kappa=task.scale * max(completion, 1.0) / (self._settings.lambda_ * self._sample_count),
            loss=self._loss,
        )
        sizes = [self._scope.blocks[block] for block in task.blocks]
        values = np.zeros(len(self._alpha))
        unit = ALPHA_FORMAT.resolution
        # Cut towards zero, so that the sum of the holders' parts is feasible.
        values[held] = np.trunc(found / np.repeat(task.divisors, sizes) / unit) * unit
        return values

    def _described(self, held: Positions, models: Sequence[int], gram: Array) -> Matrix:
        """F: the own columns of the rows `held`, and what the models tell of the others' columns."""
        own = self._X[held]
        if not self._shared:
            return own
        remembered = [self._remembered(model) for model in models]
        weights = np.array([model.weights for model in remembered])
        if self._own_columns_apart:
            gram = gram - weights @ weights.T
        eigenvalues, directions = np.linalg.eigh(gram)
        kept = eigenvalues > SMALLEST_EIGENVALUE * max(float(np.trace(gram)), 0.0)
        if not kept.any():
            return own
        rest = np.array([model.predictions[held] for model in remembered]).T - own @ weights.T
        known = rest @ (directions[:, kept] / np.sqrt(eigenvalues[kept]))
        if isinstance(own, csr_array):
            return csr_array(hstack([own, csr_array(known)], format="csr"))
        return np.hstack([own, known])

    def _vertex(self, model: int) -> Array:
        """v_j at the samples that took part, α elsewhere."""
        remembered = self._remembered(model)
        held = remembered.held
        vertex = self._alpha.copy()
        vertex[held] = self._loss.subgradient(remembered.predictions[held], self._labels()[held])
        return vertex

    def _filled(self, point: BlockVector) -> Array:
        """A point of all samples: α where the blocks do not tell otherwise."""
        values = self._alpha.copy()
        values[self._positions(point.blocks)] = self._from_blocks(point)
        return values

    def _measured(self, values: Array, blocks: Sequence[int]) -> Measured:
        share = np.asarray(self._X.T @ values, dtype=np.float64)
        if not blocks:
            return Measured(share)
        held = self._positions(blocks)
        return Measured(share, float(self._loss.conjugate(values[held], self._labels()[held]).sum()))

    def _anchor(self, round_id: int) -> Array:
        if round_id not in self._anchors:
            raise InvalidInput(f"anchor: the dual variables of round {round_id} are not here")
        return self._anchors[round_id]

    def _remembered(self, model: int) -> _Model:
        if model not in self._models:
            raise InvalidInput(f"models: the model of round {model} is not here")
        return self._models[model]
