"""The messages of HyFDCA with corrective steps on the wire; what arrives is checked against a `Scope`."""

from dataclasses import asdict

from fenchel.v1 import corrective_pb2, hyfdca_pb2, vectors_pb2
from fenchel_common.algorithms.corrective.messages import (
    POINT_PRODUCT_FORMAT,
    Anchor,
    DualResult,
    DualTask,
    Figures,
    Opening,
    PrimalResult,
    PrimalTask,
    Products,
)
from fenchel_common.algorithms.dual import ALPHA_FORMAT, PRODUCT_FORMAT
from fenchel_common.blocks import BlockVector
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.vectors import Vector
from fenchel_common.errors import InvalidInput
from fenchel_common.wire.arrays import numbers_from_bytes, numbers_to_bytes
from fenchel_common.wire.parsing import parsed_message
from fenchel_common.wire.scope import (
    Scope,
    block_ids,
    feature_block_ids,
    feature_vector_from_proto,
    figures_from_proto,
    figures_to_proto,
    finite_number,
    optional_vector_to_proto,
    sample_vector_from_proto,
)

DIGEST_BYTES = 32


def product_task_to_bytes(opening: Opening) -> bytes:
    return corrective_pb2.CorrectiveProductTask(opening=_opening_to_proto(opening)).SerializeToString(
        deterministic=True
    )


def product_task_from_bytes(data: bytes, scope: Scope) -> Opening:
    message = parsed_message(corrective_pb2.CorrectiveProductTask, data)
    return _opening_from_proto(message.opening, scope)


def product_result_to_bytes(products: Products | None) -> bytes:
    """None: the memory that the task takes up is lost."""
    message = corrective_pb2.CorrectiveProductResult(lost=products is None)
    if products is not None:
        message = corrective_pb2.CorrectiveProductResult(
            point=optional_vector_to_proto(products.point),
            vertex=optional_vector_to_proto(products.vertex),
            gram=figures_to_proto(products.gram),
        )
    return message.SerializeToString(deterministic=True)


def product_result_from_bytes(data: bytes, scope: Scope) -> Products | None:
    message = parsed_message(corrective_pb2.CorrectiveProductResult, data)
    if message.lost:
        return None
    if not message.HasField("gram"):
        raise InvalidInput("gram: missing")
    return Products(
        point=_samples(message, "point", scope, POINT_PRODUCT_FORMAT),
        vertex=_samples(message, "vertex", scope, POINT_PRODUCT_FORMAT),
        gram=figures_from_proto(message.gram, scope, "gram"),
    )


def dual_task_to_bytes(task: DualTask) -> bytes:
    products = task.products
    return corrective_pb2.CorrectiveDualTask(
        opening=None if task.opening is None else _opening_to_proto(task.opening),
        round=task.round_id,
        norms=optional_vector_to_proto(task.norms),
        point=None if products is None else optional_vector_to_proto(products.point),
        vertex=None if products is None else optional_vector_to_proto(products.vertex),
        gram=None if products is None else figures_to_proto(products.gram),
        divisors=numbers_to_bytes(task.divisors),
        scale=task.scale,
        certify_only=task.certify_only,
    ).SerializeToString(deterministic=True)


def dual_task_from_bytes(data: bytes, scope: Scope) -> DualTask:
    message = parsed_message(corrective_pb2.CorrectiveDualTask, data)
    if not finite_number(message.scale, "scale") >= 1.0:
        raise InvalidInput("scale: must be at least 1")
    divisors = numbers_from_bytes(message.divisors, most=len(scope.blocks), field="divisors").tolist()
    if any(divisor < 1 for divisor in divisors):
        raise InvalidInput("divisors: must be at least 1")
    products = None
    if message.HasField("gram"):
        products = Products(
            point=_samples(message, "point", scope, POINT_PRODUCT_FORMAT),
            vertex=_samples(message, "vertex", scope, POINT_PRODUCT_FORMAT),
            gram=figures_from_proto(message.gram, scope, "gram"),
        )
    return DualTask(
        opening=_opening_from_proto(message.opening, scope) if message.HasField("opening") else None,
        round_id=message.round,
        norms=_samples(message, "norms", scope, PRODUCT_FORMAT),
        products=products,
        divisors=tuple(divisors),
        scale=message.scale,
        certify_only=message.certify_only,
    )


