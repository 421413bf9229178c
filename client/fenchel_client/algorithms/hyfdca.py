"""HyFDCA at a party: its dual variables, its part of the model, and the steps on its own samples.

    P(w) = λ/2 ‖w‖² + 1/N Σ l_i(x_i·w)             minimised over w (equation 1)
    D(α) = −λ/2 ‖w(α)‖² − 1/N Σ l_i*(−α_i)         maximised over α (equation 2)
    w(α) = 1/(λN) Σ α_i x_i

Party k holds some samples i, and of each the columns x_{k,i}. It keeps α_i of its samples, exactly as decrypted, w on
its columns, and ‖x_i‖² of its whole rows. For each sample that it is told to update it takes

    `paper`   Δ = argmax −l*(−(α+Δ)) − Δ·x·w − ‖x‖²/(2λN)·Δ²                       (Algorithm 5, line 6)
    `theory`  Δ = s·c_k·(u − α), u ∈ ∂l(x·w), s the best in [0, 1] with ‖x‖²/λ      (Algorithm 3)

all against the w that entered the round, and returns enc(γ_t/|B_n|·Δ). Rows are kept in the order of the layout's
blocks: X (n, m), alpha and y (n,), model and share (m,) by feature name.

Reference: Overman, Blum, Klabjan, "A Primal-Dual Algorithm for Hybrid Federated Learning".
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fenchel_common.algorithms.hyfdca import (
    ALPHA_FORMAT,
    INNER_PRODUCT,
    INNER_PRODUCT_AFTER,
    LOCAL_DUAL,
    PRIMAL,
    PRODUCT_FORMAT,
    SYNC,
    BlockVector,
    CertificateShare,
    DualResult,
    DualTask,
    HyfdcaSettings,
    PrimalResult,
    ProductResult,
    StateUpdate,
)
from fenchel_common.changes import ArrayChange
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.paillier import PublicKey
from fenchel_common.crypto.vectors import Cipher
from fenchel_common.data.shard import Matrix, Shard
from fenchel_common.errors import InvalidInput
from fenchel_common.layout import ClientLayout
from fenchel_common.objectives import squared_row_norms
from fenchel_common.wire import hyfdca as wire

Array = NDArray[np.float64]
Positions = NDArray[np.int64]


class HyfdcaClient:
    """The client half of HyFDCA.

    Parameters
    ----------
    layout
        Which rows of `shard` fill which blocks.
    cipher
        Encrypts what leaves, decrypts what comes.
    key
        The run's public key, or the number of bits that it would have in a run in clear.
    serialising
        Makes a context that surrounds every step between messages and their values.
    """

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
        self._settings = settings
        self._loss = settings.loss_function
        self._cipher = cipher
        self._serialising = serialising
        self._sample_count = layout.sample_count
        self._slots = layout.slots
        self._X = arranged_matrix(shard, layout)
        self._y = None if shard.y is None else shard.y[layout.rows]
        if self._y is not None:
            self._loss.check_labels(self._y)
        ends = layout.offsets
        self._span = {
            int(block): (int(ends[place]), int(ends[place + 1])) for place, block in enumerate(layout.block_ids)
        }
        self._shared = frozenset(int(block) for block in layout.block_ids[layout.shared])
        self._scope = wire.Scope(
            key=key,
            slots=layout.slots,
            features=self._X.shape[1],
            blocks={block: stop - start for block, (start, stop) in self._span.items()},
        )
        self._forget()

    def opening(self) -> bytes:
        """enc(‖x_{k,i}‖²) of the blocks that others share; empty if there are none."""
        blocks = sorted(self._shared)
        if not blocks:
            return b""
        norms = self._to_blocks(blocks, squared_row_norms(self._X), PRODUCT_FORMAT)
        with self._serialising():
            return wire.product_result_to_bytes(ProductResult(norms))

    def answer(self, phase: str, body: bytes) -> bytes:
        if phase in (SYNC, PRIMAL):
            return self._answer_primal(body)
        if phase in (INNER_PRODUCT, INNER_PRODUCT_AFTER):
            return self._answer_products(body)
        if phase == LOCAL_DUAL:
            return self._answer_dual(body)
        raise InvalidInput(f"phase: HyFDCA has no phase {phase!r}")

    def _forget(self) -> None:
        count, width = self._X.shape
        self._alpha = np.zeros(count)
        self._model = np.zeros(width)
        self._share = np.zeros(width)
        self._norms: Array | None = None if self._shared else squared_row_norms(self._X)

    def _take(self, state: StateUpdate) -> None:
        if state.reset:
            self._forget()
        if state.model is not None:
            self._model = state.model.applied_to(self._model)
        if state.alpha is not None:
            self._alpha[self._positions(state.alpha.blocks)] = self._from_blocks(state.alpha)

    def _answer_primal(self, body: bytes) -> bytes:
        with self._serialising():
            task = wire.primal_task_from_bytes(body, self._scope)
        self._take(task.state)
        # Always from all of α, never by adding changes up: a repeated round then gives the same bits.
        share = np.asarray(self._X.T @ self._alpha, dtype=np.float64)
        change = ArrayChange.between(None if task.whole else self._share, share)
        self._share = share
        conjugates = 0.0
        if task.conjugate_blocks:
            held = self._positions(task.conjugate_blocks)
            conjugates = float(self._loss.conjugate(self._alpha[held], self._labels()[held]).sum())
        with self._serialising():
            return wire.primal_result_to_bytes(PrimalResult(change, conjugates))

    def _answer_products(self, body: bytes) -> bytes:
        with self._serialising():
            task = wire.product_task_from_bytes(body, self._scope)
        self._take(task.state)
        if not task.blocks:
            raise InvalidInput("blocks: no block to give inner products of")
        values = np.zeros(len(self._alpha))
        held = self._positions(task.blocks)
        values[held] = self._X[held] @ self._model
        products = self._to_blocks(task.blocks, values, PRODUCT_FORMAT)
        with self._serialising():
            return wire.product_result_to_bytes(ProductResult(products))

    def _answer_dual(self, body: bytes) -> bytes:
        with self._serialising():
            task = wire.dual_task_from_bytes(body, self._scope)
        self._take(task.state)
        if task.norms is not None:
            self._take_norms(task.norms)
        drawn = [part.block for part in task.ranges]
        predictions = self._predictions(sorted({*drawn, *task.report_blocks}), task.products)
        changes = None
        if task.ranges:
            values = self._steps(task, predictions)
            changes = self._to_blocks(sorted(set(drawn)), values, ALPHA_FORMAT)
        certificate = self._certificate(task.report_blocks, predictions) if task.report_blocks else None
        with self._serialising():
            return wire.dual_result_to_bytes(DualResult(changes, certificate))

    def _take_norms(self, norms: BlockVector) -> None:
        if norms.blocks != tuple(sorted(self._shared)):
            raise InvalidInput("norms.blocks: must be all blocks that this client shares")
        whole = squared_row_norms(self._X)
        # The sum of rounded parts can be a hair below zero where all parts are zero.
        whole[self._positions(norms.blocks)] = np.maximum(self._from_blocks(norms), 0.0)
        self._norms = whole

    def _predictions(self, blocks: Sequence[int], products: BlockVector | None) -> Array:
        """x_i·w at the positions of `blocks`: from the secure sum where others hold a part, else from own columns."""
        values = np.zeros(len(self._alpha))
        own = [block for block in blocks if block not in self._shared]
        held = self._positions(own)
        values[held] = self._X[held] @ self._model
        due = tuple(block for block in blocks if block in self._shared)
        if due != (() if products is None else products.blocks):
            raise InvalidInput("products.blocks: must be the shared blocks that are updated or reported on")
        if products is not None:
            values[self._positions(due)] = self._from_blocks(products)
        return values

    def _steps(self, task: DualTask, predictions: Array) -> Array:
        """γ_t/|B_n|·Δ at the drawn samples, zero elsewhere."""
        spans = [self._span[part.block][0] for part in task.ranges]
        pieces = [
            np.arange(first + part.start, first + part.stop) for first, part in zip(spans, task.ranges, strict=True)
        ]
        drawn = np.concatenate(pieces)
        divisors = np.repeat(np.array(task.divisors, dtype=np.float64), [len(piece) for piece in pieces])
        if self._norms is None:
            raise InvalidInput("norms: missing; they come with the first task that needs them")
        alpha, y, ip, norms = self._alpha[drawn], self._labels()[drawn], predictions[drawn], self._norms[drawn]
        if self._settings.local == "theory":
            scale = task.step_scale
            s = self._loss.theory_step(alpha, y, ip, norms / self._settings.lambda_, scale * task.gamma)
            delta = s * scale * (self._loss.subgradient(ip, y) - alpha)
        else:
            delta = self._loss.dual_step(alpha, y, ip, norms / (self._settings.lambda_ * self._sample_count))
        values = np.zeros(len(self._alpha))
        # Rounded towards zero. Rounded to nearest, the sum of the holders' shares could carry α past the end of its
        # interval, where D is minus infinity; cut short, it stays between the old α and the feasible points aimed at.
        unit = ALPHA_FORMAT.resolution
        values[drawn] = np.trunc(task.gamma * delta / divisors / unit) * unit
        return values

    def _certificate(self, blocks: Sequence[int], predictions: Array) -> CertificateShare:
        held = self._positions(blocks)
        z, y = predictions[held], self._labels()[held]
        return CertificateShare(
            samples=len(held),
            loss_sum=float(self._loss.value(z, y).sum()),
            conjugate_sum=float(self._loss.conjugate(self._alpha[held], y).sum()),
            correct=int(np.count_nonzero(np.where(z >= 0.0, 1.0, -1.0) == y)),
        )

    def _labels(self) -> Array:
        if self._y is None:
            raise InvalidInput("local_dual: this client has no labels and cannot update or report")
        return self._y

    def _positions(self, blocks: Sequence[int]) -> Positions:
        pieces = [np.arange(*self._span[block]) for block in blocks]
        return np.concatenate(pieces) if pieces else np.zeros(0, dtype=np.int64)

    def _to_blocks(self, blocks: Sequence[int], values: Array, vector_format: VectorFormat) -> BlockVector:
        padded = np.zeros((len(blocks), self._slots))
        for row, block in enumerate(blocks):
            start, stop = self._span[block]
            padded[row, : stop - start] = values[start:stop]
        return BlockVector(tuple(blocks), self._cipher.encrypt(padded.reshape(-1), vector_format))

    def _from_blocks(self, vector: BlockVector) -> Array:
        """The values at `_positions(vector.blocks)`."""
        padded = self._cipher.decrypt(vector.vector).reshape(len(vector.blocks), self._slots)
        sizes = [self._scope.blocks[block] for block in vector.blocks]
        return np.concatenate([padded[row, :size] for row, size in enumerate(sizes)])


def arranged_matrix(shard: Shard, layout: ClientLayout) -> Matrix:
    """The shard's matrix with rows in the order of the blocks, columns sorted by name, ignored entries zero."""
    order = np.argsort(np.array(shard.features, dtype=object), kind="stable")
    column_of = {shard.features[column]: place for place, column in enumerate(order)}
    X = shard.X[layout.rows][:, order]
    place_of = {int(block): place for place, block in enumerate(layout.block_ids)}
    offsets = layout.offsets
    for cut in layout.ignored:
        columns = [column_of[name] for name in cut.features]
        rows = np.zeros(len(layout.rows), dtype=bool)
        for block in cut.block_ids:
            place = place_of[int(block)]
            rows[offsets[place] : offsets[place + 1]] = True
        X = _without(X, rows, columns)
    return X


def _without(X: Matrix, rows: NDArray[np.bool_], columns: Sequence[int]) -> Matrix:
    if not isinstance(X, csr_array):
        kept = X.copy()
        kept[np.ix_(np.flatnonzero(rows), np.array(columns, dtype=np.int64))] = 0.0
        return kept
    entries = X.tocoo()
    keep = ~(rows[entries.row] & np.isin(entries.col, columns))
    return csr_array((entries.data[keep], (entries.row[keep], entries.col[keep])), shape=X.shape)
