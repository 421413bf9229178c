"""HyFDCA's messages on the wire.

Every reader checks a message against the `Scope` of its client, and raises `InvalidInput` with the name of the wrong
field.
"""

from dataclasses import astuple
from typing import Final

import numpy as np

from fenchel.v1 import hyfdca_pb2
from fenchel_common.algorithms.dual import PRODUCT_FORMAT, ProductResult
from fenchel_common.algorithms.hyfdca.messages import (
    FIGURE_COUNT,
    DualResult,
    DualTask,
    Figures,
    PrimalResult,
    PrimalTask,
    ProductTask,
    SampleRange,
    StateUpdate,
)
from fenchel_common.errors import InvalidInput
from fenchel_common.wire.arrays import numbers_from_bytes, numbers_to_bytes
from fenchel_common.wire.blocks import block_vector_to_proto
from fenchel_common.wire.parsing import parsed_message
from fenchel_common.wire.scope import (
    Scope,
    block_ids,
    feature_block_ids,
    feature_vector_from_proto,
    finite_number,
    numbers_from_proto,
    numbers_to_proto,
    optional_vector_to_proto,
    sample_vector_from_proto,
)

RANGE_NUMBERS: Final = 3
"""Block, start and stop."""
MAX_RANGES_A_BLOCK: Final = 2
"""A draw of consecutive samples that continues from the last block to the first can end in the block where it began."""


def state_to_bytes(state: StateUpdate) -> bytes:
    return _state_to_proto(state).SerializeToString(deterministic=True)


def state_from_bytes(data: bytes, scope: Scope) -> StateUpdate:
    return _state_from_proto(parsed_message(hyfdca_pb2.HyfdcaState, data), scope)


def primal_task_to_bytes(task: PrimalTask) -> bytes:
    return hyfdca_pb2.HyfdcaPrimalTask(
        state=_state_to_proto(task.state), totals=numbers_to_proto(task.totals)
    ).SerializeToString(deterministic=True)


def primal_task_from_bytes(data: bytes, scope: Scope) -> PrimalTask:
    message = parsed_message(hyfdca_pb2.HyfdcaPrimalTask, data)
    totals = numbers_from_proto(message.totals, scope, "totals") if message.HasField("totals") else None
    if totals is not None and totals.length != FIGURE_COUNT:
        raise InvalidInput(f"totals: must be {FIGURE_COUNT} figures")
    return PrimalTask(_state_from_proto(message.state, scope), totals)


def primal_result_to_bytes(result: PrimalResult) -> bytes:
    return hyfdca_pb2.HyfdcaPrimalResult(
        contribution=block_vector_to_proto(result.contribution),
        figures=() if result.figures is None else astuple(result.figures),
    ).SerializeToString(deterministic=True)


def primal_result_from_bytes(data: bytes, scope: Scope) -> PrimalResult:
    message = parsed_message(hyfdca_pb2.HyfdcaPrimalResult, data)
    if len(message.figures) not in (0, FIGURE_COUNT):
        raise InvalidInput(f"figures: must be {FIGURE_COUNT} numbers or none")
    figures = [finite_number(value, "figures") for value in message.figures]
    contribution = feature_vector_from_proto(message.contribution, scope, "contribution")
    return PrimalResult(contribution, Figures(*figures) if figures else None)


def product_task_to_bytes(task: ProductTask) -> bytes:
    return hyfdca_pb2.HyfdcaProductTask(
        state=_state_to_proto(task.state), blocks=numbers_to_bytes(task.blocks)
    ).SerializeToString(deterministic=True)


def product_task_from_bytes(data: bytes, scope: Scope) -> ProductTask:
    message = parsed_message(hyfdca_pb2.HyfdcaProductTask, data)
    return ProductTask(_state_from_proto(message.state, scope), block_ids(message.blocks, scope, "blocks"))


def product_result_to_bytes(result: ProductResult) -> bytes:
    return hyfdca_pb2.HyfdcaProductResult(products=optional_vector_to_proto(result.products)).SerializeToString(
        deterministic=True
    )


def product_result_from_bytes(data: bytes, scope: Scope) -> ProductResult:
    message = parsed_message(hyfdca_pb2.HyfdcaProductResult, data)
    if not message.HasField("products"):
        raise InvalidInput("products: missing")
    return ProductResult(sample_vector_from_proto(message.products, scope, PRODUCT_FORMAT, "products"))


