"""One party's values in the messages between it and the server, as an adversary reads them.

Rows are in the order of the party's blocks, columns in the order of its feature names: α and inner products (n,), parts
of the model (m,). Vectors stay as they were sent until `Eyes` read them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fenchel.v1 import corrective_pb2, hyfdca_pb2
from fenchel_common.algorithms.dual import INNER_PRODUCT, LOCAL_DUAL, PRIMAL
from fenchel_common.algorithms.hyfdca.messages import INNER_PRODUCT_AFTER, SYNC
from fenchel_common.algorithms.hyfdca.rounds import RoundRules
from fenchel_common.algorithms.hyfdca.settings import HyfdcaSettings
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.ids import ClientId
from fenchel_common.layout import FederationLayout
from fenchel_common.records import ROUND, seed_from_bytes
from fenchel_common.setup import LAYOUT
from fenchel_common.wire.arrays import numbers_from_bytes
from fenchel_common.wire.hyfdca_records import round_choices_from_bytes
from fenchel_common.wire.records import record_from_bytes
from fenchel_deploy.attacks.views import Array, Eyes, Message, Transcript

Positions = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Frame:
    """The positions of a party's blocks among its rows and features; the server and the party both know them."""

    samples: dict[int, Positions]
    features: dict[int, Positions]
    slots: int
    feature_slots: int

    @classmethod
    def seen_by_server(cls, layout: FederationLayout, client: ClientId) -> "Frame":
        samples = _stretches(list(layout.sample_index.of(client).items()))
        return cls(samples, layout.feature_positions(client), layout.slots, layout.feature_slots)

    @classmethod
    def seen_by_party(cls, layout: ClientLayout) -> "Frame":
        sizes = zip(layout.block_ids.tolist(), layout.block_sizes.tolist(), strict=True)
        return cls(_stretches(list(sizes)), dict(layout.feature_blocks), layout.slots, layout.feature_slots)

    @property
    def rows(self) -> int:
        return sum(len(positions) for positions in self.samples.values())

    @property
    def width(self) -> int:
        return sum(len(positions) for positions in self.features.values())

    def by_sample(self, blocks: bytes, values: Array, into: Array) -> Array:
        """A copy of the array `into`, with the values of some blocks replaced."""
        return _placed(self.samples, self.slots, blocks, values, into)

    def by_feature(self, blocks: bytes, values: Array) -> Array:
        """An array with the values of some blocks, and zero elsewhere."""
        return _placed(self.features, self.feature_slots, blocks, values, np.zeros(self.width))


@dataclass(frozen=True, slots=True)
class Seen:
    """A vector by feature in a message, and the round of the message."""

    round_id: int
    vector: hyfdca_pb2.BlockVector = field(repr=False)


@dataclass(slots=True)
class Trace:
    """One party's values in the order in which they were sent.

    Attributes
    ----------
    contributions
        X_kᵀα/(λN), or for corrective steps X_kᵀv/(λN) of the vertices v.
    iterates
        Dual variables, and X_kᵀ of them divided by λN.
    products
        A model, and the inner products of the rows with it.
    duals
        Dual variables as the party is told them.
    models
        The whole model on the party's features, by round; not of corrective steps, whose parties find it themselves.
    """

    frame: Frame
    contributions: list[Seen] = field(default_factory=list)
    iterates: list[tuple[Array, Array]] = field(default_factory=list)
    products: list[tuple[Array, Array]] = field(default_factory=list)
    duals: list[Array] = field(default_factory=list)
    models: list[Seen] = field(default_factory=list)


def trace(frame: Frame, messages: Sequence[Message], eyes: Eyes, *, family: str) -> Trace:
    """All values that `eyes` can read in one party's messages; `family` is the name of the run's family."""
    reader = _READERS[family](frame, eyes)
    for message in messages:
        if message.round_id > 0:
            reader.take(message)
    return reader.trace


class _HyfdcaReader:
    def __init__(self, frame: Frame, eyes: Eyes) -> None:
        self.trace = Trace(frame)
        self._frame, self._eyes = frame, eyes
        self._alpha = np.zeros(frame.rows)
        self._model = np.zeros(frame.width)

    def take(self, message: Message) -> None:
        if message.phase in (SYNC, PRIMAL):
            self._primal(message)
        elif message.phase in (INNER_PRODUCT, INNER_PRODUCT_AFTER):
            self._product(message)
        elif message.phase == LOCAL_DUAL:
            self._take_model(hyfdca_pb2.HyfdcaDualTask.FromString(message.task_body), message.round_id)

    def _primal(self, message: Message) -> None:
        task = hyfdca_pb2.HyfdcaPrimalTask.FromString(message.task_body)
        result = hyfdca_pb2.HyfdcaPrimalResult.FromString(message.result_body)
        if task.HasField("alpha"):
            self._alpha = self._frame.by_sample(task.alpha.blocks, self._eyes.read(task.alpha.vector), self._alpha)
            self.trace.duals.append(self._alpha.copy())
        self.trace.contributions.append(Seen(message.round_id, result.contribution))
        contribution = self._frame.by_feature(result.contribution.blocks, self._eyes.read(result.contribution.vector))
        self.trace.iterates.append((self._alpha.copy(), contribution))

    def _product(self, message: Message) -> None:
        self._take_model(hyfdca_pb2.HyfdcaProductTask.FromString(message.task_body), message.round_id)
        result = hyfdca_pb2.HyfdcaProductResult.FromString(message.result_body)
        values = self._eyes.read(result.products.vector)
        products = self._frame.by_sample(result.products.blocks, values, np.full(self._frame.rows, np.nan))
        self.trace.products.append((self._model.copy(), products))

    def _take_model(self, task: hyfdca_pb2.HyfdcaProductTask | hyfdca_pb2.HyfdcaDualTask, round_id: int) -> None:
        if task.HasField("model"):
            self.trace.models.append(Seen(round_id, task.model))
            self._model = self._frame.by_feature(task.model.blocks, self._eyes.read(task.model.vector))


