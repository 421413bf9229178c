"""The client half of every averaging algorithm.

A subclass says what a client does with its data (`train`), how a round's sums change the state (`apply`) and, where the
algorithm asks for it, which numbers it tells beforehand (`survey`): three functions of their arguments and of the
client's own data, which they do not change. All else is here: the messages, encryption, the client's copy of the state,
and the measurement of P(w). What a client is to do in a round follows from the records (`book`), not from its tasks.

Rows are in the order of the layout's blocks: X (n, m), y (n,). A vector has m·width entries, by feature name and then
by class. The state consists of fixed-point numbers, so encryption and decryption do not change a bit of it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.averaging.book import AveragingBook, RoundOnRecord
from fenchel_client.algorithms.averaging.figures import FigureCodec
from fenchel_client.algorithms.averaging.memory import Memory
from fenchel_client.algorithms.averaging.work import (
    PRODUCTS_FIELD,
    Contribution,
    Job,
    State,
    Update,
    checkpoint_field,
    trained_among,
    vector_field,
)
from fenchel_client.algorithms.codec import BlockCodec
from fenchel_client.algorithms.rows import PartyRows
from fenchel_client.crypto.plain import Cipher
from fenchel_client.crypto.seal import Seal
from fenchel_client.table import PartyTable
from fenchel_common.algorithms.averaging.choices import RecordedPlan
from fenchel_common.algorithms.averaging.rails import (
    ACCURACY,
    LOCAL,
    MEASURE,
    MEASURED,
    MODEL,
    MODEL_FORMAT,
    SURVEY,
    Measurement,
    Positions,
    Result,
    Task,
)
from fenchel_common.algorithms.averaging.settings import AveragingSettings
from fenchel_common.blocks import BlockVector
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import Vector
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
    seal
        Tags the vectors that leave the party, checks the tags of those that come.
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
        seal: Seal,
        serialising: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.settings = settings
        self._layout = layout
        self._rows = PartyRows(layout, table)
        if self._rows.y is not None:
            self.check_labels(self._rows.y)
        self._serialising = serialising
        self._samples = BlockCodec(
            "samples", self._rows.positions, self._rows.ids, layout.holders, layout.slots, cipher, seal
        )
        self._figures = FigureCodec(layout.clients, layout.sample_count, cipher, seal)
        self._first_book = AveragingBook.first(settings, layout, masked=key.masked)
        self._own = self._first_book.log.own
        self._memory = Memory(
            self._own,
            names=self._own.names(self._rows.features, width=settings.width),
            vectors=settings.vectors,
            cipher=cipher,
            seal=seal,
            apply=self.apply,
            in_own_order=self._in_own_order,
        )
        self.diverged = False
        self._measured_in: RoundOnRecord | None = None
        self._scope = wire.Scope(
            key=key,
            slots=layout.slots,
            length=self._own.length,
            samples={block: len(rows) for block, rows in self._rows.positions.items()},
            coordinate_blocks=self._own.sizes,
            vectors=settings.vectors,
        )

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

    def measured_numbers(self, state: State) -> Mapping[str, float]:
        """The numbers of `Vectors.measured`, which the server learns of this client's rows.

        Called after P(w) of all samples has been opened, unless this client shares samples with others.
        """
        del state
        return {}

    def check_labels(self, y: Array) -> None:
        """Raises `InvalidInput` for labels that the algorithm cannot use; the message does not show them.

        Called once, before the first task, if the party has labels.
        """
        self.settings.check_labels(y)

    def losses(self, predictions: Array, y: Array) -> tuple[float, int]:
        """The sum of losses and the number of correct predictions; predictions are (n,), or (n, width).

        In regression no prediction counts as correct.
        """
        loss_sum = float(self.settings.loss_function.value(predictions, y).sum())
        return loss_sum, correct_predictions(predictions, y)

    def labels(self) -> Array:
        """As for `PartyRows.labels`."""
        return self._rows.labels()

    def preparation(self) -> bytes:
        return b""

    def first_book(self) -> AveragingBook:
        return self._first_book

    def answer(self, phase: str, body: bytes, book: AveragingBook) -> bytes:
        current = book.current(phase)
        if current.has_reached(phase):
            raise InvalidInput(f"phase: {phase!r} of this round is over")
        with self._serialising():
            task = wire.task_from_bytes(body, self._scope)
        self.diverged = False
        try:
            # The values of a diverging model overflow: an outcome to report, not an error of this program.
            with np.errstate(over="ignore", invalid="ignore"):
                result = self._result(phase, task, book, current)
        except (ValueOutOfRange, ValueNotFinite):
            result, self.diverged = Result(diverged=True), True
        with self._serialising():
            return wire.result_to_bytes(result)

    def measured(self, book: AveragingBook) -> bool:
        """Whether this party opened, in the newest round on record, figures of all parties about the model on record.

        Only a closing round leaves the model that it measures as it is. A party that restarted since then knows by its
        own confirmation on record that it opened the figures.
        """
        current = book.round
        if current is None or not current.closing or not current.figures:
            return False
        remembered = self._measured_in is not None and self._measured_in.figures == current.figures
        return remembered or self._layout.party in current.opened_by

    def final_model(self, state: bytes, book: AveragingBook) -> Array:
        """The weights of this client's features, (m,) or (m, width); its memory is neither used nor changed."""
        weights = self._memory.opened(wire.state_from_bytes(state, self._scope), book)[MODEL]
        return weights if self.settings.width == 1 else weights.reshape(-1, self.settings.width)

    def predictions(self, state: State) -> Array:
        """(n,) or (n, width): x_i·w on this client's own columns."""
        weights, width = state[MODEL], self.settings.width
        return np.asarray(self.X @ (weights if width == 1 else weights.reshape(-1, width)), dtype=np.float64)

    def own_accuracy(self, state: State) -> dict[str, float]:
        """The fraction of correct predictions for this client's rows, as a number of `Vectors.measured`."""
        y = self.labels()
        return {ACCURACY: correct_predictions(self.predictions(state), y) / len(y)}

    def counted_by_server(self, coordinates: Positions) -> Positions:
        """The numbers under which the server knows these coordinates, ascending: they tell nothing of names."""
        return np.sort(np.argsort(self._own.numbered)[coordinates])

    def _result(self, phase: str, task: Task, book: AveragingBook, current: RoundOnRecord) -> Result:
        party = self._layout.party
        if phase == SURVEY and party in current.active and current.plan is None:
            return Result(reported=dict(self.survey(self._memory.take(task.state, book, current))))
        if phase == LOCAL and (party in current.trainers or current.measuring):
            return self._local_result(self._memory.take(task.state, book, current), current)
        if phase == MEASURE and current.measuring:
            return Result(figures=self._shared_figures(task, book, self._memory.state_before(current)))
        if phase == MEASURED:
            return self._measured_result(task, book, current)
        raise InvalidInput(f"phase: by the records this party has nothing to do in the phase {phase!r:.80}")

    def _local_result(self, state: State, current: RoundOnRecord) -> Result:
        given = Contribution({})
        vectors: dict[str, BlockVector] = {}
        restated: tuple[int, ...] = ()
        if current.plan is not None and self._layout.party in current.trainers:
            given = self.train(state, self._job(current, current.plan))
            vectors = self._returned(given, current.plan)
            restated = self._own.first_held_of(current.trainers) if current.plan.restating else ()
        return Result(
            vectors=vectors,
            reported=dict(given.reported),
            checkpoint={
                name: self._memory.coordinates.to_blocks(checkpoint_field(name), state[name], restated, MODEL_FORMAT)
                for name in (self.settings.vectors.state if restated else ())
            },
            products=self._products(state) if current.measuring and self._rows.shared else None,
            figures=self._own_figures(state) if current.measuring else None,
        )

    def _job(self, current: RoundOnRecord, plan: RecordedPlan) -> Job:
        party = self._layout.party
        stream = self._layout.clients.index(party)
        return Job(
            round_id=current.id,
            told=plan.told,
            weight=plan.weights[party],
            coordinates=None if plan.coordinates is None else self._in_own_order(plan.coordinates),
            kept=self._memory.kept,
            rng=np.random.default_rng([self.settings.seed, current.id, stream]),
        )

    def _returned(self, contribution: Contribution, plan: RecordedPlan) -> dict[str, BlockVector]:
        names, given = self.settings.vectors, contribution.vectors
        chosen = self._memory.codec_of(plan.coordinates)
        vectors = {}
        for name in names.returned:
            codec = chosen if name in names.summed else self._memory.own_coordinates
            values = given[name] * plan.weights[self._layout.party] if name in names.summed else given[name]
            among = trained_among(plan.trainers) if name in names.summed else None
            vectors[name] = codec.to_blocks(
                vector_field(name), values, tuple(codec.positions), MODEL_FORMAT, among=among
            )
        self._memory.keep(given)
        return vectors

    def _products(self, state: State) -> BlockVector:
        blocks = tuple(block for block in self._rows.positions if block in self._rows.shared)
        predictions = self.predictions(state)
        return self._samples.to_blocks(PRODUCTS_FIELD, predictions, blocks, MODEL_FORMAT, among=lambda holders: holders)

    def _own_figures(self, state: State) -> Vector:
        """Of the samples that this client alone holds, and of the blocks of coordinates that it holds first."""
        alone = tuple(block for block in self._layout.reports if block not in self._rows.shared)
        measured = self._measurement(alone, self.predictions(state)) if alone else Measurement()
        # In ascending order, so that the sum does not depend on the server's order of features.
        weights = state[MODEL][
            np.sort(self._memory.coordinates.positions_of(self._own.first_held_of(self._layout.clients)))
        ]
        whole = replace(measured, squared_norm=float(weights @ weights))
        return self._figures.closed(whole)

    def _shared_figures(self, task: Task, book: AveragingBook, state: State) -> Vector:
        """Of the samples that this client reports on and holds together with others, by the secure sums.

        A client that reports on none gives zeros, because the masks of all clients cancel only together.
        """
        due = tuple(block for block in self._layout.reports if block in self._rows.shared)
        if due != (() if task.products is None else task.products.blocks):
            raise InvalidInput("products.blocks: must be the shared blocks that this party reports on")
        measured = Measurement()
        if task.products is not None:
            predictions = self._samples.put_into(self.predictions(state), task.products, book.product_origins())
            measured = self._measurement(due, predictions)
        return self._figures.closed(measured)

    def _measurement(self, blocks: tuple[int, ...], predictions: Array) -> Measurement:
        rows = self._rows.positions_of(blocks)
        loss_sum, correct = self.losses(predictions[rows], self.labels()[rows])
        return Measurement(len(rows), loss_sum, correct)

    def _measured_result(self, task: Task, book: AveragingBook, current: RoundOnRecord) -> Result:
        """P(w) of all samples, in clear: only if all parties contributed, and all samples are in it."""
        if task.figures is None:
            raise InvalidInput("figures: missing")
        whole = self._figures.opened(task.figures, book.figure_origins())
        self._measured_in = current
        numbers = {} if self._rows.shared else self.measured_numbers(self._memory.state_before(current))
        return Result(reported=dict(numbers), measurement=whole)

    def _in_own_order(self, coordinates: Positions) -> Positions:
        """The positions among this client's coordinates of those that the server names."""
        return self._own.numbered[coordinates] if self.votes_for_coordinates else coordinates
