"""HyFDCA's messages on the wire.

Every reader checks a message against the `Scope` of its client, and raises `InvalidInput` with the name of the wrong
field.
"""

from dataclasses import astuple, fields

from fenchel.v1 import hyfdca_pb2
from fenchel_common.algorithms.dual import PRODUCT_FORMAT, ProductResult
from fenchel_common.algorithms.hyfdca.messages import (
    FIGURE_COUNT,
    DualResult,
    DualTask,
    Figures,
    LastState,
    PrimalResult,
    PrimalTask,
    ProductTask,
)
from fenchel_common.blocks import BlockVector
from fenchel_common.errors import InvalidInput
from fenchel_common.wire.blocks import block_vector_to_proto
from fenchel_common.wire.parsing import Body, parsed_message
from fenchel_common.wire.scope import (
    Scope,
    feature_vector_from_proto,
    finite_number,
    numbers_from_proto,
    numbers_to_proto,
    optional_vector_to_proto,
    sample_vector_from_proto,
)

_HasModel = hyfdca_pb2.HyfdcaState | hyfdca_pb2.HyfdcaProductTask | hyfdca_pb2.HyfdcaDualTask


def state_to_bytes(state: LastState) -> bytes:
    return hyfdca_pb2.HyfdcaState(model=optional_vector_to_proto(state.model)).SerializeToString(deterministic=True)


def state_from_bytes(data: bytes, scope: Scope) -> LastState:
    return LastState(_model_in(parsed_message(hyfdca_pb2.HyfdcaState, data), scope))


def primal_task_to_bytes(task: PrimalTask) -> bytes:
    return hyfdca_pb2.HyfdcaPrimalTask(
        alpha=optional_vector_to_proto(task.alpha), totals=numbers_to_proto(task.totals)
    ).SerializeToString(deterministic=True)


def primal_task_from_bytes(data: bytes, scope: Scope) -> PrimalTask:
    message = parsed_message(hyfdca_pb2.HyfdcaPrimalTask, data)
    totals = numbers_from_proto(message.totals, scope, "totals") if message.HasField("totals") else None
    if totals is not None and totals.length != FIGURE_COUNT:
        raise InvalidInput(f"totals: must be {FIGURE_COUNT} figures")
    alpha = message.HasField("alpha")
    return PrimalTask(
        sample_vector_from_proto(message.alpha, scope, (scope.alpha_format,), "alpha") if alpha else None, totals
    )


def primal_result_to_bytes(result: PrimalResult) -> bytes:
    return hyfdca_pb2.HyfdcaPrimalResult(
        contribution=block_vector_to_proto(result.contribution),
        figures=() if result.figures is None else astuple(result.figures),
    ).SerializeToString(deterministic=True)


def primal_result_from_bytes(data: Body, scope: Scope) -> PrimalResult:
    message = parsed_message(hyfdca_pb2.HyfdcaPrimalResult, data)
    due = len(fields(Figures))
    if len(message.figures) not in (0, due):
        raise InvalidInput(f"figures: must be {due} numbers or none")
    figures = [finite_number(value, "figures") for value in message.figures]
    contribution = feature_vector_from_proto(message.contribution, scope, "contribution")
    return PrimalResult(contribution, Figures(*figures) if figures else None)


def product_task_to_bytes(task: ProductTask) -> bytes:
    return hyfdca_pb2.HyfdcaProductTask(model=optional_vector_to_proto(task.model)).SerializeToString(
        deterministic=True
    )


def product_task_from_bytes(data: bytes, scope: Scope) -> ProductTask:
    return ProductTask(_model_in(parsed_message(hyfdca_pb2.HyfdcaProductTask, data), scope))


def product_result_to_bytes(result: ProductResult) -> bytes:
    return hyfdca_pb2.HyfdcaProductResult(products=optional_vector_to_proto(result.products)).SerializeToString(
        deterministic=True
    )


def product_result_from_bytes(data: Body, scope: Scope) -> ProductResult:
    message = parsed_message(hyfdca_pb2.HyfdcaProductResult, data)
    if not message.HasField("products"):
        raise InvalidInput("products: missing")
    return ProductResult(sample_vector_from_proto(message.products, scope, (PRODUCT_FORMAT,), "products"))


def dual_task_to_bytes(task: DualTask) -> bytes:
    return hyfdca_pb2.HyfdcaDualTask(
        model=optional_vector_to_proto(task.model),
        norms=optional_vector_to_proto(task.norms),
        products=optional_vector_to_proto(task.products),
    ).SerializeToString(deterministic=True)


def dual_task_from_bytes(data: bytes, scope: Scope) -> DualTask:
    message = parsed_message(hyfdca_pb2.HyfdcaDualTask, data)
    norms, products = message.HasField("norms"), message.HasField("products")
    return DualTask(
        model=_model_in(message, scope),
        norms=sample_vector_from_proto(message.norms, scope, (PRODUCT_FORMAT,), "norms") if norms else None,
        products=sample_vector_from_proto(message.products, scope, (PRODUCT_FORMAT,), "products") if products else None,
    )


def dual_result_to_bytes(result: DualResult) -> bytes:
    return hyfdca_pb2.HyfdcaDualResult(
        changes=optional_vector_to_proto(result.changes),
        restated=optional_vector_to_proto(result.restated),
        figures=numbers_to_proto(result.figures),
    ).SerializeToString(deterministic=True)


def dual_result_from_bytes(data: Body, scope: Scope) -> DualResult:
    message = parsed_message(hyfdca_pb2.HyfdcaDualResult, data)
    changes, restated = message.HasField("changes"), message.HasField("restated")
    return DualResult(
        changes=sample_vector_from_proto(message.changes, scope, (scope.alpha_format,), "changes") if changes else None,
        restated=sample_vector_from_proto(message.restated, scope, (scope.alpha_format,), "restated")
        if restated
        else None,
        figures=numbers_from_proto(message.figures, scope, "figures") if message.HasField("figures") else None,
    )


def _model_in(message: _HasModel, scope: Scope) -> BlockVector | None:
    return feature_vector_from_proto(message.model, scope, "model") if message.HasField("model") else None