class _CorrectiveReader:
    def __init__(self, frame: Frame, eyes: Eyes) -> None:
        self.trace = Trace(frame)
        self._frame, self._eyes = frame, eyes

    def take(self, message: Message) -> None:
        if message.phase == INNER_PRODUCT:
            self._products(message)
        elif message.phase == PRIMAL:
            self._primal(message)

    def _products(self, message: Message) -> None:
        start = corrective_pb2.CorrectiveProductTask.FromString(message.task_body).round_start
        result = corrective_pb2.CorrectiveProductResult.FromString(message.result_body)
        pairs = []
        if start.HasField("vertex") and result.HasField("vertex"):
            pairs.append((start.vertex, result.vertex))
        if start.HasField("point") and result.HasField("point"):
            pairs.append((start.point, result.point))
        for weights, products in pairs:
            values = self._eyes.read(products.vector)
            told = self._frame.by_sample(products.blocks, values, np.full(self._frame.rows, np.nan))
            model = self._frame.by_feature(weights.blocks, self._eyes.read(weights.vector))
            self.trace.products.append((model, told))

    def _primal(self, message: Message) -> None:
        task = corrective_pb2.CorrectivePrimalTask.FromString(message.task_body)
        result = corrective_pb2.CorrectivePrimalResult.FromString(message.result_body)
        if task.HasField("point"):
            values = self._eyes.read(task.point.vector)
            point = self._frame.by_sample(task.point.blocks, values, np.zeros(self._frame.rows))
            self.trace.duals.append(point)
            if result.HasField("point"):
                told = self._frame.by_feature(result.point.blocks, self._eyes.read(result.point.vector))
                self.trace.iterates.append((point, told))
        if result.HasField("vertex"):
            self.trace.contributions.append(Seen(message.round_id, result.vertex))


_READERS: Final[Mapping[str, type[_HyfdcaReader] | type[_CorrectiveReader]]] = {
    "hyfdca": _HyfdcaReader,
    "corrective": _CorrectiveReader,
}
"""Readers by the name of the family."""


def drawn_rows(frame: Frame, transcript: Transcript) -> dict[int, list[int]]:
    """For each round of HyFDCA the rows, among those of `frame`, that some party updates: known from the records."""
    layout = transcript.layout
    cohorts: dict[tuple[ClientId, ...], dict[int, int]] = {}
    for block in layout.blocks:
        cohorts.setdefault(block.holders, {})[block.id] = block.size
    drawn: dict[int, set[int]] = {}
    for rules in _rules_on_record(transcript):
        for holders, cohort in cohorts.items():
            for part in (part for holder in holders for part in rules.drawn(holder, cohort)):
                if part.block in frame.samples:
                    positions = frame.samples[part.block][part.start : part.stop]
                    drawn.setdefault(rules.round_id, set()).update(positions.tolist())
    return {round_id: sorted(rows) for round_id, rows in drawn.items()}


def _rules_on_record(transcript: Transcript) -> Iterator[RoundRules]:
    """The rules of each round that a record begins."""
    layout, settings = transcript.layout, transcript.config.algorithm_settings()
    assert isinstance(settings, HyfdcaSettings), "only HyFDCA draws samples"
    told = {data for message in transcript.messages if message.round_id > 0 for data in message.records}
    records = [record_from_bytes(data, layout.clients) for data in told]
    seed = next(seed_from_bytes(record.choices) for record in records if record.moment.phase == LAYOUT)
    for record in records:
        if record.moment.phase == ROUND:
            choices = round_choices_from_bytes(record.choices, layout.clients, layout.label_holders)
            yield RoundRules(settings.model_copy(update={"seed": seed}), layout.clients, record.moment.round, choices)


def _stretches(sizes: Sequence[tuple[int, int]]) -> dict[int, Positions]:
    positions, start = {}, 0
    for block, size in sizes:
        positions[int(block)] = np.arange(start, start + size)
        start += size
    return positions


def ids_in(blocks: bytes) -> list[int]:
    """The ids in a list of blocks on the wire."""
    return list(numbers_from_bytes(blocks, most=len(blocks), field="blocks").tolist())


def _placed(positions_of: dict[int, Positions], slots: int, blocks: bytes, values: Array, into: Array) -> Array:
    result = into.copy()
    for row, block in enumerate(ids_in(blocks)):
        positions = positions_of[block]
        result[positions] = values[row * slots : row * slots + len(positions)]
    return result
