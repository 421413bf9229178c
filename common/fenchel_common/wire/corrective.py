"""The messages of corrective HyFDCA on the wire, each checked against the `Scope` of the client it is for or from."""

import itertools
import math
from collections.abc import Iterable

import numpy as np

from fenchel.v1 import corrective_pb2 as pb
from fenchel.v1 import hyfdca_pb2
from fenchel_common.algorithms.corrective import (
    MEMORY,
    Array,
    Combination,
    DualResult,
    DualTask,
    Measured,
    Memory,
    Opened,
    Opening,
    PrimalResult,
    PrimalTask,
    ProductResult,
    ProductTask,
    RememberedModel,
)
from fenchel_common.algorithms.hyfdca import ALPHA_FORMAT, PRODUCT_FORMAT, BlockVector
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.errors import InvalidInput
from fenchel_common.wire.arrays import change_from_proto, change_to_proto, doubles_from_bytes, doubles_to_bytes
from fenchel_common.wire.blocks import block_ids_from_proto, block_vector_from_proto, block_vector_to_proto
from fenchel_common.wire.hyfdca import (
    Scope,
    certificate_share_from_proto,
    certificate_share_to_proto,
    finite_number,
    parsed_message,
)

WEIGHT_SLACK = 1e-9
"""By how much the weights of a combination may miss 1; the sum of doubles is never exact."""


def product_task_to_bytes(task: ProductTask) -> bytes:
    return pb.CorrectiveProductTask(opening=_opening_to_proto(task.opening), blocks=task.blocks).SerializeToString(
        deterministic=True
    )


def product_task_from_bytes(data: bytes, scope: Scope) -> ProductTask:
    message = parsed_message(pb.CorrectiveProductTask, data)
    return ProductTask(
        _opening_from_proto(message.opening, scope), block_ids_from_proto(message.blocks, scope.blocks, "blocks")
    )


def product_result_to_bytes(result: ProductResult) -> bytes:
    return pb.CorrectiveProductResult(
        opened=_opened_to_proto(result.opened), products=block_vector_to_proto(result.products)
    ).SerializeToString(deterministic=True)


def product_result_from_bytes(data: bytes, scope: Scope) -> ProductResult:
    message = parsed_message(pb.CorrectiveProductResult, data)
    return ProductResult(
        _opened_from_proto(message.opened, scope),
        _block_vector(message.products, scope, PRODUCT_FORMAT, "products"),
    )


def dual_task_to_bytes(task: DualTask) -> bytes:
    return pb.CorrectiveDualTask(
        opening=None if task.opening is None else _opening_to_proto(task.opening),
        round=task.round_id,
        norms=_optional_to_proto(task.norms),
        products=_optional_to_proto(task.products),
        blocks=task.blocks,
        divisors=task.divisors,
        scale=task.scale,
        models=task.models,
        gram=doubles_to_bytes(task.gram),
        certificate_blocks=task.certificate_blocks,
        certify_only=task.certify_only,
    ).SerializeToString(deterministic=True)


def dual_task_from_bytes(data: bytes, scope: Scope) -> DualTask:
    message = parsed_message(pb.CorrectiveDualTask, data)
    blocks = block_ids_from_proto(message.blocks, scope.blocks, "blocks")
    models = _ascending(message.models, "models")
    side = len(models) + 1
    gram = doubles_from_bytes(message.gram, field="gram")
    if gram.size != side**2 or not np.isfinite(gram).all():
        raise InvalidInput(f"gram: must be {side} times {side} finite numbers")
    if len(message.divisors) != len(blocks) or any(divisor < 1 for divisor in message.divisors):
        raise InvalidInput("divisors: each block has one, of at least 1")
    if not (math.isfinite(message.scale) and message.scale >= 1.0):
        raise InvalidInput("scale: must be a number of at least 1")
    return DualTask(
        opening=_opening_from_proto(message.opening, scope) if message.HasField("opening") else None,
        round_id=message.round,
        norms=_block_vector(message.norms, scope, PRODUCT_FORMAT, "norms") if message.HasField("norms") else None,
        products=_optional_products(message, scope),
        blocks=blocks,
        divisors=tuple(message.divisors),
        scale=message.scale,
        models=models,
        gram=gram.reshape(side, side),
        certificate_blocks=block_ids_from_proto(message.certificate_blocks, scope.blocks, "certificate_blocks"),
        certify_only=message.certify_only,
    )