def dual_result_to_bytes(result: DualResult | None) -> bytes:
    """None: the memory that the task takes up is lost."""
    message = corrective_pb2.CorrectiveDualResult(lost=result is None)
    if result is not None:
        message = corrective_pb2.CorrectiveDualResult(
            point=optional_vector_to_proto(result.point),
            figures=figures_to_proto(result.figures),
            alpha=optional_vector_to_proto(result.alpha),
            weights=optional_vector_to_proto(result.weights),
            combination=result.combination,
        )
    return message.SerializeToString(deterministic=True)


def dual_result_from_bytes(data: bytes, scope: Scope) -> DualResult | None:
    message = parsed_message(corrective_pb2.CorrectiveDualResult, data)
    if message.lost:
        return None
    if not message.HasField("figures"):
        raise InvalidInput("figures: missing")
    if len(message.combination) != DIGEST_BYTES:
        raise InvalidInput(f"combination: must have {DIGEST_BYTES} bytes")
    return DualResult(
        point=_samples(message, "point", scope, ALPHA_FORMAT),
        figures=figures_from_proto(message.figures, scope, "figures"),
        alpha=_samples(message, "alpha", scope, ALPHA_FORMAT),
        weights=_features(message, "weights", scope),
        combination=message.combination,
    )


def primal_task_to_bytes(task: PrimalTask) -> bytes:
    return corrective_pb2.CorrectivePrimalTask(
        round=task.round_id,
        point=optional_vector_to_proto(task.point),
        figures=figures_to_proto(task.figures),
        relative=task.relative,
        vertex=task.vertex,
        report=task.report,
    ).SerializeToString(deterministic=True)


def primal_task_from_bytes(data: bytes, scope: Scope) -> PrimalTask:
    message = parsed_message(corrective_pb2.CorrectivePrimalTask, data)
    if not message.HasField("figures"):
        raise InvalidInput("figures: missing")
    return PrimalTask(
        round_id=message.round,
        point=_samples(message, "point", scope, ALPHA_FORMAT),
        figures=figures_from_proto(message.figures, scope, "figures"),
        relative=message.relative,
        vertex=message.vertex,
        report=message.report,
    )


def primal_result_to_bytes(result: PrimalResult) -> bytes:
    figures = None if result.figures is None else corrective_pb2.CorrectiveFigures(**asdict(result.figures))
    return corrective_pb2.CorrectivePrimalResult(
        point=optional_vector_to_proto(result.point),
        vertex=optional_vector_to_proto(result.vertex),
        conjugates=figures_to_proto(result.conjugates),
        model=optional_vector_to_proto(result.model),
        figures=figures,
        accepted=result.accepted,
    ).SerializeToString(deterministic=True)


def primal_result_from_bytes(data: bytes, scope: Scope) -> PrimalResult:
    message = parsed_message(corrective_pb2.CorrectivePrimalResult, data)
    return PrimalResult(
        point=_features(message, "point", scope),
        vertex=_features(message, "vertex", scope),
        conjugates=_figures(message, "conjugates", scope),
        model=_features(message, "model", scope),
        figures=_told_figures(message.figures) if message.HasField("figures") else None,
        accepted=message.accepted,
    )


def model_to_bytes(weights: BlockVector | None) -> bytes:
    return corrective_pb2.CorrectiveModel(weights=optional_vector_to_proto(weights)).SerializeToString(
        deterministic=True
    )


