"""Ids of blocks, places in blocks and vectors of whole blocks on the wire."""

import itertools
from collections.abc import Collection, Mapping

import numpy as np
from numpy.typing import NDArray

from fenchel.v1 import alignment_pb2, hyfdca_pb2
from fenchel_common.blocks import BlockVector
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
    held: Collection[int],
    slots: int,
    key: RunKey,
    vector_format: VectorFormat,
    field: str,
) -> BlockVector:
    """At least one of the blocks that are `held`, each with all its slots, in the format of its kind of values."""
    blocks = block_ids_from_bytes(message.blocks, held, f"{field}.blocks")
    vector = vector_from_proto(message.vector, key)
    if vector.format != vector_format:
        raise InvalidInput(f"{field}.vector: has another format than its kind of values")
    if not blocks or vector.slots != slots or vector.length != len(blocks) * slots:
        raise InvalidInput(f"{field}.vector: {len(blocks)} blocks take {len(blocks) * slots} values")
    return BlockVector(blocks, vector)


def block_ids_from_bytes(data: bytes, held: Collection[int], field: str) -> tuple[int, ...]:
    """Ascending ids of blocks that are `held`."""
    blocks = tuple(numbers_from_bytes(data, most=len(held), field=field).tolist())
    if any(block not in held for block in blocks):
        raise InvalidInput(f"{field}: names a block that this client does not hold")
    if any(left >= right for left, right in itertools.pairwise(blocks)):
        raise InvalidInput(f"{field}: ids must be ascending")
    return blocks


def block_places_to_proto(places: Mapping[int, NDArray[np.int64]]) -> alignment_pb2.BlockPlaces:
    return alignment_pb2.BlockPlaces(
        blocks=numbers_to_bytes(list(places)),
        sizes=numbers_to_bytes([len(held) for held in places.values()]),
        places=b"".join(numbers_to_bytes(held) for held in places.values()),
    )


def block_places_from_proto(
    message: alignment_pb2.BlockPlaces, *, most: int, field: str
) -> dict[int, NDArray[np.int64]]:
    """At most so many places, in blocks of at least one."""
    blocks = numbers_from_bytes(message.blocks, most=most, field=f"{field}.blocks")
    sizes = numbers_from_bytes(message.sizes, most=most, field=f"{field}.sizes")
    places = numbers_from_bytes(message.places, most=most, field=f"{field}.places")
    if len(sizes) != len(blocks) or not (sizes > 0).all() or sizes.sum() != len(places):
        raise InvalidInput(f"{field}: every block needs a size above 0, and all sizes together one place each")
    if len(np.unique(blocks)) != len(blocks):
        raise InvalidInput(f"{field}: a block occurs twice")
    return dict(zip(blocks.tolist(), np.split(places, np.cumsum(sizes)[:-1]), strict=True)) if len(blocks) else {}
