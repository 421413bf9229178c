"""The client half of every averaging algorithm.

A subclass says what a client does with its data (`train`), how a round's sums change the state (`apply`) and, where the
algorithm asks for it, which numbers it tells beforehand (`survey`): three functions of their arguments and of the
client's own data, which they do not change. All else is here: the messages, encryption, the client's copy of the state,
and the measurement of P(w).

Rows are in the order of the layout's blocks: X (n, m), y (n,). A vector has m·width entries, by feature name and then
by class. The state consists of fixed-point numbers, so encryption and decryption do not change a bit of it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.averaging.work import Contribution, Job, State, Update
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
from fenchel_common.objectives import correct_predictions
from fenchel_common.wire import averaging as wire

Array = NDArray[np.float64]
S = TypeVar("S", bound=AveragingSettings)


class AveragingClient(ABC, Generic[S]):
    """The client half of an algorithm; a subclass overrides `train`, and other methods whose defaults do not fit.

    Parameters
    ----------
    layout
        Which rows of `table` fill which blocks.
    cipher
        Encrypts the values that leave the party, decrypts those that come.
    key
        The key of the run's vectors.
    serialising
        Makes a context in which messages are turned into values and values into messages; it is timed.
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
        if self._rows.y is not None:
            self.check_labels(self._rows.y)
        self._cipher = cipher
        self._samples = BlockCodec(self._rows.positions, cipher)
        self._serialising = serialising
        self._cut = tuple(self._of_features(features) for _, features in sorted(layout.feature_blocks.items()))
        """The coordinates of each block of features of the layout."""
        self._columns = self._of_features(layout.columns)
        """The position among this client's coordinates of each one that the server counts."""
        self.diverged = False
        self._scope = wire.Scope(
            key=key,
            slots=layout.slots,
            length=self._rows.width * settings.width,
            samples={block: len(rows) for block, rows in self._rows.positions.items()},
            coordinate_blocks={},
            vectors=settings.vectors,
        )
        self._forget()

    @property
    def votes_for_coordinates(self) -> bool:
        """Whether coordinates are named in the server's order; those that it draws itself are in the clients' order."""
        return False

    @property
    def X(self) -> Matrix:  # noqa: N802 - the papers' symbol
        return self._rows.X

    @abstractmethod
    def train(self, state: State, job: Job) -> Contribution:
        """The client's work in a round, from the state before it; called in the phase `local`.

        Returns unweighted vectors, (m·width,) each. If a value is not finite or too large for an encrypted vector, the
        client reports divergence. `labels` raises `InvalidInput` at a party without labels.
        """

    def apply(self, state: State, update: Update) -> State:
        """The state after a round, from the state before it.

        Called once for each committed round, in order, at every client that has a coordinate of the round. No value
        may depend on another coordinate, because clients have different coordinates. Coordinates that no client gave
        stay unchanged whatever this method returns, because their holders may not learn of the round.
        """
        return {MODEL: update.mean(MODEL, otherwise=state[MODEL])}

    def survey(self, state: State) -> Mapping[str, float]:
        """The numbers of `Vectors.surveyed`, which the server learns before it decides on the round.

        Called in the phase `survey`, which only algorithms with such numbers have.
        """
        del state
        return {}

    def check_labels(self, y: Array) -> None:
        """Raises `InvalidInput` for labels that the algorithm cannot use; the message does not show them.

        Called once, before the first task, if the party has labels.
        """
        self.settings.check_labels(y)

    def losses(self, predictions: Array, y: Array) -> tuple[float, int]:
        """The sum of losses and the number of correct predictions; predictions are (n,), or (n, width)."""
        loss_sum = float(self.settings.loss_function.value(predictions, y).sum())
        return loss_sum, correct_predictions(predictions, y)

    def labels(self) -> Array:
        """As for `PartyRows.labels`."""
        return self._rows.labels()

    def preparation(self) -> bytes:
        return b""

    def answer(self, phase: str, body: bytes) -> bytes:
        if phase not in (SURVEY, LOCAL, MEASURE):
            raise InvalidInput(f"phase: this algorithm has no phase {phase!r}")
        with self._serialising():
            task = wire.task_from_bytes(body, self._scope)
        self.diverged = False
        try:
            # The values of a diverging model overflow: an outcome to report, not an error of this program.
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
        """Refuses blocks other than those of the layout: the norm of a block of one coordinate would show its value."""
        given = [blocks[block] for block in sorted(blocks)]
        if not np.array_equal(np.concatenate(given), np.concatenate(self._cut)):
            raise InvalidInput("state.layout: coordinates must be in the order of the layout's blocks of features")
        as_laid_out = [len(block) for block in given] == [len(block) for block in self._cut]
        not_full = sum(len(block) < self._scope.slots for block in given)
        if not as_laid_out and (self.settings.width == 1 or not_full > len(self._cut)):
            raise InvalidInput("state.layout: blocks must have the sizes of the layout's blocks of features")

    def _take(self, update: StateUpdate) -> None:
        if update.reset:
            self._forget()
        if update.layout is not None:
            blocks = {block: self._columns[positions] for block, positions in update.layout.items()}
            self._check_cut(blocks)
            self._coordinates = BlockCodec(blocks, self._cipher)
            sizes = {block: len(positions) for block, positions in blocks.items()}
            self._scope = replace(self._scope, coordinate_blocks=sizes)
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
        codec = self._codec_of(self._own(entry.coordinates))
        weights = self._zeros()
        for block, weight in entry.weights.items():
            weights[codec.positions[block]] = weight
        sums = {name: codec.put_into(self._zeros(), vector) for name, vector in entry.sums.items()}
        after = self.apply(self._state, Update(entry.round_id, entry.told, sums, weights))
        changed = (weights > 0.0) | (entry.coordinates is not None)
        return {
            name: MODEL_FORMAT.rounded(np.where(changed, after[name], before)) for name, before in self._state.items()
        }

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
        return Job(task.round_id, work.told, work.weight, self._own(work.coordinates), self._kept, rng)

    def _returned(self, contribution: Contribution, work: Work) -> dict[str, BlockVector]:
        names, given = self.settings.vectors, contribution.vectors
        chosen = self._codec_of(self._own(work.coordinates))
        vectors = {}
        for name in names.returned:
            codec = chosen if name in names.summed else self._coordinates
            values = given[name] * work.weight if name in names.summed else given[name]
            vectors[name] = codec.to_blocks(values, tuple(codec.positions), MODEL_FORMAT)
        self._kept = {name: MODEL_FORMAT.rounded(given[name]) for name in names.kept}
        return vectors

    def _measurement(self, task: Task) -> Measurement:
        loss_sum, correct, count = 0.0, 0, 0
        if task.report_blocks:
            rows = self._rows.positions_of(task.report_blocks)
            loss_sum, correct = self.losses(self._predictions(task)[rows], self.labels()[rows])
            count = len(rows)
        # In ascending order, so that the sum does not depend on the server's order of features.
        weights = self._state[MODEL][np.sort(self._coordinates.positions_of(task.norm_blocks))]
        return Measurement(count, loss_sum, correct, float(weights @ weights))

    def _predictions(self, task: Task) -> Array:
        """x_i·w: the secure sum on shared blocks, computed from the client's own columns on others."""
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

    def counted_by_server(self, coordinates: Positions) -> Positions:
        """The numbers under which the server knows these coordinates, ascending: they tell nothing of names."""
        return np.sort(np.argsort(self._columns)[coordinates])

    def _own(self, coordinates: Positions | None) -> Positions | None:
        """The positions among this client's coordinates of those that the server names."""
        return self._columns[coordinates] if coordinates is not None and self.votes_for_coordinates else coordinates

    def _of_features(self, features: Positions) -> Positions:
        """The coordinates of some features, feature by feature."""
        width = self.settings.width
        return np.asarray((features[:, np.newaxis] * width + np.arange(width)).reshape(-1), dtype=np.int64)

    def _codec_of(self, coordinates: Positions | None) -> BlockCodec:
        """The codec of these coordinates, cut into blocks; None stands for all coordinates."""
        if coordinates is None:
            return self._coordinates
        return BlockCodec(chosen_blocks(coordinates, self._scope.slots), self._cipher)

    def _zeros(self) -> Array:
        return np.zeros(self._scope.length)
