"""A server that leaves the protocol: parties open values of the server's choice as the figures of a round.

Whoever has the public key can encrypt, so the server hands out norms, inner products and models of its own making, and
has the parties open figures that are made of them. All other messages are those of an honest round:

    HyFDCA      x_i·w = 2^-i as inner products: the sum of the hinge losses is N − Σ y_i·2^-i, and tells all labels.
                w = c·e_j as the model of one party, whose inner products are then c·x_{i,j}. Put back for the whole
                inner products, with y·2^10 added for all samples but one, they make the sum of the losses tell x_{i,j}
                of that sample.
    corrective  w = c·e_j as the model of a new point. The inner products, put back as squared lengths of rows, with 4
                added for one row and −2^10 for all others, which then count as zero, make the mean length tell x_{i,j}.
    averaging   One party's sums of samples and losses, with the missing samples added, as the sums of all parties.

So a row takes one round for each feature. No attack can be played on parties that open nothing but sums of the
contributions that they expect.
"""

from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from google.protobuf.message import Message as ProtoMessage

from fenchel.v1 import averaging_pb2, corrective_pb2, hyfdca_pb2, vectors_pb2
from fenchel_common.algorithms.averaging.rails import MEASURED, MODEL_FORMAT, Measurement
from fenchel_common.algorithms.dual import INNER_PRODUCT, PRIMAL, PRODUCT_FORMAT
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import EncryptedVector, Vector
from fenchel_common.crypto.words import PlainVector
from fenchel_common.errors import FenchelError
from fenchel_common.ids import ClientId
from fenchel_common.wire.arrays import numbers_to_bytes
from fenchel_common.wire.vectors import vector_from_proto, vector_to_proto
from fenchel_deploy.attacks.meddling import Meddler, Passing, Played, encrypted_by_anybody
from fenchel_deploy.attacks.traces import Frame, Positions, ids_in
from fenchel_deploy.attacks.views import Array

PROBE: Final = 1.0 / 16.0
"""c: so small that c·x is below 1 for every value x of a table that anybody would train on."""
FAR: Final = 2.0**10
"""An inner product at which the hinge loss is zero, and minus a squared length that counts as zero."""
MIDDLE: Final = 4.0
"""The squared length that stands for x = 0."""


@dataclass(slots=True)
class _Rogue(Meddler):
    """What all of these servers have: the run that is played, and the party that is attacked."""

    played: Played
    victim: ClientId

    def _made(self, values: Array, key: RunKey) -> vectors_pb2.Vector:
        return vector_to_proto(encrypted_by_anybody(values, PRODUCT_FORMAT, key))

    def _one_feature(self, blocks: bytes, position: int, like: vectors_pb2.Vector) -> vectors_pb2.Vector:
        """c·e_j on the victim's blocks of features."""
        frame = Frame.seen_by_server(self.played.layout, self.victim)
        values = np.zeros((len(ids_in(blocks)), frame.feature_slots))
        for row, block in enumerate(ids_in(blocks)):
            values[row, : len(frame.features[block])] = PROBE * (frame.features[block] == position)
        return _like(like, values.reshape(-1), self.played.key)

    def _told(self, client: ClientId, values: Array, blocks: bytes) -> Array:
        """Values by row of a client, as they lie in the slots of these blocks."""
        frame = Frame.seen_by_server(self.played.layout, client)
        slots = np.zeros((len(ids_in(blocks)), frame.slots))
        for row, block in enumerate(ids_in(blocks)):
            positions = frame.samples[block]
            slots[row, : len(positions)] = values[positions]
        return slots.reshape(-1)

    def _put_among(self, blocks: bytes, added: Array, own: hyfdca_pb2.BlockVector) -> vectors_pb2.Vector:
        """The victim's own vector in those of these blocks that it has, zero in all others, and `added` to all."""
        key = self.played.key
        base = _passed_off(vector_from_proto(own.vector, key))
        position = {block: row for row, block in enumerate(ids_in(own.blocks))}
        slots = self.played.layout.slots
        pieces: list[Vector] = []
        for row, block in enumerate(ids_in(blocks)):
            mask = encrypted_by_anybody(added[row * slots : (row + 1) * slots], PRODUCT_FORMAT, key)
            pieces.append(mask.plus(base.select([position[block]])) if block in position else mask)
        return vector_to_proto(_passed_off(pieces[0].joined_with(pieces[1:])))