def model_from_bytes(data: bytes, scope: Scope) -> BlockVector | None:
    return _features(parsed_message(corrective_pb2.CorrectiveModel, data), "weights", scope)


def _opening_to_proto(opening: Opening) -> corrective_pb2.CorrectiveOpening:
    lost = opening.lost
    return corrective_pb2.CorrectiveOpening(
        after=opening.after,
        anchor=opening.anchor,
        collapse=opening.collapse,
        lost=None
        if lost is None
        else corrective_pb2.CorrectiveAnchor(
            alpha=optional_vector_to_proto(lost.alpha),
            weights=optional_vector_to_proto(lost.weights),
            model=optional_vector_to_proto(lost.model),
        ),
        live_blocks=numbers_to_bytes(opening.live_blocks),
        report_blocks=numbers_to_bytes(opening.report_blocks),
        feature_blocks=numbers_to_bytes(opening.feature_blocks),
        point=optional_vector_to_proto(opening.point),
        vertex=optional_vector_to_proto(opening.vertex),
        conjugates=figures_to_proto(opening.conjugates),
    )


def _opening_from_proto(message: corrective_pb2.CorrectiveOpening, scope: Scope) -> Opening:
    lost = None
    if message.HasField("lost"):
        lost = Anchor(
            alpha=_samples(message.lost, "alpha", scope, ALPHA_FORMAT),
            weights=_features(message.lost, "weights", scope),
            model=_features(message.lost, "model", scope),
        )
    if lost is not None and not message.collapse:
        raise InvalidInput("opening.lost: comes with a collapse only")
    live = block_ids(message.live_blocks, scope, "opening.live_blocks")
    reports = block_ids(message.report_blocks, scope, "opening.report_blocks")
    if not live or not set(reports) <= set(live):
        raise InvalidInput("opening.live_blocks: must not be empty and contain those to report on")
    return Opening(
        after=message.after,
        anchor=message.anchor,
        collapse=message.collapse,
        lost=lost,
        live_blocks=live,
        report_blocks=reports,
        feature_blocks=feature_block_ids(message.feature_blocks, scope, "opening.feature_blocks"),
        point=_features(message, "point", scope),
        vertex=_features(message, "vertex", scope),
        conjugates=_figures(message, "conjugates", scope),
    )


def _told_figures(message: corrective_pb2.CorrectiveFigures) -> Figures:
    names = ("primal", "dual", "accuracy", "squared_norm", "row_norm")
    return Figures(**{name: finite_number(getattr(message, name), f"figures.{name}") for name in names})


_WithVectors = (
    corrective_pb2.CorrectiveAnchor
    | corrective_pb2.CorrectiveOpening
    | corrective_pb2.CorrectiveProductResult
    | corrective_pb2.CorrectiveDualTask
    | corrective_pb2.CorrectiveDualResult
    | corrective_pb2.CorrectivePrimalTask
    | corrective_pb2.CorrectivePrimalResult
    | corrective_pb2.CorrectiveModel
)


def _given(message: _WithVectors, field: str) -> bool:
    return any(held.name == field for held, _ in message.ListFields())


def _samples(message: _WithVectors, field: str, scope: Scope, vector_format: VectorFormat) -> BlockVector | None:
    if not _given(message, field):
        return None
    vector: hyfdca_pb2.BlockVector = getattr(message, field)
    return sample_vector_from_proto(vector, scope, vector_format, field)


def _features(message: _WithVectors, field: str, scope: Scope) -> BlockVector | None:
    if not _given(message, field):
        return None
    vector: hyfdca_pb2.BlockVector = getattr(message, field)
    return feature_vector_from_proto(vector, scope, field)


def _figures(message: _WithVectors, field: str, scope: Scope) -> Vector | None:
    if not _given(message, field):
        return None
    vector: vectors_pb2.Vector = getattr(message, field)
    return figures_from_proto(vector, scope, field)
