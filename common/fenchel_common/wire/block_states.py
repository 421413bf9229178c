"""The vectors of blocks in the snapshots of the HyFDCA servers."""

from collections.abc import Iterable, Mapping

from fenchel.v1 import hyfdca_pb2
from fenchel_common.blocks import BlockSum, BlockVector
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import Vector
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import RoundId
from fenchel_common.layout import MAX_SAMPLES
from fenchel_common.wire.arrays import numbers_from_bytes
from fenchel_common.wire.blocks import block_vector_to_proto
from fenchel_common.wire.vectors import vector_from_proto, vector_to_proto


def block_states_to_proto(
    blocks: Mapping[int, Vector], changed: Mapping[int, RoundId] | None = None
) -> list[hyfdca_pb2.HyfdcaBlockState]:
    """The vector of each block, by ascending id; `changed` has the round in which a block last changed."""
    rounds = {} if changed is None else changed
    return [
        hyfdca_pb2.HyfdcaBlockState(block=block, vector=vector_to_proto(vector), changed=rounds.get(block, 0))
        for block, vector in sorted(blocks.items())
    ]


def block_states_from_proto(states: Iterable[hyfdca_pb2.HyfdcaBlockState], key: RunKey) -> dict[int, Vector]:
    return {state.block: vector_from_proto(state.vector, key) for state in states}


def block_sum_to_proto(sums: BlockSum) -> list[hyfdca_pb2.BlockVector]:
    """Few long vectors, whatever the order in which the parts of the sum came."""
    return [block_vector_to_proto(vector) for vector in sums.by_terms()]


def block_sum_from_proto(vectors: Iterable[hyfdca_pb2.BlockVector], key: RunKey, field: str) -> BlockSum:
    """The sum that `block_sum_to_proto` wrote; raises `InvalidInput` for vectors that are not of whole blocks."""
    pieces = []
    for message in vectors:
        blocks = numbers_from_bytes(message.blocks, most=MAX_SAMPLES, field=field)
        vector = vector_from_proto(message.vector, key)
        if not len(blocks) or vector.block_count % len(blocks):
            raise InvalidInput(f"{field}: must have a whole number of ciphertexts for each block")
        pieces.append(BlockVector(tuple(blocks.tolist()), vector))
    listed = [block for piece in pieces for block in piece.blocks]
    if len(set(listed)) != len(listed):
        raise InvalidInput(f"{field}: has a block twice")
    return BlockSum(tuple(pieces))