@dataclass(slots=True)
class _LabelReader(_Rogue):
    """Hands the label holders of HyFDCA inner products by which the sum of the losses tells all labels."""

    total: float = 0.0

    def task(self, task: Passing) -> ProtoMessage:
        if isinstance(task.body, hyfdca_pb2.HyfdcaDualTask) and task.body.HasField("products"):
            rank = _ranks(self.played)[task.client]
            values = self._told(task.client, 2.0 ** -rank.astype(np.float64), task.body.products.blocks)
            task.body.products.vector.CopyFrom(self._made(values, self.played.key))
        return task.body

    def result(self, result: Passing) -> ProtoMessage:
        if result.phase == PRIMAL and isinstance(result.body, hyfdca_pb2.HyfdcaPrimalResult) and result.body.figures:
            self.total = result.body.figures[0] * self.played.layout.sample_count
        return result.body


@dataclass(slots=True)
class _CellReader(_Rogue):
    """Has the losses of HyFDCA tell one value of one row of the victim."""

    labels: dict[ClientId, Array]
    row: int
    feature: int
    total: float = 0.0
    _own: hyfdca_pb2.BlockVector = field(default_factory=hyfdca_pb2.BlockVector)

    def task(self, task: Passing) -> ProtoMessage:
        if task.phase == INNER_PRODUCT and task.client == self.victim:
            assert isinstance(task.body, hyfdca_pb2.HyfdcaProductTask), "of HyFDCA"
            if task.body.HasField("model"):
                model = self._one_feature(task.body.model.blocks, self.feature, task.body.model.vector)
                task.body.model.vector.CopyFrom(model)
        if isinstance(task.body, hyfdca_pb2.HyfdcaDualTask) and task.body.HasField("products"):
            far = FAR * self.labels[task.client]
            if task.client == self.victim:
                far[self.row] = 0.0
            values = self._told(task.client, far, task.body.products.blocks)
            task.body.products.vector.CopyFrom(self._put_among(task.body.products.blocks, values, self._own))
        return task.body

    def result(self, result: Passing) -> ProtoMessage:
        if result.phase == INNER_PRODUCT and result.client == self.victim:
            assert isinstance(result.body, hyfdca_pb2.HyfdcaProductResult), "of HyFDCA"
            self._own = result.body.products
        if result.phase == PRIMAL and isinstance(result.body, hyfdca_pb2.HyfdcaPrimalResult) and result.body.figures:
            self.total = result.body.figures[0] * self.played.layout.sample_count
        return result.body


@dataclass(slots=True)
class _LengthReader(_Rogue):
    """Has the mean length of the rows of a corrective run tell one value of one row of the victim."""

    row: int
    feature: int
    total: float = 0.0
    _own: hyfdca_pb2.BlockVector = field(default_factory=hyfdca_pb2.BlockVector)

    def task(self, task: Passing) -> ProtoMessage:
        if isinstance(task.body, corrective_pb2.CorrectiveProductTask) and task.client == self.victim:
            start = task.body.round_start
            if start.HasField("point"):
                model = self._one_feature(start.point.blocks, self.feature, start.point.vector)
                start.point.vector.CopyFrom(model)
        if isinstance(task.body, corrective_pb2.CorrectiveDualTask):
            frame = Frame.seen_by_server(self.played.layout, task.client)
            blocks = numbers_to_bytes(list(self.played.layout.sample_index.shared_of(task.client)))
            lengths = np.full(frame.rows, -FAR)
            if set(ids_in(blocks)) == set(ids_in(self._own.blocks)):
                lengths[self.row] = MIDDLE
            values = self._told(task.client, lengths, blocks)
            task.body.norms.blocks = blocks
            task.body.norms.vector.CopyFrom(self._put_among(blocks, values, self._own))
        return task.body

    def result(self, result: Passing) -> ProtoMessage:
        if isinstance(result.body, corrective_pb2.CorrectiveProductResult) and result.client == self.victim:
            self._own = result.body.point
        if isinstance(result.body, corrective_pb2.CorrectivePrimalResult) and result.body.HasField("objectives"):
            self.total = result.body.objectives.row_norm * self.played.layout.sample_count
        return result.body


