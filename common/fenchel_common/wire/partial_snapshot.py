"""The state of the server of a run with some of the parties between two rounds, as a value and as bytes.

The privacy level says which vectors of the state are ciphertexts; the server adds ciphertexts and cannot read them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from fenchel.v1 import partial_pb2 as pb
from fenchel_common.algorithms.partial.messages import OfPair
from fenchel_common.blocks import BlockSum
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import Vector
from fenchel_common.errors import CryptoError, InvalidInput, StateDamaged
from fenchel_common.ids import RoundId
from fenchel_common.privacy import Privacy
from fenchel_common.wire.block_states import block_sum_from_proto, block_sum_to_proto
from fenchel_common.wire.parsing import parsed_message
from fenchel_common.wire.scope import numbers_to_proto
from fenchel_common.wire.vectors import vector_from_proto

NOTHING: Final = BlockSum()


@dataclass(frozen=True, slots=True)
class SumsOfPair:
    """A vector by block for each of the two points of a pair."""

    point: BlockSum = NOTHING
    vertex: BlockSum = NOTHING

    def within(self, blocks: frozenset[int]) -> OfPair:
        """On those of the blocks that the sums have."""
        return OfPair(self.point.within(sorted(blocks)), self.vertex.within(sorted(blocks)))


NO_SUMS: Final = SumsOfPair()


@dataclass(frozen=True, slots=True)
class StoredPair:
    """The sums of a pair: dual variables by sample, models by feature, inner products by sample, conjugates."""

    values: SumsOfPair
    models: SumsOfPair = NO_SUMS
    predictions: SumsOfPair = NO_SUMS
    conjugates: Vector | None = None


@dataclass(frozen=True, slots=True)
class Best:
    """The certificate of the best model: P, the largest D so far, the bounds on their errors, and the accuracy."""

    primal: float
    dual: float
    primal_error: float
    dual_error: float
    accuracy: float


@dataclass(frozen=True, slots=True)
class StoredStart:
    """The anchor on record of a run that had other rounds before.

    `model_roundings` and `alpha_roundings` say how often its model and its dual variables were rounded.
    """

    alpha: BlockSum
    weights: BlockSum
    model_roundings: int
    alpha_roundings: int


@dataclass(frozen=True, slots=True)
class PartialState:
    """All that the server knows between two rounds, beside the records.

    Attributes
    ----------
    pairs
        By the round that made them; all pairs of the run, because a client that has lost its memory needs them.
    grams
        The Gram rows of solved pairs, by the round in which they were solved.
    gathered
        The sum of the Gram parts of the pairs that are being gathered.
    model, latest
        The best model, and the mean model of rounds since; `latest` is empty if the best one is newer.
    start
        The anchor before the first round of pairs; None if it was zero.
    """

    norms: BlockSum = NOTHING
    pairs: Mapping[int, StoredPair] = field(default_factory=dict)
    grams: Mapping[int, Vector] = field(default_factory=dict)
    gathered: Vector | None = None
    model: BlockSum = NOTHING
    latest: BlockSum = NOTHING
    best: Best | None = None
    start: StoredStart | None = None

    @property
    def released(self) -> BlockSum:
        """The model that the parties would get if the run ended here."""
        return self.latest if self.latest.pieces else self.model


def snapshot_to_bytes(round_id: RoundId, state: PartialState) -> bytes:
    best = state.best
    message = pb.PartialSnapshot(
        round=round_id,
        norms=block_sum_to_proto(state.norms),
        pairs=[_pair_to_proto(born, pair) for born, pair in state.pairs.items()],
        grams=[pb.PartialGram(round=number, gram=numbers_to_proto(gram)) for number, gram in state.grams.items()],
        gathered=numbers_to_proto(state.gathered),
        model=block_sum_to_proto(state.model),
        latest=block_sum_to_proto(state.latest),
        measured=best is not None,
        start=_start_to_proto(state.start),
    )
    if best is not None:
        message.primal, message.dual, message.accuracy = best.primal, best.dual, best.accuracy
        message.primal_error, message.dual_error = best.primal_error, best.dual_error
    return message.SerializeToString(deterministic=True)


def snapshot_from_bytes(data: bytes, key: RunKey, *, privacy: Privacy) -> tuple[RoundId, PartialState]:
    """Reads what `snapshot_to_bytes` wrote; raises `StateDamaged` for any other bytes."""
    try:
        message = parsed_message(pb.PartialSnapshot, data, limit=None)
        return RoundId(message.round), _state_from_proto(message, key, key.by_feature(privacy))
    except (InvalidInput, CryptoError) as error:
        raise StateDamaged(f"the snapshot of a HyFDCA run cannot be read: {error}") from None


def _state_from_proto(message: pb.PartialSnapshot, by_sample: RunKey, by_feature: RunKey) -> PartialState:
    best = None
    if message.measured:
        errors = message.primal_error, message.dual_error
        best = Best(message.primal, message.dual, *errors, message.accuracy)
    return PartialState(
        norms=block_sum_from_proto(message.norms, by_sample, "norms"),
        pairs={pair.born: _pair_from_proto(pair, by_sample, by_feature) for pair in message.pairs},
        grams={one.round: vector_from_proto(one.gram, by_feature) for one in message.grams},
        gathered=vector_from_proto(message.gathered, by_feature) if message.HasField("gathered") else None,
        model=block_sum_from_proto(message.model, by_feature, "model"),
        latest=block_sum_from_proto(message.latest, by_feature, "latest"),
        best=best,
        start=_start_from_proto(message.start, by_sample, by_feature) if message.HasField("start") else None,
    )


def _start_to_proto(start: StoredStart | None) -> pb.PartialStoredStart | None:
    if start is None:
        return None
    return pb.PartialStoredStart(
        alpha=block_sum_to_proto(start.alpha),
        weights=block_sum_to_proto(start.weights),
        model_roundings=start.model_roundings,
        alpha_roundings=start.alpha_roundings,
    )


def _start_from_proto(message: pb.PartialStoredStart, by_sample: RunKey, by_feature: RunKey) -> StoredStart:
    return StoredStart(
        alpha=block_sum_from_proto(message.alpha, by_sample, "start.alpha"),
        weights=block_sum_from_proto(message.weights, by_feature, "start.weights"),
        model_roundings=message.model_roundings,
        alpha_roundings=message.alpha_roundings,
    )


def _pair_to_proto(born: int, pair: StoredPair) -> pb.PartialStoredPair:
    return pb.PartialStoredPair(
        born=born,
        point_values=block_sum_to_proto(pair.values.point),
        vertex_values=block_sum_to_proto(pair.values.vertex),
        point_model=block_sum_to_proto(pair.models.point),
        vertex_model=block_sum_to_proto(pair.models.vertex),
        conjugates=numbers_to_proto(pair.conjugates),
        point_predictions=block_sum_to_proto(pair.predictions.point),
        vertex_predictions=block_sum_to_proto(pair.predictions.vertex),
    )


def _pair_from_proto(message: pb.PartialStoredPair, by_sample: RunKey, by_feature: RunKey) -> StoredPair:
    return StoredPair(
        values=SumsOfPair(
            block_sum_from_proto(message.point_values, by_sample, "point_values"),
            block_sum_from_proto(message.vertex_values, by_sample, "vertex_values"),
        ),
        models=SumsOfPair(
            block_sum_from_proto(message.point_model, by_feature, "point_model"),
            block_sum_from_proto(message.vertex_model, by_feature, "vertex_model"),
        ),
        predictions=SumsOfPair(
            block_sum_from_proto(message.point_predictions, by_sample, "point_predictions"),
            block_sum_from_proto(message.vertex_predictions, by_sample, "vertex_predictions"),
        ),
        conjugates=vector_from_proto(message.conjugates, by_feature) if message.HasField("conjugates") else None,
    )