def dual_result_to_bytes(result: DualResult) -> bytes:
    return pb.CorrectiveDualResult(
        opened=None if result.opened is None else _opened_to_proto(result.opened),
        point=_optional_to_proto(result.point),
        certificate=None if result.certificate is None else certificate_share_to_proto(result.certificate),
    ).SerializeToString(deterministic=True)


def dual_result_from_bytes(data: bytes, scope: Scope) -> DualResult:
    message = parsed_message(pb.CorrectiveDualResult, data)
    certificate = message.HasField("certificate")
    return DualResult(
        opened=_opened_from_proto(message.opened, scope) if message.HasField("opened") else None,
        point=_block_vector(message.point, scope, ALPHA_FORMAT, "point") if message.HasField("point") else None,
        certificate=certificate_share_from_proto(message.certificate) if certificate else None,
    )


def primal_task_to_bytes(task: PrimalTask) -> bytes:
    return pb.CorrectivePrimalTask(
        anchor=task.anchor,
        models=task.models,
        point=block_vector_to_proto(task.point),
        report_blocks=task.report_blocks,
        vertex=task.vertex,
    ).SerializeToString(deterministic=True)


def primal_task_from_bytes(data: bytes, scope: Scope) -> PrimalTask:
    message = parsed_message(pb.CorrectivePrimalTask, data)
    return PrimalTask(
        anchor=message.anchor,
        models=_ascending(message.models, "models"),
        point=_block_vector(message.point, scope, ALPHA_FORMAT, "point"),
        report_blocks=block_ids_from_proto(message.report_blocks, scope.blocks, "report_blocks"),
        vertex=message.vertex,
    )


def primal_result_to_bytes(result: PrimalResult) -> bytes:
    return pb.CorrectivePrimalResult(
        point=_measured_to_proto(result.point),
        vertex=None if result.vertex is None else _measured_to_proto(result.vertex),
    ).SerializeToString(deterministic=True)


def primal_result_from_bytes(data: bytes, scope: Scope) -> PrimalResult:
    message = parsed_message(pb.CorrectivePrimalResult, data)
    return PrimalResult(
        _measured_from_proto(message.point, scope, "point"),
        _measured_from_proto(message.vertex, scope, "vertex") if message.HasField("vertex") else None,
    )


def combination_to_proto(combination: Combination) -> pb.CorrectiveCombination:
    return pb.CorrectiveCombination(
        round=combination.round_id,
        anchor=combination.anchor,
        point=combination.point,
        vertices=[
            pb.CorrectiveVertexWeight(model=model, weight=weight)
            for model, weight in sorted(combination.vertices.items())
        ],
    )


def combination_from_proto(message: pb.CorrectiveCombination) -> Combination:
    models = _ascending([vertex.model for vertex in message.vertices], "combination.vertices")
    weights = [message.anchor, message.point, *(vertex.weight for vertex in message.vertices)]
    if not all(0.0 <= weight <= 1.0 for weight in weights) or abs(sum(weights) - 1.0) > WEIGHT_SLACK:
        raise InvalidInput("combination: the weights must lie between 0 and 1 and sum to 1")
    return Combination(message.round, message.anchor, message.point, dict(zip(models, weights[2:], strict=True)))


def _opening_to_proto(opening: Opening) -> pb.CorrectiveOpening:
    return pb.CorrectiveOpening(
        memory=None if opening.memory is None else _memory_to_proto(opening.memory),
        model=None if opening.model is None else change_to_proto(opening.model),
        anchor=opening.anchor,
        combination=None if opening.combination is None else combination_to_proto(opening.combination),
        report_blocks=opening.report_blocks,
    )


def _opening_from_proto(message: pb.CorrectiveOpening, scope: Scope) -> Opening:
    model = message.HasField("model")
    return Opening(
        memory=_memory_from_proto(message.memory, scope) if message.HasField("memory") else None,
        model=change_from_proto(message.model, length=scope.features, field="opening.model") if model else None,
        anchor=message.anchor,
        combination=combination_from_proto(message.combination) if message.HasField("combination") else None,
        report_blocks=block_ids_from_proto(message.report_blocks, scope.blocks, "opening.report_blocks"),
    )


