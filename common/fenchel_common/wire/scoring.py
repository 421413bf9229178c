"""The messages of a scoring run as bytes; readers raise `InvalidInput` with the name of the wrong field."""

from fenchel.v1 import scoring_pb2
from fenchel_common.algorithms.dual import PRODUCT_FORMAT
from fenchel_common.blocks import BlockSum, BlockVector
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.errors import CryptoError, InvalidInput, StateDamaged
from fenchel_common.ids import RoundId
from fenchel_common.wire.block_states import block_sum_from_proto, block_sum_to_proto
from fenchel_common.wire.parsing import Body, parsed_message
from fenchel_common.wire.scope import Scope, optional_vector_to_proto, sample_vector_from_proto


def scoring_task_to_bytes() -> bytes:
    return scoring_pb2.ScoringTask().SerializeToString()


def scoring_task_from_bytes(data: bytes) -> None:
    parsed_message(scoring_pb2.ScoringTask, data)


def scoring_result_to_bytes(scores: BlockVector | None) -> bytes:
    return scoring_pb2.ScoringResult(scores=optional_vector_to_proto(scores)).SerializeToString(deterministic=True)


def scoring_result_from_bytes(data: Body, scope: Scope) -> BlockVector | None:
    return _scores(parsed_message(scoring_pb2.ScoringResult, data), scope)


def scoring_sums_to_bytes(scores: BlockVector | None) -> bytes:
    return scoring_pb2.ScoringSums(scores=optional_vector_to_proto(scores)).SerializeToString(deterministic=True)


def scoring_sums_from_bytes(data: bytes, scope: Scope) -> BlockVector | None:
    return _scores(parsed_message(scoring_pb2.ScoringSums, data), scope)


def scoring_snapshot_to_bytes(round_id: RoundId, scores: BlockSum) -> bytes:
    message = scoring_pb2.ScoringSnapshot(round=round_id, scores=block_sum_to_proto(scores))
    return message.SerializeToString(deterministic=True)


def scoring_snapshot_from_bytes(data: bytes, key: RunKey) -> tuple[RoundId, BlockSum]:
    """Raises `StateDamaged` for other bytes than `scoring_snapshot_to_bytes` wrote."""
    try:
        message = parsed_message(scoring_pb2.ScoringSnapshot, data, limit=None)
        return RoundId(message.round), block_sum_from_proto(message.scores, key, "scores")
    except (InvalidInput, CryptoError) as error:
        raise StateDamaged(f"the snapshot of the run is damaged: {error}") from error


def _scores(message: scoring_pb2.ScoringResult | scoring_pb2.ScoringSums, scope: Scope) -> BlockVector | None:
    if not message.HasField("scores"):
        return None
    return sample_vector_from_proto(message.scores, scope, (PRODUCT_FORMAT,), "scores")
