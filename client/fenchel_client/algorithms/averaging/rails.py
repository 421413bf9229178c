"""The client half of every algorithm on the averaging rails.

A subclass says what a client does with its data (`train`), how a round's sums change the state (`apply`) and, where the
algorithm asks for it, which numbers it tells beforehand (`survey`): three functions of their arguments and of the
client's own data, which they do not change. All else is here: the messages, encryption, the client's copy of the state,
and the measurement of P(w).

Rows are in the order of the layout's blocks: X (n, m), y (n,). A vector has m·width entries, by feature name and then
by class. The state is kept as fixed-point numbers, so a state that was sent encrypted is bit for bit the one it was.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.holdings import arranged_matrix
from fenchel_common.algorithms.averaging.rails import (
    LOCAL,
    MEASURE,
    MODEL,
    MODEL_FORMAT,
    SURVEY,
    Entry,
    Measurement,
    Positions,
    Result,
    StateUpdate,
    Task,
    Work,
    chosen_blocks,
)
from fenchel_common.algorithms.averaging.settings import AveragingSettings
from fenchel_common.blocks import BlockVector, pack, unpack
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import Cipher
from fenchel_common.data.shard import Shard
from fenchel_common.errors import InvalidInput, ValueNotFinite, ValueOutOfRange
from fenchel_common.ids import RoundId
from fenchel_common.wire import averaging as wire

Array = NDArray[np.float64]
State = Mapping[str, Array]
S = TypeVar("S", bound=AveragingSettings)


@dataclass(frozen=True, slots=True)
class Job:
    """A client's work in a round.

    Attributes
    ----------
    told
        The server's public numbers.
    weight
        With what weight the vectors will count; the rails multiply by it.
    coordinates
        What the summed vectors will be cut down to; None for all.
    kept
        The client's own vectors as it returned them last; zero in the beginning.
    rng
        The same for every repetition of the round.
    """

    round_id: RoundId
    told: Mapping[str, float]
    weight: float
    coordinates: Positions | None
    kept: State
    rng: np.random.Generator


@dataclass(frozen=True, slots=True)
class Contribution:
    """What a client returns: the vectors of `Vectors.returned` and the numbers of `Vectors.reported`."""

    vectors: State
    reported: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Update:
    """A round's sums, zero where nobody gave any, and at each coordinate the total weight of those who did."""

    round_id: RoundId
    told: Mapping[str, float]
    sums: State
    weights: Array

    def mean(self, name: str, otherwise: Array) -> Array:
        """The weighted mean where somebody gave a value, `otherwise` elsewhere."""
        given = self.weights > 0.0
        return np.divide(self.sums[name], self.weights, out=otherwise.copy(), where=given)


