"""The messages between the layout and the first round: moments, counts of a search, lengths of rows, marks."""

from collections.abc import Collection, Sequence

from fenchel.v1 import hyfdca_pb2, labels_pb2, vectors_pb2
from fenchel_common.algorithms.dual import MAX_CLASSES, PRODUCT_FORMAT
from fenchel_common.blocks import BlockVector
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import Vector
from fenchel_common.errors import InvalidInput
from fenchel_common.moments import MOMENT_FIELDS
from fenchel_common.ranges import MOST_COUNTS
from fenchel_common.setup import LayoutResult, MomentSums
from fenchel_common.wire.blocks import block_vector_from_proto, block_vector_to_proto
from fenchel_common.wire.parsing import parsed_message
from fenchel_common.wire.scope import numbers_to_proto, optional_vector_to_proto
from fenchel_common.wire.vectors import vector_from_proto


def layout_result_to_bytes(result: LayoutResult) -> bytes:
    marks = optional_vector_to_proto(result.marks)
    moments = [block_vector_to_proto(one) for one in result.moments]
    message = labels_pb2.LayoutResult(
        preparation=result.preparation,
        marks=marks,
        seed=result.seed,
        moments=moments,
        label_moments=numbers_to_proto(result.label_moments),
        lengths=optional_vector_to_proto(result.lengths),
        counts=[block_vector_to_proto(one) for one in result.counts],
    )
    return message.SerializeToString(deterministic=True)


def layout_result_from_bytes(
    data: bytes, *, blocks: Collection[int], slots: int, key: RunKey, feature_blocks: Collection[int] = ()
) -> LayoutResult:
    """Reads a party's result.

    `blocks` are the blocks of samples of which it may give marks or lengths, `feature_blocks` the blocks of features of
    which it may give moments or counts; `key` is that of vectors by sample.
    """
    message = parsed_message(labels_pb2.LayoutResult, data)
    marks = lengths = None
    if message.HasField("marks"):
        marks = _vector(message.marks, "marks", blocks=blocks, slots=slots, key=key)
    if message.HasField("lengths"):
        lengths = _vector(message.lengths, "lengths", blocks=blocks, slots=slots, key=key)
    moments = _moments(message.moments, blocks=feature_blocks, slots=slots, key=key)
    counts = _counts(message.counts, blocks=feature_blocks, slots=slots, key=key)
    labels = _label_moments(message.label_moments, key) if message.HasField("label_moments") else None
    seed = message.seed if message.HasField("seed") else None
    return LayoutResult(message.preparation, marks, seed, moments, labels, lengths, counts)


def moment_sums_to_bytes(sums: MomentSums) -> bytes:
    message = labels_pb2.MomentSums(
        sums=[block_vector_to_proto(one) for one in sums.features],
        record=sums.record,
        label_sums=numbers_to_proto(sums.labels),
    )
    return message.SerializeToString(deterministic=True)


def moment_sums_from_bytes(data: bytes, *, blocks: Collection[int], slots: int, key: RunKey) -> MomentSums:
    """Reads the sums; `blocks` are the blocks of features that may be in them."""
    message = parsed_message(labels_pb2.MomentSums, data)
    features = _moments(message.sums, blocks=blocks, slots=slots, key=key)
    labels = _label_moments(message.label_sums, key) if message.HasField("label_sums") else None
    return MomentSums(features, labels, message.record)


def _moments(
    messages: Sequence[hyfdca_pb2.BlockVector], *, blocks: Collection[int], slots: int, key: RunKey
) -> tuple[BlockVector, ...]:
    if len(messages) not in (0, MOMENT_FIELDS):
        raise InvalidInput(f"moments: {len(messages)} vectors where none or {MOMENT_FIELDS} are due")
    return tuple(_vector(one, "moments", blocks=blocks, slots=slots, key=key) for one in messages)


def count_sums_to_bytes(sums: Sequence[BlockVector], record: bytes) -> bytes:
    """The sums of counts, if any, with the record of the phase in which the counts were given."""
    message = labels_pb2.CountSums(sums=[block_vector_to_proto(one) for one in sums], record=record)
    return message.SerializeToString(deterministic=True)


def count_sums_from_bytes(
    data: bytes, *, blocks: Collection[int], slots: int, key: RunKey
) -> tuple[tuple[BlockVector, ...], bytes]:
    """The sums of counts, and the record of the phase in which the counts were given.

    `blocks` are the blocks of features that may be in them.
    """
    message = parsed_message(labels_pb2.CountSums, data)
    return _counts(message.sums, blocks=blocks, slots=slots, key=key), message.record


def _counts(
    messages: Sequence[hyfdca_pb2.BlockVector], *, blocks: Collection[int], slots: int, key: RunKey
) -> tuple[BlockVector, ...]:
    if len(messages) > MOST_COUNTS:
        raise InvalidInput(f"counts: {len(messages)} vectors where at most {MOST_COUNTS} are due")
    return tuple(_vector(one, "counts", blocks=blocks, slots=slots, key=key) for one in messages)


def length_sums_to_bytes(sums: BlockVector | None, record: bytes) -> bytes:
    """The sums of squared lengths, if any, with the record of the phase in which the lengths were given."""
    message = labels_pb2.LengthSums(sums=optional_vector_to_proto(sums), record=record)
    return message.SerializeToString(deterministic=True)


def length_sums_from_bytes(
    data: bytes, *, blocks: Collection[int], slots: int, key: RunKey
) -> tuple[BlockVector | None, bytes]:
    """The sums of squared lengths, and the record of the phase in which the lengths were given."""
    message = parsed_message(labels_pb2.LengthSums, data)
    if not message.HasField("sums"):
        return None, message.record
    return _vector(message.sums, "sums", blocks=blocks, slots=slots, key=key), message.record


def _vector(
    message: hyfdca_pb2.BlockVector, field: str, *, blocks: Collection[int], slots: int, key: RunKey
) -> BlockVector:
    return block_vector_from_proto(
        message, allowed=blocks, slots=slots, key=key, formats=(PRODUCT_FORMAT,), field=field
    )


def _label_moments(message: vectors_pb2.Vector, key: RunKey) -> Vector:
    vector = vector_from_proto(message, key)
    problems, rest = divmod(vector.length, MOMENT_FIELDS)
    if vector.format != PRODUCT_FORMAT or rest or not 1 <= problems <= MAX_CLASSES:
        raise InvalidInput(f"label_moments: must be {MOMENT_FIELDS} values a problem in the format of inner products")
    return vector


def label_sums_to_bytes(sums: BlockVector, record: bytes) -> bytes:
    """The sums of marks, with the record of the phase in which the marks were given."""
    message = labels_pb2.LabelSums(sums=block_vector_to_proto(sums), record=record)
    return message.SerializeToString(deterministic=True)


def label_sums_from_bytes(
    data: bytes, *, blocks: Collection[int], slots: int, key: RunKey
) -> tuple[BlockVector, bytes]:
    """The sums of marks, and the record of the phase in which the marks were given."""
    message = parsed_message(labels_pb2.LabelSums, data)
    return _vector(message.sums, "sums", blocks=blocks, slots=slots, key=key), message.record


def labels_compared_to_bytes(*, differ: bool) -> bytes:
    return labels_pb2.LabelsCompared(differ=differ).SerializeToString()


def labels_compared_from_bytes(data: bytes) -> bool:
    """Whether the party's labels differ from those of others."""
    return parsed_message(labels_pb2.LabelsCompared, data).differ
