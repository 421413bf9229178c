"""HyFDCA's messages on the wire.

Whatever arrives is checked against a `Scope`: what the receiver knows about the client that the message is for or from.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from fenchel.v1 import hyfdca_pb2
from fenchel_common.algorithms.hyfdca import (
    ALPHA_FORMAT,
    PRODUCT_FORMAT,
    BlockVector,
    CertificateShare,
    DualResult,
    DualTask,
    PrimalResult,
    PrimalTask,
    ProductResult,
    ProductTask,
    SampleRange,
    StateUpdate,
)
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.paillier import PublicKey
from fenchel_common.errors import InvalidInput
from fenchel_common.wire.arrays import change_from_proto, change_to_proto
from fenchel_common.wire.blocks import block_ids_from_proto, block_vector_from_proto, block_vector_to_proto

M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True)
class Scope:
    """What a message about one client may speak of.

    `key` is the run's public key, or the number of bits that it would have in a run in clear. `blocks` gives the
    size of each block that the client holds, `features` how many features it has.
    """

    key: PublicKey | int
    slots: int
    features: int
    blocks: Mapping[int, int]


def primal_task_to_bytes(task: PrimalTask) -> bytes:
    return hyfdca_pb2.HyfdcaPrimalTask(
        state=_state_to_proto(task.state), whole=task.whole, conjugate_blocks=task.conjugate_blocks
    ).SerializeToString(deterministic=True)


def primal_task_from_bytes(data: bytes, scope: Scope) -> PrimalTask:
    message = parsed_message(hyfdca_pb2.HyfdcaPrimalTask, data)
    return PrimalTask(
        _state_from_proto(message.state, scope),
        message.whole,
        _blocks_from_proto(message.conjugate_blocks, scope, "conjugate_blocks"),
    )


def primal_result_to_bytes(result: PrimalResult) -> bytes:
    return hyfdca_pb2.HyfdcaPrimalResult(
        share=change_to_proto(result.share), conjugate_sum=result.conjugate_sum
    ).SerializeToString(deterministic=True)


def primal_result_from_bytes(data: bytes, scope: Scope) -> PrimalResult:
    message = parsed_message(hyfdca_pb2.HyfdcaPrimalResult, data)
    return PrimalResult(
        change_from_proto(message.share, length=scope.features, field="share"),
        finite_number(message.conjugate_sum, "conjugate_sum"),
    )


def product_task_to_bytes(task: ProductTask) -> bytes:
    return hyfdca_pb2.HyfdcaProductTask(state=_state_to_proto(task.state), blocks=task.blocks).SerializeToString(
        deterministic=True
    )


def product_task_from_bytes(data: bytes, scope: Scope) -> ProductTask:
    message = parsed_message(hyfdca_pb2.HyfdcaProductTask, data)
    return ProductTask(_state_from_proto(message.state, scope), _blocks_from_proto(message.blocks, scope, "blocks"))


def product_result_to_bytes(result: ProductResult) -> bytes:
    return hyfdca_pb2.HyfdcaProductResult(products=block_vector_to_proto(result.products)).SerializeToString(
        deterministic=True
    )


def product_result_from_bytes(data: bytes, scope: Scope) -> ProductResult:
    message = parsed_message(hyfdca_pb2.HyfdcaProductResult, data)
    if not message.HasField("products"):
        raise InvalidInput("products: missing")
    return ProductResult(_vector_from_proto(message.products, scope, PRODUCT_FORMAT, "products"))


def dual_task_to_bytes(task: DualTask) -> bytes:
    ranges = [
        hyfdca_pb2.HyfdcaRange(block=part.block, start=part.start, stop=part.stop, divisor=divisor)
        for part, divisor in zip(task.ranges, task.divisors, strict=True)
    ]
    return hyfdca_pb2.HyfdcaDualTask(
        state=_state_to_proto(task.state),
        norms=_optional_vector_to_proto(task.norms),
        products=_optional_vector_to_proto(task.products),
        ranges=ranges,
        gamma=task.gamma,
        step_scale=task.step_scale,
        report_blocks=task.report_blocks,
    ).SerializeToString(deterministic=True)


def dual_task_from_bytes(data: bytes, scope: Scope) -> DualTask:
    message = parsed_message(hyfdca_pb2.HyfdcaDualTask, data)
    for field, value in (("gamma", message.gamma), ("step_scale", message.step_scale)):
        if not 0.0 < value <= 1.0:
            raise InvalidInput(f"{field}: must lie above 0 and at most at 1")
    norms, products = message.HasField("norms"), message.HasField("products")
    return DualTask(
        state=_state_from_proto(message.state, scope),
        norms=_vector_from_proto(message.norms, scope, PRODUCT_FORMAT, "norms") if norms else None,
        products=_vector_from_proto(message.products, scope, PRODUCT_FORMAT, "products") if products else None,
        ranges=tuple(_range_from_proto(part, scope) for part in message.ranges),
        divisors=tuple(part.divisor for part in message.ranges),
        gamma=message.gamma,
        step_scale=message.step_scale,
        report_blocks=_blocks_from_proto(message.report_blocks, scope, "report_blocks"),
    )


def dual_result_to_bytes(result: DualResult) -> bytes:
    return hyfdca_pb2.HyfdcaDualResult(
        changes=_optional_vector_to_proto(result.changes),
        certificate=None if result.certificate is None else certificate_share_to_proto(result.certificate),
    ).SerializeToString(deterministic=True)


def dual_result_from_bytes(data: bytes, scope: Scope) -> DualResult:
    message = parsed_message(hyfdca_pb2.HyfdcaDualResult, data)
    changes = message.HasField("changes")
    return DualResult(
        _vector_from_proto(message.changes, scope, ALPHA_FORMAT, "changes") if changes else None,
        certificate_share_from_proto(message.certificate) if message.HasField("certificate") else None,
    )


def parsed_message(kind: type[M], data: bytes) -> M:
    try:
        return kind.FromString(data)
    except DecodeError:
        raise InvalidInput(f"body: not a {kind.DESCRIPTOR.name}; it was cut or altered") from None


def _state_to_proto(state: StateUpdate) -> hyfdca_pb2.HyfdcaState:
    return hyfdca_pb2.HyfdcaState(
        reset=state.reset,
        model=None if state.model is None else change_to_proto(state.model),
        alpha=_optional_vector_to_proto(state.alpha),
    )


def _state_from_proto(message: hyfdca_pb2.HyfdcaState, scope: Scope) -> StateUpdate:
    model, alpha = message.HasField("model"), message.HasField("alpha")
    return StateUpdate(
        reset=message.reset,
        model=change_from_proto(message.model, length=scope.features, field="state.model") if model else None,
        alpha=_vector_from_proto(message.alpha, scope, ALPHA_FORMAT, "state.alpha") if alpha else None,
    )


def _optional_vector_to_proto(vector: BlockVector | None) -> hyfdca_pb2.BlockVector | None:
    return None if vector is None else block_vector_to_proto(vector)


def _vector_from_proto(
    message: hyfdca_pb2.BlockVector, scope: Scope, vector_format: VectorFormat, field: str
) -> BlockVector:
    return block_vector_from_proto(
        message, held=scope.blocks, slots=scope.slots, key=scope.key, vector_format=vector_format, field=field
    )


def _blocks_from_proto(blocks: Sequence[int], scope: Scope, field: str) -> tuple[int, ...]:
    return block_ids_from_proto(blocks, scope.blocks, field)


def _range_from_proto(message: hyfdca_pb2.HyfdcaRange, scope: Scope) -> SampleRange:
    if message.block not in scope.blocks:
        raise InvalidInput("ranges.block: names a block that this client does not hold")
    if not message.start < message.stop <= scope.blocks[message.block]:
        raise InvalidInput("ranges: start must lie below stop, and stop within the block")
    if message.divisor < 1:
        raise InvalidInput("ranges.divisor: must be at least 1")
    return SampleRange(message.block, message.start, message.stop)


def certificate_share_to_proto(share: CertificateShare) -> hyfdca_pb2.HyfdcaCertificateShare:
    return hyfdca_pb2.HyfdcaCertificateShare(
        samples=share.samples, loss_sum=share.loss_sum, conjugate_sum=share.conjugate_sum, correct=share.correct
    )


def certificate_share_from_proto(message: hyfdca_pb2.HyfdcaCertificateShare) -> CertificateShare:
    if message.correct > message.samples:
        raise InvalidInput("certificate.correct: is more than certificate.samples")
    return CertificateShare(
        message.samples,
        finite_number(message.loss_sum, "certificate.loss_sum"),
        finite_number(message.conjugate_sum, "certificate.conjugate_sum"),
        message.correct,
    )


def finite_number(value: float, field: str) -> float:
    if not math.isfinite(value):
        raise InvalidInput(f"{field}: is NaN or infinite")
    return value
