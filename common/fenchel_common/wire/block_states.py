"""The vectors of blocks in the snapshots of the HyFDCA servers."""

from collections.abc import Iterable, Mapping

from fenchel.v1 import hyfdca_pb2
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import Vector
from fenchel_common.ids import RoundId
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