class AveragingClient(ABC, Generic[S]):
    """The client half of an algorithm; a subclass overrides `train`, and what else differs from the defaults.

    Parameters
    ----------
    layout
        Which rows of `shard` fill which blocks.
    cipher
        Encrypts what leaves, decrypts what comes.
    key
        What the run's vectors are under.
    serialising
        Makes a context that surrounds every step between messages and their values.
    """

    def __init__(
        self,
        settings: S,
        *,
        layout: ClientLayout,
        shard: Shard,
        cipher: Cipher,
        key: RunKey,
        serialising: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.settings = settings
        self.X = arranged_matrix(shard, layout)
        self.y = None if shard.y is None else shard.y[layout.rows]
        if self.y is not None:
            self.check_labels(self.y)
        self._cipher = cipher
        self._serialising = serialising
        ends = layout.offsets
        self._rows = {
            int(block): np.arange(ends[place], ends[place + 1]) for place, block in enumerate(layout.block_ids)
        }
        self._cut = tuple(self._coordinates(held) for _, held in sorted(layout.feature_blocks.items()))
        """The coordinates of each block of features of the layout."""
        self._columns = self._coordinates(layout.columns)
        """The position among this client's coordinates of each one that the server counts."""
        self.diverged = False
        self._shared = frozenset(int(block) for block in layout.block_ids[layout.shared])
        self._scope = wire.Scope(
            key=key,
            slots=layout.slots,
            length=self.X.shape[1] * settings.width,
            samples={block: len(rows) for block, rows in self._rows.items()},
            held={},
            vectors=settings.vectors,
        )
        self._forget()

    @property
    def votes_for_coordinates(self) -> bool:
        """Whether coordinates are named in the server's order; those that it draws itself are in the clients' order."""
        return False

    @abstractmethod
    def train(self, state: State, job: Job) -> Contribution:
        """What this client has to add, from the state that entered the round."""

    def apply(self, state: State, update: Update) -> State:
        """The state after a round, coordinate by coordinate: no value may depend on another coordinate.

        Blocks that nobody gave stay as they are whatever this returns, because their holders may not hear of the round.
        """
        return {MODEL: update.mean(MODEL, otherwise=state[MODEL])}

    def survey(self, state: State) -> Mapping[str, float]:
        """The numbers of `Vectors.surveyed`."""
        del state
        return {}

    def check_labels(self, y: Array) -> None:
        """Refuses labels that the algorithm cannot take, without showing them."""
        self.settings.loss_function.check_labels(y)

    def losses(self, predictions: Array, y: Array) -> tuple[float, int]:
        """The sum of losses and the number of correct predictions; predictions are (n,), or (n, width)."""
        correct = np.where(predictions >= 0.0, 1.0, -1.0) == y
        return float(self.settings.loss_function.value(predictions, y).sum()), int(np.count_nonzero(correct))

    def labels(self) -> Array:
        if self.y is None:
            raise InvalidInput("local: this client has no labels, and can neither train nor report")
        return self.y

    def opening(self) -> bytes:
        return b""

    def answer(self, phase: str, body: bytes) -> bytes:
        if phase not in (SURVEY, LOCAL, MEASURE):
            raise InvalidInput(f"phase: this algorithm has no phase {phase!r}")
        with self._serialising():
            task = wire.task_from_bytes(body, self._scope)
        self.diverged = False
        try:
            # A diverging model overflows; that is an outcome to report, not a fault of this program.
            with np.errstate(over="ignore", invalid="ignore"):
                self._take(task.state)
                result = self._result(phase, task)
        except (ValueOutOfRange, ValueNotFinite):
            result, self.diverged = Result(diverged=True), True
        with self._serialising():
            return wire.result_to_bytes(result)

    def final_model(self, state: bytes) -> Array:
        """The weights of this client's features, (m,) or (m, width), after the run's last state update."""
        self._take(wire.state_from_bytes(state, self._scope))
        weights = self._state[MODEL]
        return weights.copy() if self.settings.width == 1 else weights.reshape(-1, self.settings.width).copy()

    def _forget(self) -> None:
        names = self.settings.vectors
        self._blocks: Mapping[int, Positions] = {}
        self._state: State = {name: np.zeros(self._scope.length) for name in names.state}
        self._kept: State = {name: np.zeros(self._scope.length) for name in names.kept}

    def _check_cut(self, blocks: Mapping[int, Positions]) -> None:
        """Refuses blocks of coordinates that are not those of the layout: the norm of a single one would tell it."""
        given = [blocks[block] for block in sorted(blocks)]
        if not np.array_equal(np.concatenate(given), np.concatenate(self._cut)):
            raise InvalidInput("state.layout: coordinates must be in the order of the layout's blocks of features")
        as_laid_out = [len(held) for held in given] == [len(held) for held in self._cut]
        not_full = sum(len(held) < self._scope.slots for held in given)
        if not as_laid_out and (self.settings.width == 1 or not_full > len(self._cut)):
            raise InvalidInput("state.layout: blocks must be cut as those of the layout are")

    def _take(self, update: StateUpdate) -> None:
        if update.reset:
            self._forget()
        if update.layout is not None:
            self._blocks = {block: self._columns[held] for block, held in update.layout.items()}
            self._check_cut(self._blocks)
            self._scope = replace(self._scope, held={block: len(held) for block, held in update.layout.items()})
        if update.base:
            self._state = {
                name: self._unpacked(update.base[name], self._blocks, held) for name, held in self._state.items()
            }
        if update.kept:
            self._kept = {name: self._unpacked(held, self._blocks) for name, held in update.kept.items()}
        for entry in update.entries:
            self._state = self._applied(entry)

    def _applied(self, entry: Entry) -> State:
        blocks = self._blocks_of(self._own(entry.coordinates))
        weights = np.zeros(self._scope.length)
        for block, weight in entry.weights.items():
            weights[blocks[block]] = weight
        sums = {name: self._unpacked(held, blocks) for name, held in entry.sums.items()}
        after = self.apply(self._state, Update(entry.round_id, entry.told, sums, weights))
        changed = (weights > 0.0) | (entry.coordinates is not None)
        return {name: _on_grid(np.where(changed, after[name], held)) for name, held in self._state.items()}

    def _result(self, phase: str, task: Task) -> Result:
        if phase == SURVEY:
            return Result(reported=dict(self.survey(self._state)))
        if phase == MEASURE:
            return Result(measurement=self._measurement(task))
        contribution = Contribution({}) if task.work is None else self.train(self._state, self._job(task, task.work))
        restated = self.settings.vectors.state if task.checkpoint_blocks else ()
        return Result(
            vectors={} if task.work is None else self._returned(contribution, task.work),
            reported=dict(contribution.reported),
            checkpoint={
                name: self._packed(self._state[name], self._blocks, task.checkpoint_blocks) for name in restated
            },
            products=self._products(task.product_blocks) if task.product_blocks else None,
            measurement=self._measurement(task) if task.report_blocks or task.norm_blocks else None,
        )

    def _job(self, task: Task, work: Work) -> Job:
        rng = np.random.default_rng([self.settings.seed, task.round_id, task.stream])
        return Job(task.round_id, work.told, work.weight, self._own(work.coordinates), self._kept, rng)

    def _returned(self, contribution: Contribution, work: Work) -> dict[str, BlockVector]:
        names, given = self.settings.vectors, contribution.vectors
        chosen = self._blocks_of(self._own(work.coordinates))
        vectors = {}
        for name in names.returned:
            blocks = chosen if name in names.summed else self._blocks
            values = given[name] * work.weight if name in names.summed else given[name]
            vectors[name] = self._packed(values, blocks, tuple(blocks))
        self._kept = {name: _on_grid(given[name]) for name in names.kept}
        return vectors

    def _measurement(self, task: Task) -> Measurement:
        loss_sum, correct, count = 0.0, 0, 0
        if task.report_blocks:
            rows = np.concatenate([self._rows[block] for block in task.report_blocks])
            loss_sum, correct = self.losses(self._predictions(task)[rows], self.labels()[rows])
            count = len(rows)
        held = [self._blocks[block] for block in task.norm_blocks]
        # In ascending order, so that the sum does not depend on the server's order of features.
        weights = self._state[MODEL][np.sort(np.concatenate(held))] if held else np.zeros(0)
        return Measurement(count, loss_sum, correct, float(weights @ weights))

    def _predictions(self, task: Task) -> Array:
        """x_i·w: from the secure sum where others hold a part, else from own columns."""
        values = self._own_products()
        due = tuple(block for block in task.report_blocks if block in self._shared)
        if due != (() if task.products is None else task.products.blocks):
            raise InvalidInput("products.blocks: must be the shared blocks that are reported on")
        return values if task.products is None else self._unpacked(task.products, self._rows, values)

    def _products(self, blocks: Sequence[int]) -> BlockVector:
        return self._packed(self._own_products(), self._rows, blocks)

    def _own_products(self) -> Array:
        weights = self._state[MODEL]
        width = self.settings.width
        return np.asarray(self.X @ (weights if width == 1 else weights.reshape(-1, width)), dtype=np.float64)

    def counted_by_server(self, coordinates: Positions) -> Positions:
        """The numbers under which the server knows these coordinates, ascending: they tell nothing of names."""
        return np.sort(np.argsort(self._columns)[coordinates])

    def _own(self, coordinates: Positions | None) -> Positions | None:
        """The positions among this client's coordinates of those that the server names."""
        return self._columns[coordinates] if coordinates is not None and self.votes_for_coordinates else coordinates

    def _coordinates(self, features: Positions) -> Positions:
        """The coordinates of some features, feature by feature."""
        width = self.settings.width
        return np.asarray((features[:, np.newaxis] * width + np.arange(width)).reshape(-1), dtype=np.int64)

    def _blocks_of(self, coordinates: Positions | None) -> Mapping[int, Positions]:
        return self._blocks if coordinates is None else chosen_blocks(coordinates, self._scope.slots)

    def _packed(self, values: Array, places: Mapping[int, Positions], blocks: Sequence[int]) -> BlockVector:
        where, sizes = _places_of(blocks, places)
        return pack(values[where], blocks, sizes, cipher=self._cipher, vector_format=MODEL_FORMAT)

    def _unpacked(self, vector: BlockVector, places: Mapping[int, Positions], into: Array | None = None) -> Array:
        """The vector's values at the places of its blocks, those of `into` or zero elsewhere."""
        values = np.zeros(self._scope.length) if into is None else into.copy()
        where, sizes = _places_of(vector.blocks, places)
        values[where] = unpack(vector, sizes, cipher=self._cipher)
        return values


def _places_of(blocks: Sequence[int], places: Mapping[int, Positions]) -> tuple[Positions, list[int]]:
    """The places of these blocks one after the other, and how many each has."""
    chosen = [places[block] for block in blocks]
    return np.concatenate([np.zeros(0, dtype=np.int64), *chosen]), [len(held) for held in chosen]


def _on_grid(values: Array) -> Array:
    """The fixed-point numbers that these values are sent as."""
    return MODEL_FORMAT.dequantise(MODEL_FORMAT.quantise(values))