def _memory_to_proto(memory: Memory) -> pb.CorrectiveMemory:
    models = [
        pb.CorrectiveModel(
            id=model.id,
            weights=doubles_to_bytes(model.weights),
            blocks=model.blocks,
            products=_optional_to_proto(model.products),
        )
        for model in memory.models
    ]
    return pb.CorrectiveMemory(
        alpha=_optional_to_proto(memory.alpha), point=_optional_to_proto(memory.point), models=models
    )


def _memory_from_proto(message: pb.CorrectiveMemory, scope: Scope) -> Memory:
    _ascending([model.id for model in message.models], "memory.models")
    alpha, point = message.HasField("alpha"), message.HasField("point")
    return Memory(
        alpha=_block_vector(message.alpha, scope, ALPHA_FORMAT, "memory.alpha") if alpha else None,
        point=_block_vector(message.point, scope, ALPHA_FORMAT, "memory.point") if point else None,
        models=tuple(_model_from_proto(model, scope) for model in message.models),
    )


def _model_from_proto(message: pb.CorrectiveModel, scope: Scope) -> RememberedModel:
    products = message.HasField("products")
    field = "memory.models"
    return RememberedModel(
        id=message.id,
        weights=_by_feature(message.weights, scope, f"{field}.weights"),
        blocks=block_ids_from_proto(message.blocks, scope.blocks, f"{field}.blocks"),
        products=_block_vector(message.products, scope, PRODUCT_FORMAT, f"{field}.products") if products else None,
    )


def _opened_to_proto(opened: Opened) -> pb.CorrectiveOpened:
    return pb.CorrectiveOpened(
        share=doubles_to_bytes(opened.share),
        conjugate_sum=opened.conjugate_sum,
        alpha=_optional_to_proto(opened.alpha),
    )


def _opened_from_proto(message: pb.CorrectiveOpened, scope: Scope) -> Opened:
    return Opened(
        share=_by_feature(message.share, scope, "opened.share"),
        conjugate_sum=finite_number(message.conjugate_sum, "opened.conjugate_sum"),
        alpha=_block_vector(message.alpha, scope, ALPHA_FORMAT, "opened.alpha") if message.HasField("alpha") else None,
    )


def _measured_to_proto(measured: Measured) -> pb.CorrectiveMeasured:
    return pb.CorrectiveMeasured(share=doubles_to_bytes(measured.share), conjugate_sum=measured.conjugate_sum)


def _measured_from_proto(message: pb.CorrectiveMeasured, scope: Scope, field: str) -> Measured:
    return Measured(
        _by_feature(message.share, scope, f"{field}.share"),
        finite_number(message.conjugate_sum, f"{field}.conjugate_sum"),
    )


def _by_feature(data: bytes, scope: Scope, field: str) -> Array:
    values = doubles_from_bytes(data, field=field)
    if values.shape != (scope.features,) or not np.isfinite(values).all():
        raise InvalidInput(f"{field}: must be {scope.features} finite numbers")
    return values


def _ascending(ids: Iterable[int], field: str) -> tuple[int, ...]:
    given = tuple(ids)
    if len(given) > MEMORY or any(left >= right for left, right in itertools.pairwise(given)):
        raise InvalidInput(f"{field}: must be at most {MEMORY} ascending numbers")
    return given


def _block_vector(
    message: hyfdca_pb2.BlockVector, scope: Scope, vector_format: VectorFormat, field: str
) -> BlockVector:
    return block_vector_from_proto(
        message, held=scope.blocks, slots=scope.slots, key=scope.key, vector_format=vector_format, field=field
    )


def _optional_products(message: pb.CorrectiveDualTask, scope: Scope) -> BlockVector | None:
    return _block_vector(message.products, scope, PRODUCT_FORMAT, "products") if message.HasField("products") else None


def _optional_to_proto(vector: BlockVector | None) -> hyfdca_pb2.BlockVector | None:
    return None if vector is None else block_vector_to_proto(vector)
