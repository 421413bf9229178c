"""Ids of blocks, positions by block and vectors of whole blocks on the wire."""

import itertools
from collections.abc import Collection, Mapping

import numpy as np
from numpy.typing import NDArray

from fenchel.v1 import alignment_pb2, hyfdca_pb2
from fenchel_common.blocks import BlockVector, piece_count
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.errors import InvalidInput
from fenchel_common.wire.arrays import numbers_from_bytes, numbers_to_bytes
from fenchel_common.wire.vectors import vector_from_proto, vector_to_proto


def block_vector_to_proto(vector: BlockVector) -> hyfdca_pb2.BlockVector:
    return hyfdca_pb2.BlockVector(blocks=numbers_to_bytes(vector.blocks), vector=vector_to_proto(vector.vector))


def block_vector_from_proto(
    message: hyfdca_pb2.BlockVector,
    *,
    allowed: Collection[int],
    slots: int,
    key: RunKey,
    formats: Collection[VectorFormat],
    field: str,
) -> BlockVector:
    """A vector of at least one of the `allowed` blocks, of up to `slots` values each, in one of the given formats."""
    blocks = block_ids_from_bytes(message.blocks, allowed, f"{field}.blocks")
    vector = vector_from_proto(message.vector, key)
    if vector.format not in formats:
        raise InvalidInput(f"{field}.vector: has another format than its kind of values")
    due = len(blocks) * piece_count(slots, vector.slots) * vector.slots
    if not blocks or vector.length != due:
        raise InvalidInput(f"{field}.vector: {len(blocks)} blocks take {due} values")
    return BlockVector(blocks, vector)


def block_ids_from_bytes(data: bytes, allowed: Collection[int], field: str) -> tuple[int, ...]:
    """Ascending ids of `allowed` blocks, which are those that the client holds."""
    blocks = tuple(numbers_from_bytes(data, most=len(allowed), field=field).tolist())
    if any(block not in allowed for block in blocks):
        raise InvalidInput(f"{field}: names a block that this client does not hold")
    if any(left >= right for left, right in itertools.pairwise(blocks)):
        raise InvalidInput(f"{field}: ids must be ascending")
    return blocks


def block_positions_to_proto(positions: Mapping[int, NDArray[np.int64]]) -> alignment_pb2.BlockPositions:
    return alignment_pb2.BlockPositions(
        blocks=numbers_to_bytes(list(positions)),
        sizes=numbers_to_bytes([len(own) for own in positions.values()]),
        positions=b"".join(numbers_to_bytes(own) for own in positions.values()),
    )


def block_positions_from_proto(
    message: alignment_pb2.BlockPositions, *, most: int, field: str
) -> dict[int, NDArray[np.int64]]:
    """The positions in each block, at most `most` in all; refuses an empty block."""
    blocks = numbers_from_bytes(message.blocks, most=most, field=f"{field}.blocks")
    sizes = numbers_from_bytes(message.sizes, most=most, field=f"{field}.sizes")
    positions = numbers_from_bytes(message.positions, most=most, field=f"{field}.positions")
    if len(sizes) != len(blocks) or not (sizes > 0).all() or sizes.sum() != len(positions):
        raise InvalidInput(f"{field}: every block needs a size above 0, and all sizes one position each")
    if len(np.unique(blocks)) != len(blocks):
        raise InvalidInput(f"{field}: a block occurs twice")
    return dict(zip(blocks.tolist(), np.split(positions, np.cumsum(sizes)[:-1]), strict=True)) if len(blocks) else {}