@dataclass(slots=True)
class _LossReader(_Rogue):
    """Has the parties of an averaging run open the victim's figures alone."""

    loss: float | None = None
    _figures: vectors_pb2.Vector = field(default_factory=vectors_pb2.Vector)

    def task(self, task: Passing) -> ProtoMessage:
        if task.phase == MEASURED:
            assert isinstance(task.body, averaging_pb2.AveragingTask), "of an averaging algorithm"
            layout, key = self.played.layout, self.played.key
            reported = sum(layout.blocks[block].size for block in layout.reporters.get(self.victim, ()))
            missing = layout.sample_count - reported
            figures = Measurement(samples=missing, loss_sum=0.0, correct=0, squared_norm=0.0)
            added = encrypted_by_anybody(figures.to_figures(layout.sample_count), MODEL_FORMAT, key)
            own = vector_from_proto(self._figures, key)
            task.body.figures.CopyFrom(vector_to_proto(_passed_off(own.plus(added), MODEL_FORMAT)))
        return task.body

    def result(self, result: Passing) -> ProtoMessage:
        assert isinstance(result.body, averaging_pb2.AveragingResult), "of an averaging algorithm"
        if result.client == self.victim and result.body.HasField("figures"):
            self._figures = result.body.figures
        if result.phase == MEASURED and result.body.HasField("measurement"):
            self.loss = result.body.measurement.loss_sum
        return result.body


def labels_opened(played: Played) -> dict[ClientId, Array] | None:
    """All labels of HyFDCA's label holders, in one round; None if a party refuses. Every round must certify."""
    reader = _LabelReader(played, played.layout.clients[0])
    try:
        played.round(reader)
    except FenchelError:
        return None
    left = played.layout.sample_count - reader.total
    signs = np.zeros(played.layout.sample_count)
    for rank in range(len(signs)):
        signs[rank] = 1.0 if left > 0.0 else -1.0
        left -= signs[rank] * 2.0**-rank
    return {client: signs[rank] for client, rank in _ranks(played).items()}


def row_of_hyfdca(played: Played, victim: ClientId, row: int, labels: dict[ClientId, Array]) -> Array | None:
    """One row of a label holder; None if a party refuses. Every round must certify."""
    cells = []
    for feature in range(Frame.seen_by_server(played.layout, victim).width):
        reader = _CellReader(played, victim, labels, row, feature)
        try:
            played.round(reader)
        except FenchelError:
            return None
        cells.append(labels[victim][row] * (1.0 - reader.total) / PROBE)
    return np.array(cells)


def row_of_corrective(played: Played, victim: ClientId, row: int) -> Array | None:
    """One row of a party that reports on its samples; None if a party refuses. Every round must certify."""
    cells = []
    for feature in range(Frame.seen_by_server(played.layout, victim).width):
        reader = _LengthReader(played, victim, row, feature)
        try:
            played.round(reader)
        except FenchelError:
            return None
        cells.append((reader.total**2 - MIDDLE) / PROBE)
    return np.array(cells)


def loss_of_averaging(played: Played, victim: ClientId) -> float | None:
    """The sum of the losses of one party's samples; None if a party refuses. The round must measure."""
    reader = _LossReader(played, victim)
    try:
        played.round(reader)
    except FenchelError:
        return None
    return reader.loss


def _ranks(played: Played) -> dict[ClientId, Positions]:
    """A number for each sample, as the rows of each client lie."""
    layout = played.layout
    offset, first = 0, {}
    for placed in layout.blocks:
        first[placed.id] = offset
        offset += placed.size
    ranks = {}
    for client in layout.clients:
        frame = Frame.seen_by_server(layout, client)
        ranks[client] = np.zeros(frame.rows, dtype=np.int64)
        for block, positions in frame.samples.items():
            ranks[client][positions] = first[block] + np.arange(len(positions))
    return ranks


def _like(vector: vectors_pb2.Vector, values: Array, key: RunKey) -> vectors_pb2.Vector:
    """A vector of the server's own values, encrypted or in clear as another one is."""
    if vector.WhichOneof("kind") == "encrypted":
        return vector_to_proto(encrypted_by_anybody(values, PRODUCT_FORMAT, key))
    known = vector_from_proto(vector, RunKey.in_clear(key.bits))
    assert isinstance(known, PlainVector), "it is in clear"
    return vector_to_proto(replace(known, terms=1, integers=known.format.quantise(values)))


def _passed_off(vector: Vector, vector_format: VectorFormat = PRODUCT_FORMAT) -> Vector:
    """A vector that says of itself what the server likes."""
    assert isinstance(vector, EncryptedVector | PlainVector), "there are two kinds"
    return replace(vector, terms=1, format=vector_format)