def dual_task_to_bytes(task: DualTask) -> bytes:
    if len(task.ranges) != len(task.divisors):
        raise AssertionError("every range has a divisor")
    return hyfdca_pb2.HyfdcaDualTask(
        state=_state_to_proto(task.state),
        norms=optional_vector_to_proto(task.norms),
        products=optional_vector_to_proto(task.products),
        ranges=numbers_to_bytes([number for part in task.ranges for number in (part.block, part.start, part.stop)]),
        divisors=numbers_to_bytes(task.divisors),
        gamma=task.gamma,
        step_scale=task.step_scale,
        report_blocks=numbers_to_bytes(task.report_blocks),
        norm_blocks=numbers_to_bytes(task.norm_blocks),
        with_losses=task.with_losses,
    ).SerializeToString(deterministic=True)


def dual_task_from_bytes(data: bytes, scope: Scope) -> DualTask:
    message = parsed_message(hyfdca_pb2.HyfdcaDualTask, data)
    for field, value in (("gamma", message.gamma), ("step_scale", message.step_scale)):
        if not 0.0 < value <= 1.0:
            raise InvalidInput(f"{field}: must lie above 0 and at most at 1")
    norms, products = message.HasField("norms"), message.HasField("products")
    ranges = _ranges_from_bytes(message.ranges, scope)
    divisors = numbers_from_bytes(message.divisors, most=len(ranges), field="divisors").tolist()
    if len(divisors) != len(ranges) or any(divisor < 1 for divisor in divisors):
        raise InvalidInput("divisors: a number of at least 1 is due for each range")
    return DualTask(
        state=_state_from_proto(message.state, scope),
        norms=sample_vector_from_proto(message.norms, scope, PRODUCT_FORMAT, "norms") if norms else None,
        products=sample_vector_from_proto(message.products, scope, PRODUCT_FORMAT, "products") if products else None,
        ranges=ranges,
        divisors=tuple(divisors),
        gamma=message.gamma,
        step_scale=message.step_scale,
        report_blocks=block_ids(message.report_blocks, scope, "report_blocks"),
        norm_blocks=feature_block_ids(message.norm_blocks, scope, "norm_blocks"),
        with_losses=message.with_losses,
    )


def dual_result_to_bytes(result: DualResult) -> bytes:
    return hyfdca_pb2.HyfdcaDualResult(
        changes=optional_vector_to_proto(result.changes), figures=numbers_to_proto(result.figures)
    ).SerializeToString(deterministic=True)


def dual_result_from_bytes(data: bytes, scope: Scope) -> DualResult:
    message = parsed_message(hyfdca_pb2.HyfdcaDualResult, data)
    changes, figures = message.HasField("changes"), message.HasField("figures")
    return DualResult(
        sample_vector_from_proto(message.changes, scope, scope.alpha_format, "changes") if changes else None,
        numbers_from_proto(message.figures, scope, "figures") if figures else None,
    )


def _state_to_proto(state: StateUpdate) -> hyfdca_pb2.HyfdcaState:
    return hyfdca_pb2.HyfdcaState(
        reset=state.reset,
        model=optional_vector_to_proto(state.model),
        alpha=optional_vector_to_proto(state.alpha),
    )


def _state_from_proto(message: hyfdca_pb2.HyfdcaState, scope: Scope) -> StateUpdate:
    model, alpha = message.HasField("model"), message.HasField("alpha")
    return StateUpdate(
        reset=message.reset,
        model=feature_vector_from_proto(message.model, scope, "state.model") if model else None,
        alpha=sample_vector_from_proto(message.alpha, scope, scope.alpha_format, "state.alpha") if alpha else None,
    )


def _ranges_from_bytes(data: bytes, scope: Scope) -> tuple[SampleRange, ...]:
    most = RANGE_NUMBERS * MAX_RANGES_A_BLOCK * len(scope.blocks)
    numbers = numbers_from_bytes(data, most=most, field="ranges")
    if len(numbers) % RANGE_NUMBERS:
        raise InvalidInput(f"ranges: {RANGE_NUMBERS} numbers are due for each")
    ranges = tuple(SampleRange(*part) for part in np.reshape(numbers, (-1, RANGE_NUMBERS)).tolist())
    if any(part.block not in scope.blocks for part in ranges):
        raise InvalidInput("ranges: names a block that this client does not hold")
    if any(not part.start < part.stop <= scope.blocks[part.block] for part in ranges):
        raise InvalidInput("ranges: start must lie below stop, and stop within the block")
    return ranges
