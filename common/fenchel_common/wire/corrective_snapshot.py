"""The state of a corrective HyFDCA server between two rounds, as bytes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from fenchel.v1 import corrective_pb2 as pb
from fenchel.v1 import hyfdca_pb2
from fenchel_common.algorithms.corrective import Combination
from fenchel_common.crypto.paillier import PublicKey
from fenchel_common.crypto.vectors import Vector
from fenchel_common.errors import CryptoError, InvalidInput, StateDamaged
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.wire.arrays import doubles_from_bytes, doubles_to_bytes
from fenchel_common.wire.corrective import combination_from_proto, combination_to_proto
from fenchel_common.wire.vectors import vector_from_proto, vector_to_proto

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class KnownPoint:
    """A point as the server knows it: Σ_i α_i x_{k,i} of each client of the group, and c."""

    shares: Mapping[ClientId, Array]
    value: float


@dataclass(slots=True)
class Hull:
    """The known points of one group.

    Attributes
    ----------
    makers
        The clients that were there when the points were made; the blocks of others have not moved meanwhile.
    anchor_round
        The round in which the anchor became what it is.
    models
        Ids of the models whose inner products are kept for this group, ascending.
    pending
        The weights of the α that the next round begins with, unless that is the anchor.
    live_value
        The part of the anchor's c that is due to blocks whose holders were all there; None until they have told it.
    """

    makers: frozenset[ClientId]
    anchor_round: int
    anchor: KnownPoint
    point: KnownPoint | None = None
    vertices: dict[int, KnownPoint] = field(default_factory=dict)
    models: tuple[int, ...] = ()
    pending: Combination | None = None
    live_value: float | None = 0.0


@dataclass(frozen=True, slots=True)
class KeptModel:
    """w by global feature index, and enc(x_i·w) of the shared blocks that took part."""

    weights: Array
    products: dict[int, Vector]


@dataclass(frozen=True, slots=True)
class CorrectiveSnapshot:
    """All that a server needs to go on; each block's vector is one ciphertext."""

    round_id: RoundId
    alpha: dict[int, Vector]
    point: dict[int, Vector]
    norms: dict[int, Vector]
    models: dict[int, KeptModel]
    hulls: tuple[Hull, ...]


def snapshot_to_bytes(snapshot: CorrectiveSnapshot) -> bytes:
    models = [
        pb.CorrectiveModelState(
            id=model, weights=doubles_to_bytes(kept.weights), products=_blocks_to_proto(kept.products)
        )
        for model, kept in sorted(snapshot.models.items())
    ]
    return pb.CorrectiveSnapshot(
        round=snapshot.round_id,
        alpha=_blocks_to_proto(snapshot.alpha),
        point=_blocks_to_proto(snapshot.point),
        norms=_blocks_to_proto(snapshot.norms),
        models=models,
        hulls=[_hull_to_proto(hull) for hull in snapshot.hulls],
    ).SerializeToString(deterministic=True)


def snapshot_from_bytes(data: bytes, key: PublicKey | int) -> CorrectiveSnapshot:
    """A snapshot that this project wrote; a damaged one is refused as `StateDamaged`."""
    try:
        message = pb.CorrectiveSnapshot.FromString(data)
        return CorrectiveSnapshot(
            round_id=RoundId(message.round),
            alpha=_blocks_from_proto(message.alpha, key),
            point=_blocks_from_proto(message.point, key),
            norms=_blocks_from_proto(message.norms, key),
            models={
                kept.id: KeptModel(
                    doubles_from_bytes(kept.weights, field="weights"), _blocks_from_proto(kept.products, key)
                )
                for kept in message.models
            },
            hulls=tuple(_hull_from_proto(hull) for hull in message.hulls),
        )
    except (DecodeError, InvalidInput, CryptoError) as error:
        raise StateDamaged(f"the snapshot of a HyFDCA run cannot be read: {error}") from None


def _hull_to_proto(hull: Hull) -> pb.CorrectiveHull:
    return pb.CorrectiveHull(
        makers=sorted(hull.makers),
        anchor_round=hull.anchor_round,
        anchor=_point_to_proto(hull.anchor),
        point=None if hull.point is None else _point_to_proto(hull.point),
        vertices=[
            pb.CorrectiveVertex(model=model, point=_point_to_proto(vertex))
            for model, vertex in sorted(hull.vertices.items())
        ],
        models=hull.models,
        pending=None if hull.pending is None else combination_to_proto(hull.pending),
        live_value=hull.live_value,
    )


def _hull_from_proto(message: pb.CorrectiveHull) -> Hull:
    return Hull(
        makers=frozenset(ClientId(client) for client in message.makers),
        anchor_round=message.anchor_round,
        anchor=_point_from_proto(message.anchor),
        point=_point_from_proto(message.point) if message.HasField("point") else None,
        vertices={vertex.model: _point_from_proto(vertex.point) for vertex in message.vertices},
        models=tuple(message.models),
        pending=combination_from_proto(message.pending) if message.HasField("pending") else None,
        live_value=message.live_value if message.HasField("live_value") else None,
    )


def _point_to_proto(point: KnownPoint) -> pb.CorrectivePoint:
    shares = [
        pb.CorrectiveShare(client=client, values=doubles_to_bytes(share)) for client, share in point.shares.items()
    ]
    return pb.CorrectivePoint(shares=shares, value=point.value)


def _point_from_proto(message: pb.CorrectivePoint) -> KnownPoint:
    shares = {ClientId(share.client): doubles_from_bytes(share.values, field="shares") for share in message.shares}
    return KnownPoint(shares, message.value)


def _blocks_to_proto(blocks: dict[int, Vector]) -> list[hyfdca_pb2.HyfdcaBlockState]:
    return [
        hyfdca_pb2.HyfdcaBlockState(block=block, vector=vector_to_proto(vector))
        for block, vector in sorted(blocks.items())
    ]


def _blocks_from_proto(states: Iterable[hyfdca_pb2.HyfdcaBlockState], key: PublicKey | int) -> dict[int, Vector]:
    return {state.block: vector_from_proto(state.vector, key) for state in states}
