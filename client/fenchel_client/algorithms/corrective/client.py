"""Corrective HyFDCA at a party: one phase after the other.

The party takes up its memory as it was after a given round, so that a round can be repeated, and puts down a new one
at the round's end. Whoever has lost it says so, gets the anchor and the best model, and then all forget the rest. What
a memory holds is exactly what was decrypted, or made of it by elementwise arithmetic that every holder repeats to the
same bits.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.codec import RowCodec
from fenchel_client.algorithms.corrective.hull import (
    MODEL,
    POINT,
    VERTEX,
    Combination,
    Made,
    Memory,
    Name,
    Place,
    best_combination,
    combined,
    extended,
    fresh_memory,
)
from fenchel_client.algorithms.corrective.local_rows import found_locally
from fenchel_client.algorithms.corrective.measures import figures_of, number_count, numbers_of
from fenchel_client.algorithms.corrective.settlement import RoundFigures, settle
from fenchel_client.algorithms.corrective.simplex_qp import dot
from fenchel_client.algorithms.duals import checked_duals, feasible_duals, labels_of, own_norms, whole_norms
from fenchel_client.algorithms.rows import PartyRows
from fenchel_client.table import PartyTable
from fenchel_common.algorithms.corrective.messages import (
    POINT_PRODUCT_FORMAT,
    Anchor,
    DualResult,
    DualTask,
    Opening,
    PrimalResult,
    PrimalTask,
    Products,
)
from fenchel_common.algorithms.dual import ALPHA_FORMAT, INNER_PRODUCT, LOCAL_DUAL, PRIMAL, PRODUCT_FORMAT
from fenchel_common.algorithms.hyfdca.messages import ProductResult
from fenchel_common.algorithms.hyfdca.settings import HyfdcaSettings
from fenchel_common.blocks import BlockVector
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import Cipher
from fenchel_common.errors import InvalidInput
from fenchel_common.objectives import squared_row_norms
from fenchel_common.wire import corrective as wire
from fenchel_common.wire.hyfdca import product_result_to_bytes
from fenchel_common.wire.scope import Scope

Array = NDArray[np.float64]
Positions = NDArray[np.int64]

COARSE_UNIT: Final = 2.0**20
"""Gram entries travel in two parts, whole multiples of this and the rest, because they can outgrow the format."""


@dataclass(slots=True)
class _Round:
    """A round under way: the memory as it grows, and the new places whose inner products are not known yet.

    `told` are the numbers that came with the new places: c of each, then their rows of `Memory.spread`.
    """

    opening: Opening
    memory: Memory
    new: dict[Name, Place]
    live: Positions
    told: Array
    combination: Combination | None = None


class CorrectiveClient:
    """The client half of HyFDCA with `local = "corrective"`; parameters as for `HyfdcaClient`."""

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
        self._loss = settings.loss_function
        self._lambda = settings.lambda_
        self._rows = PartyRows(layout, table)
        if self._rows.y is not None:
            self._loss.check_labels(self._rows.y)
        self._codec = RowCodec(self._rows, layout=layout, cipher=cipher, key=key, privacy=settings.privacy)
        self._scope = Scope.of_client(layout, key=key, privacy=settings.privacy)
        self._serialising = serialising
        self._norms: Array | None = None if self._rows.shared else squared_row_norms(self._rows.X)
        zero = self._place(np.zeros(self._rows.count))
        self._kept: dict[int, Memory] = {0: fresh_memory(0, zero, model=replace(zero, values=np.zeros(0)))}
        self._round: _Round | None = None

    @property
    def squared_norms(self) -> Array | None:
        """‖x_i‖² of whole rows, once it is known."""
        return self._norms

    def opening(self) -> bytes:
        """enc(‖x_{k,i}‖²) of the blocks that other parties hold too; empty if there are none."""
        norms = own_norms(self._rows, self._codec)
        if norms is None:
            return b""
        with self._serialising():
            return product_result_to_bytes(ProductResult(norms))

    def answer(self, phase: str, body: bytes) -> bytes:
        if phase == INNER_PRODUCT:
            return self._answer_products(body)
        if phase == LOCAL_DUAL:
            return self._answer_dual(body)
        if phase == PRIMAL:
            return self._answer_primal(body)
        raise InvalidInput(f"phase: HyFDCA with corrective steps has no phase {phase!r}")

    def final_model(self, state: bytes) -> Array:
        """The weights of this party's features by name."""
        weights = wire.model_from_bytes(state, self._scope)
        return np.zeros(self._rows.width) if weights is None else self._codec.from_features(weights)

    def _answer_products(self, body: bytes) -> bytes:
        with self._serialising():
            opening = wire.product_task_from_bytes(body, self._scope)
        self._round = self._opened(opening)
        products = None if self._round is None else self._products(self._round)
        with self._serialising():
            return wire.product_result_to_bytes(products)

    def _answer_dual(self, body: bytes) -> bytes:
        with self._serialising():
            task = wire.dual_task_from_bytes(body, self._scope)
        if task.opening is not None:
            self._round = self._opened(task.opening)
        if task.norms is not None:
            self._norms = whole_norms(task.norms, self._rows, self._codec)
        result = None if self._round is None or self._norms is None else self._dual(self._round, task, self._norms)
        with self._serialising():
            return wire.dual_result_to_bytes(result)

    def _answer_primal(self, body: bytes) -> bytes:
        with self._serialising():
            task = wire.primal_task_from_bytes(body, self._scope)
        if self._round is None or self._round.combination is None:
            raise InvalidInput("primal: this client has no round under way")
        result = self._primal(self._round, task)
        with self._serialising():
            return wire.primal_result_to_bytes(result)

    def _opened(self, opening: Opening) -> _Round | None:
        """The round as the opening begins it; None if the memory that it takes up is not here."""
        live = self._rows.positions_of(opening.live_blocks)
        if opening.collapse:
            recalled = self._recalled(opening) if opening.lost is None else self._from_server(opening.lost)
            if recalled is None:
                return None
            fresh = fresh_memory(opening.anchor, recalled[0], model=recalled[1])
            return _Round(opening, fresh, dict(fresh.places), live, np.zeros(0))
        memory = self._kept.get(opening.after)
        if memory is None or memory.made is None or memory.anchor != opening.anchor:
            return None
        told = self._told_numbers(opening, memory, memory.made)
        return _Round(opening, memory, self._new_points(opening, memory, memory.made, told), live, told)

    def _recalled(self, opening: Opening) -> tuple[Place, Place] | None:
        """The anchor and the best model as their ciphertexts hold them."""
        memory = self._kept.get(opening.after)
        if memory is None or memory.anchor != opening.anchor:
            return None
        anchor = memory.anchor_place
        return (
            replace(self._place(_cut(anchor.values)), weights=_rounded(anchor.weights)),
            replace(self._place(np.zeros(0)), weights=_rounded(memory.best_place.weights)),
        )

    def _from_server(self, lost: Anchor) -> tuple[Place, Place]:
        values = np.zeros(self._rows.count)
        if lost.alpha is not None:
            values[self._rows.positions_of(lost.alpha.blocks)] = checked_duals(lost.alpha, self._rows, self._codec)
        weights, model = (
            np.zeros(self._rows.width) if given is None else self._codec.from_features(given)
            for given in (lost.weights, lost.model)
        )
        return replace(self._place(values), weights=weights), replace(self._place(np.zeros(0)), weights=model)

    def _place(self, values: Array) -> Place:
        return Place(np.zeros(self._rows.width), np.zeros(self._rows.count), values)

    def _told_numbers(self, opening: Opening, memory: Memory, made: Made) -> Array:
        numbers = np.zeros(0) if opening.conjugates is None else self._codec.from_numbers(opening.conjugates)
        if len(numbers) != number_count(memory, 1 if made.vertex is None else 2, loss=self._loss):
            raise InvalidInput("opening.conjugates: has not the numbers of the new points")
        return numbers

    def _new_points(self, opening: Opening, memory: Memory, made: Made, told: Array) -> dict[Name, Place]:
        base = memory.anchor_place.weights if made.relative else 0.0
        latest = memory.named(MODEL)[-1]
        new = {}
        due = [(POINT, opening.point, made.point)]
        if made.vertex is not None:
            due.append((VERTEX, opening.vertex, made.vertex))
        for (kind, weights, values), conjugate in zip(due, told[: len(due)].tolist(), strict=True):
            if weights is None:
                raise InvalidInput(f"opening.{kind}: the weights of what was made are due")
            new[(kind, latest)] = Place(
                base + self._codec.from_features(weights), np.zeros(self._rows.count), values, -conjugate
            )
        return new

    def _products(self, current: _Round) -> Products:
        blocks = [block for block in current.opening.live_blocks if block in self._rows.shared]
        vectors: list[BlockVector | None] = [None, None]
        if blocks:
            held = self._rows.positions_of(blocks)
            for number, place in enumerate(current.new.values()):
                values = self._rows.products(held, place.weights)
                vectors[number] = self._codec.to_blocks(blocks, values, POINT_PRODUCT_FORMAT)
        features = self._codec.feature_positions(current.opening.feature_blocks)
        rows = self._gram_rows(current, features)
        coarse = np.round(rows / COARSE_UNIT)
        gram = self._codec.to_numbers(np.concatenate([coarse, rows - coarse * COARSE_UNIT]))
        return Products(vectors[0], vectors[1], gram)

    def _gram_rows(self, current: _Round, features: Positions) -> Array:
        """The products of the new places with the known and the new ones, on some features, row by row."""
        known = {} if current.opening.collapse else dict(current.memory.places)
        every = [place.weights[features] for place in (known | current.new).values()]
        return np.array([dot(place.weights[features], other) for place in current.new.values() for other in every])

    def _dual(self, current: _Round, task: DualTask, norms: Array) -> DualResult:
        self._complete(current, task.products)
        current.combination = best_combination(
            current.memory, lambda_=self._lambda, modulus=self._loss.conjugate_modulus
        )
        anchor = current.memory.anchor_place.values

        def feasible(values: Array) -> Array:
            kept = anchor.copy()
            kept[current.live] = feasible_duals(self._rows, current.live, values[current.live])
            return kept

        current.memory = combined(current.memory, current.combination, task.round_id, feasible=feasible)
        reports, features = current.opening.report_blocks, current.opening.feature_blocks
        place = current.memory.places[(MODEL, task.round_id)]
        point = None
        if self._rows.y is not None and not task.certify_only:
            point = self._codec.to_blocks(
                current.opening.live_blocks, self._local_point(current, task, place, norms), ALPHA_FORMAT
            )
        return DualResult(
            point=point,
            figures=self._codec.to_numbers(
                figures_of(
                    self._rows,
                    current.memory,
                    task.round_id,
                    self._rows.positions_of(reports),
                    norms=norms,
                    loss=self._loss,
                )
            ),
            alpha=self._codec.to_blocks(reports, _cut(place.values), ALPHA_FORMAT) if reports else None,
            weights=self._codec.to_features(place.weights, features) if features else None,
            combination=current.combination.digest(),
        )

    def _complete(self, current: _Round, products: Products | None) -> None:
        """Gives the new places their inner products, and the Gram matrix its new rows."""
        count = len(current.new)
        width = count if current.opening.collapse else len(current.memory.places) + count
        if products is None:
            rows = self._gram_rows(current, np.arange(self._rows.width))
        else:
            parts = self._codec.from_numbers(products.gram)
            if len(parts) != 2 * count * width:
                raise InvalidInput("gram: has not the entries of the new points")
            coarse, fine = np.split(parts, 2)
            rows = coarse * COARSE_UNIT + fine
        rows = rows.reshape(count, width)
        sums = (None, None) if products is None else (products.point, products.vertex)
        for (name, place), told in zip(list(current.new.items()), sums, strict=False):
            current.new[name] = replace(place, predictions=self._predictions(current, place, told))
        if current.opening.collapse:
            current.memory = Memory(current.opening.anchor, current.new, rows, np.zeros_like(rows))
        else:
            spread = current.told[count:].reshape(count, -1) if len(current.told) > count else np.zeros_like(rows)
            current.memory = extended(current.memory, current.new, gram=rows, spread=spread)

    def _predictions(self, current: _Round, place: Place, told: BlockVector | None) -> Array:
        """x_i·w of the live samples: from the secure sum where others hold a part, else from own columns."""
        live = current.opening.live_blocks
        due = tuple(block for block in live if block in self._rows.shared)
        if due != (() if told is None else told.blocks):
            raise InvalidInput("products.blocks: must be the shared blocks that take part")
        own = self._rows.positions_of([block for block in live if block not in self._rows.shared])
        values = self._rows.products(own, place.weights)
        if told is not None:
            values[self._rows.positions_of(due)] = self._codec.from_blocks(told)
        return values

    def _local_point(self, current: _Round, task: DualTask, place: Place, norms: Array) -> Array:
        """The local problem's solution divided by |B_n|, at the live samples; zero elsewhere."""
        if len(task.divisors) != len(current.opening.live_blocks):
            raise InvalidInput("divisors: must be one for each live block")
        found = found_locally(
            self._rows,
            current.memory,
            place,
            live=current.live,
            norms=norms,
            strength=task.scale / (self._lambda * self._rows.sample_count),
            loss=self._loss,
        )
        sizes = [len(self._rows.positions[block]) for block in current.opening.live_blocks]
        values = np.zeros(self._rows.count)
        # Cut towards zero, so that the sum of the holders' parts is feasible.
        values[current.live] = _cut(found / np.repeat(task.divisors, sizes))
        return values

    def _primal(self, current: _Round, task: PrimalTask) -> PrimalResult:
        """Settles what anchor and best model are, puts the memory down, and measures the new point and vertex."""
        settlement = settle(
            current.memory,
            task.round_id,
            RoundFigures.of(self._codec.from_numbers(task.figures)),
            collapse=current.opening.collapse,
            relative=task.relative,
            lambda_=self._lambda,
        )
        result = PrimalResult(
            point=None,
            vertex=None,
            conjugates=None,
            model=self._best_model(settlement.memory, current.opening.feature_blocks),
            figures=settlement.figures if task.report else None,
            accepted=settlement.accepted,
        )
        if task.point is None:
            return result
        if task.point.blocks != current.opening.live_blocks:
            raise InvalidInput("point.blocks: must be the blocks that take part")
        point = checked_duals(task.point, self._rows, self._codec)
        made = self._made(current, task, settlement.memory.anchor_place.values, point, settlement.predictions)
        self._kept = {number: kept for number, kept in self._kept.items() if number == current.opening.after} | {
            task.round_id: replace(settlement.memory, made=made)
        }
        return self._measured(current, made, settlement.memory, result)

    def _best_model(self, memory: Memory, blocks: Sequence[int]) -> BlockVector | None:
        return self._codec.to_features(memory.best_place.weights, blocks) if blocks else None

    def _made(self, current: _Round, task: PrimalTask, anchor: Array, found: Array, predictions: Array) -> Made:
        """The new point, and the vertex at the predictions: equal to the anchor where they do not tell otherwise."""
        point, vertex = anchor.copy(), None
        point[current.live] = found
        if task.vertex:
            vertex = anchor.copy()
            vertex[current.live] = self._loss.subgradient(
                predictions[current.live], labels_of(self._rows)[current.live]
            )
        return Made(point, vertex, task.relative)

    def _measured(self, current: _Round, made: Made, memory: Memory, result: PrimalResult) -> PrimalResult:
        """The result with what was made."""
        base = memory.anchor_place.values if made.relative else np.zeros(self._rows.count)
        scale = self._lambda * self._rows.sample_count
        reports = self._rows.positions_of(current.opening.report_blocks)
        points = [values for values in (made.point, made.vertex) if values is not None]
        shares = [self._codec.to_features(np.asarray(self._rows.X.T @ (values - base)) / scale) for values in points]
        return replace(
            result,
            point=shares[0],
            vertex=None if made.vertex is None else shares[1],
            conjugates=self._codec.to_numbers(numbers_of(self._rows, memory, points, reports, loss=self._loss)),
        )


def _cut(values: Array) -> Array:
    """In fixed point, rounded towards zero, where α stays feasible."""
    unit = ALPHA_FORMAT.resolution
    return np.asarray(np.trunc(values / unit) * unit, dtype=np.float64)


def _rounded(weights: Array) -> Array:
    """As their ciphertexts hold them."""
    return PRODUCT_FORMAT.dequantise(PRODUCT_FORMAT.quantise(weights))
