"""Vectors of whole blocks on the wire."""

import itertools
from collections.abc import Container, Sequence

from fenchel.v1 import hyfdca_pb2
from fenchel_common.algorithms.hyfdca import BlockVector
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.paillier import PublicKey
from fenchel_common.errors import InvalidInput
from fenchel_common.wire.vectors import vector_from_proto, vector_to_proto


def block_vector_to_proto(vector: BlockVector) -> hyfdca_pb2.BlockVector:
    return hyfdca_pb2.BlockVector(blocks=vector.blocks, vector=vector_to_proto(vector.vector))


def block_vector_from_proto(
    message: hyfdca_pb2.BlockVector,
    *,
    held: Container[int],
    slots: int,
    key: PublicKey | int,
    vector_format: VectorFormat,
    field: str,
) -> BlockVector:
    """At least one of the blocks that are `held`, each with all its slots, in the format of its kind of values."""
    blocks = block_ids_from_proto(message.blocks, held, f"{field}.blocks")
    vector = vector_from_proto(message.vector, key)
    if vector.format != vector_format:
        raise InvalidInput(f"{field}.vector: has another format than its kind of values")
    if not blocks or vector.slots != slots or vector.length != len(blocks) * slots:
        raise InvalidInput(f"{field}.vector: {len(blocks)} blocks take {len(blocks) * slots} values")
    return BlockVector(blocks, vector)


def block_ids_from_proto(blocks: Sequence[int], held: Container[int], field: str) -> tuple[int, ...]:
    if any(block not in held for block in blocks):
        raise InvalidInput(f"{field}: names a block that this client does not hold")
    if any(left >= right for left, right in itertools.pairwise(blocks)):
        raise InvalidInput(f"{field}: ids must be ascending")
    return tuple(blocks)
