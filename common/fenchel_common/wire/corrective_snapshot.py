"""The state of a corrective HyFDCA server between two rounds, as bytes: ciphertexts that it adds and cannot read."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fenchel.v1 import corrective_pb2 as pb
from fenchel.v1 import hyfdca_pb2
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import Vector
from fenchel_common.errors import CryptoError, InvalidInput, StateDamaged
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.wire.parsing import parsed_message
from fenchel_common.wire.scope import figures_to_proto
from fenchel_common.wire.vectors import vector_from_proto, vector_to_proto

Blocks = dict[int, Vector]


@dataclass(slots=True)
class CorrectiveState:
    """What a run is made of between rounds.

    Attributes
    ----------
    concluded
        The last round at whose end clients put down a memory.
    anchor
        The round that made the anchor.
    makers
        The clients that took part then; the blocks of others have not moved since the last collapse.
    sound
        The clients whose memory the server has no reason to doubt.
    alpha, weights
        The anchor, by block of samples and of features.
    norms
        ‖x_i‖² of shared blocks of samples.
    model
        The best model, by block of features.
    point, vertex, conjugates
        What the clients told of the last round's new points, summed.
    collapses, relative_rounds
        How often the anchor was rounded, and in how many rounds the model was told by differences.
    """

    round_id: RoundId
    concluded: int = 0
    anchor: int = 0
    makers: frozenset[ClientId] = frozenset()
    sound: frozenset[ClientId] = frozenset()
    alpha: Blocks = field(default_factory=dict)
    weights: Blocks = field(default_factory=dict)
    norms: Blocks = field(default_factory=dict)
    model: Blocks = field(default_factory=dict)
    point: Blocks = field(default_factory=dict)
    vertex: Blocks = field(default_factory=dict)
    conjugates: Vector | None = None
    collapses: int = 0
    relative_rounds: int = 0


def state_to_bytes(state: CorrectiveState) -> bytes:
    return pb.CorrectiveSnapshot(
        round=state.round_id,
        concluded=state.concluded,
        anchor=state.anchor,
        makers=sorted(state.makers),
        sound=sorted(state.sound),
        alpha=_to_proto(state.alpha),
        weights=_to_proto(state.weights),
        norms=_to_proto(state.norms),
        model=_to_proto(state.model),
        point=_to_proto(state.point),
        vertex=_to_proto(state.vertex),
        conjugates=figures_to_proto(state.conjugates),
        collapses=state.collapses,
        relative_rounds=state.relative_rounds,
    ).SerializeToString(deterministic=True)


def state_from_bytes(data: bytes, *, key: RunKey, share_key: RunKey) -> CorrectiveState:
    """A state that this project wrote; a damaged one is refused as `StateDamaged`."""
    try:
        message = parsed_message(pb.CorrectiveSnapshot, data, limit=None)
        return CorrectiveState(
            round_id=RoundId(message.round),
            concluded=message.concluded,
            anchor=message.anchor,
            makers=frozenset(ClientId(name) for name in message.makers),
            sound=frozenset(ClientId(name) for name in message.sound),
            alpha=_from_proto(message.alpha, key),
            weights=_from_proto(message.weights, share_key),
            norms=_from_proto(message.norms, key),
            model=_from_proto(message.model, share_key),
            point=_from_proto(message.point, share_key),
            vertex=_from_proto(message.vertex, share_key),
            conjugates=vector_from_proto(message.conjugates, share_key) if message.HasField("conjugates") else None,
            collapses=message.collapses,
            relative_rounds=message.relative_rounds,
        )
    except (InvalidInput, CryptoError) as error:
        raise StateDamaged(f"the snapshot of a HyFDCA run cannot be read: {error}") from None


def _to_proto(blocks: Mapping[int, Vector]) -> list[hyfdca_pb2.HyfdcaBlockState]:
    return [
        hyfdca_pb2.HyfdcaBlockState(block=block, vector=vector_to_proto(vector))
        for block, vector in sorted(blocks.items())
    ]


def _from_proto(states: Iterable[hyfdca_pb2.HyfdcaBlockState], key: RunKey) -> Blocks:
    return {state.block: vector_from_proto(state.vector, key) for state in states}
