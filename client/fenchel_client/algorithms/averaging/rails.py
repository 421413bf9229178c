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

from fenchel_client.algorithms.codec import BlockCodec
from fenchel_client.algorithms.rows import PartyRows
from fenchel_client.table import PartyTable
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
from fenchel_common.blocks import BlockVector
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import Cipher
from fenchel_common.data.shard import Matrix
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
        Which rows of `table` fill which blocks.
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
        table: PartyTable,
        cipher: Cipher,
        key: RunKey,
        serialising: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.settings = settings
        self._rows = PartyRows(layout, table)
        self.y = self._rows.y
        if self.y is not None:
            self.check_labels(self.y)
        self._cipher = cipher
        self._samples = BlockCodec(self._rows.positions, cipher)
        self._serialising = serialising
        self._cut = tuple(
            (features[:, np.newaxis] * settings.width + np.arange(settings.width)).reshape(-1)
            for _, features in sorted(layout.feature_blocks.items())
        )
        """The coordinates of each block of features of the layout."""
        self.diverged = False
        self._scope = wire.Scope(
            key=key,
            slots=layout.slots,
            length=self._rows.width * settings.width,
            samples={block: len(rows) for block, rows in self._rows.positions.items()},
            held={},
            vectors=settings.vectors,
        )
        self._forget()

    @property
    def X(self) -> Matrix:  # noqa: N802 - the papers' symbol
        return self._rows.X

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
        self.settings.check_labels(y)

    def losses(self, predictions: Array, y: Array) -> tuple[float, int]:
        """The sum of losses and the number of correct predictions; predictions are (n,), or (n, width)."""
        correct = np.where(predictions >= 0.0, 1.0, -1.0) == y
        return float(self.settings.loss_function.value(predictions, y).sum()), int(np.count_nonzero(correct))

    def labels(self) -> Array:
        if self.y is None:
            raise InvalidInput("local: this client has no labels, and can neither train nor report")
        return self.y

    def preparation(self) -> bytes:
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
        self._coordinates = BlockCodec({}, self._cipher)
        self._state: State = {name: self._zeros() for name in names.state}
        self._kept: State = {name: self._zeros() for name in names.kept}

    def _check_cut(self, blocks: Mapping[int, Positions]) -> None:
        """Refuses blocks of coordinates that are not those of the layout: the norm of a single one would tell it."""
        given = [blocks[block] for block in sorted(blocks)]
        if not np.array_equal(np.concatenate(given), np.concatenate(self._cut)):
            raise InvalidInput("state.layout: coordinates must be in the order of the layout's blocks of features")
        as_laid_out = [len(block) for block in given] == [len(block) for block in self._cut]
        not_full = sum(len(block) < self._scope.slots for block in given)
        if not as_laid_out and (self.settings.width == 1 or not_full > len(self._cut)):
            raise InvalidInput("state.layout: blocks must be cut as those of the layout are")

    def _take(self, update: StateUpdate) -> None:
        if update.reset:
            self._forget()
        if update.layout is not None:
            self._check_cut(update.layout)
            self._coordinates = BlockCodec(update.layout, self._cipher)
            sizes = {block: len(positions) for block, positions in update.layout.items()}
            self._scope = replace(self._scope, held=sizes)
        if update.base:
            self._state = {
                name: self._coordinates.put_into(values, update.base[name]) for name, values in self._state.items()
            }
        if update.kept:
            self._kept = {
                name: self._coordinates.put_into(self._zeros(), vector) for name, vector in update.kept.items()
            }
        for entry in update.entries:
            self._state = self._applied(entry)

    def _applied(self, entry: Entry) -> State:
        codec = self._codec_of(entry.coordinates)
        weights = self._zeros()
        for block, weight in entry.weights.items():
            weights[codec.positions[block]] = weight
        sums = {name: codec.put_into(self._zeros(), vector) for name, vector in entry.sums.items()}
        after = self.apply(self._state, Update(entry.round_id, entry.told, sums, weights))
        changed = (weights > 0.0) | (entry.coordinates is not None)
        return {name: _on_grid(np.where(changed, after[name], before)) for name, before in self._state.items()}

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
                name: self._coordinates.to_blocks(self._state[name], task.checkpoint_blocks, MODEL_FORMAT)
                for name in restated
            },
            products=self._products(task.product_blocks) if task.product_blocks else None,
            measurement=self._measurement(task) if task.report_blocks or task.norm_blocks else None,
        )

    def _job(self, task: Task, work: Work) -> Job:
        rng = np.random.default_rng([self.settings.seed, task.round_id, task.stream])
        return Job(task.round_id, work.told, work.weight, work.coordinates, self._kept, rng)

    def _returned(self, contribution: Contribution, work: Work) -> dict[str, BlockVector]:
        names, given = self.settings.vectors, contribution.vectors
        chosen = self._codec_of(work.coordinates)
        vectors = {}
        for name in names.returned:
            codec = chosen if name in names.summed else self._coordinates
            values = given[name] * work.weight if name in names.summed else given[name]
            vectors[name] = codec.to_blocks(values, tuple(codec.positions), MODEL_FORMAT)
        self._kept = {name: _on_grid(given[name]) for name in names.kept}
        return vectors

    def _measurement(self, task: Task) -> Measurement:
        loss_sum, correct, count = 0.0, 0, 0
        if task.report_blocks:
            rows = self._rows.positions_of(task.report_blocks)
            loss_sum, correct = self.losses(self._predictions(task)[rows], self.labels()[rows])
            count = len(rows)
        weights = self._state[MODEL][self._coordinates.positions_of(task.norm_blocks)]
        return Measurement(count, loss_sum, correct, float(weights @ weights))

    def _predictions(self, task: Task) -> Array:
        """x_i·w: from the secure sum where others hold a part, else from own columns."""
        values = self._own_products()
        due = tuple(block for block in task.report_blocks if block in self._rows.shared)
        if due != (() if task.products is None else task.products.blocks):
            raise InvalidInput("products.blocks: must be the shared blocks that are reported on")
        return values if task.products is None else self._samples.put_into(values, task.products)

    def _products(self, blocks: Sequence[int]) -> BlockVector:
        return self._samples.to_blocks(self._own_products(), blocks, MODEL_FORMAT)

    def _own_products(self) -> Array:
        weights = self._state[MODEL]
        width = self.settings.width
        return np.asarray(self.X @ (weights if width == 1 else weights.reshape(-1, width)), dtype=np.float64)

    def _codec_of(self, coordinates: Positions | None) -> BlockCodec:
        """The codec of some coordinates, cut into blocks; of all coordinates for None."""
        if coordinates is None:
            return self._coordinates
        return BlockCodec(chosen_blocks(coordinates, self._scope.slots), self._cipher)

    def _zeros(self) -> Array:
        return np.zeros(self._scope.length)


def _on_grid(values: Array) -> Array:
    """The fixed-point numbers that these values are sent as."""
    return MODEL_FORMAT.dequantise(MODEL_FORMAT.quantise(values))
