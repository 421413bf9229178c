"""The messages of HyFDCA with corrective steps as bytes.

Every reader checks a message against the `Scope` of its client, and raises `InvalidInput` with the name of the wrong
field.
"""

from collections.abc import Collection, Sequence
from dataclasses import asdict

from fenchel.v1 import corrective_pb2, hyfdca_pb2, vectors_pb2
from fenchel_common.algorithms.corrective.messages import (
    Anchor,
    DualResult,
    DualTask,
    Objectives,
    PrimalChoices,
    PrimalResult,
    PrimalTask,
    Products,
    RoundChoices,
    RoundStart,
)
from fenchel_common.algorithms.dual import PRODUCT_FORMAT
from fenchel_common.blocks import BlockVector
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.vectors import Vector
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId
from fenchel_common.scoresums import ScoreFigures
from fenchel_common.wire.parsing import Body, parsed_message
from fenchel_common.wire.records import positions_from_bytes, positions_to_bytes
from fenchel_common.wire.scope import (
    Scope,
    feature_vector_from_proto,
    finite_number,
    numbers_from_proto,
    numbers_to_proto,
    optional_vector_to_proto,
    sample_vector_from_proto,
)
from fenchel_common.wire.scorefigures import score_figures_from_proto, score_figures_to_proto

DIGEST_BYTES = 32


def product_task_to_bytes(start: RoundStart) -> bytes:
    message = corrective_pb2.CorrectiveProductTask(round_start=_round_start_to_proto(start))
    return message.SerializeToString(deterministic=True)


def product_task_from_bytes(data: bytes, scope: Scope) -> RoundStart:
    message = parsed_message(corrective_pb2.CorrectiveProductTask, data)
    return _round_start_from_proto(message.round_start, scope)


def product_result_to_bytes(products: Products | None) -> bytes:
    """The products, or None from a client that does not have the memory that the task continues with."""
    message = corrective_pb2.CorrectiveProductResult(lost=products is None)
    if products is not None:
        message = corrective_pb2.CorrectiveProductResult(
            point=optional_vector_to_proto(products.point),
            vertex=optional_vector_to_proto(products.vertex),
            gram=numbers_to_proto(products.gram),
        )
    return message.SerializeToString(deterministic=True)


def product_result_from_bytes(data: Body, scope: Scope) -> Products | None:
    message = parsed_message(corrective_pb2.CorrectiveProductResult, data)
    if message.lost:
        return None
    products = _products_from_proto(message, scope)
    if products is None:
        raise InvalidInput("gram: missing")
    return products


def dual_task_to_bytes(task: DualTask) -> bytes:
    products = task.products
    return corrective_pb2.CorrectiveDualTask(
        round_start=None if task.round_start is None else _round_start_to_proto(task.round_start),
        norms=optional_vector_to_proto(task.norms),
        point=None if products is None else optional_vector_to_proto(products.point),
        vertex=None if products is None else optional_vector_to_proto(products.vertex),
        gram=None if products is None else numbers_to_proto(products.gram),
    ).SerializeToString(deterministic=True)


def dual_task_from_bytes(data: bytes, scope: Scope) -> DualTask:
    message = parsed_message(corrective_pb2.CorrectiveDualTask, data)
    return DualTask(
        round_start=_round_start_from_proto(message.round_start, scope) if message.HasField("round_start") else None,
        norms=_samples(message, "norms", scope, (PRODUCT_FORMAT,)),
        products=_products_from_proto(message, scope),
    )


def dual_result_to_bytes(result: DualResult | None) -> bytes:
    """The result, or None from a client that does not have the memory that the task continues with."""
    message = corrective_pb2.CorrectiveDualResult(lost=result is None)
    if result is not None:
        message = corrective_pb2.CorrectiveDualResult(
            point=optional_vector_to_proto(result.point),
            figures=numbers_to_proto(result.figures),
            alpha=optional_vector_to_proto(result.alpha),
            weights=optional_vector_to_proto(result.weights),
            combination=result.combination,
            vertex=optional_vector_to_proto(result.vertex),
        )
    return message.SerializeToString(deterministic=True)


def dual_result_from_bytes(data: Body, scope: Scope) -> DualResult | None:
    message = parsed_message(corrective_pb2.CorrectiveDualResult, data)
    if message.lost:
        return None
    if not message.HasField("figures"):
        raise InvalidInput("figures: missing")
    if len(message.combination) != DIGEST_BYTES:
        raise InvalidInput(f"combination: must have {DIGEST_BYTES} bytes")
    return DualResult(
        point=_samples(message, "point", scope, (scope.alpha_format,)),
        figures=numbers_from_proto(message.figures, scope, "figures"),
        alpha=_samples(message, "alpha", scope, (scope.alpha_format,)),
        weights=_features(message, "weights", scope),
        combination=message.combination,
        vertex=_samples(message, "vertex", scope, (scope.alpha_format,)),
    )


def primal_task_to_bytes(task: PrimalTask) -> bytes:
    return corrective_pb2.CorrectivePrimalTask(
        point=optional_vector_to_proto(task.point),
        figures=numbers_to_proto(task.figures),
        vertex=optional_vector_to_proto(task.vertex),
    ).SerializeToString(deterministic=True)


def primal_task_from_bytes(data: bytes, scope: Scope) -> PrimalTask:
    message = parsed_message(corrective_pb2.CorrectivePrimalTask, data)
    if not message.HasField("figures"):
        raise InvalidInput("figures: missing")
    return PrimalTask(
        point=_samples(message, "point", scope, (scope.alpha_format,)),
        figures=numbers_from_proto(message.figures, scope, "figures"),
        vertex=_samples(message, "vertex", scope, (scope.alpha_format,)),
    )


def primal_result_to_bytes(result: PrimalResult) -> bytes:
    told = result.objectives
    return corrective_pb2.CorrectivePrimalResult(
        point=optional_vector_to_proto(result.point),
        vertex=optional_vector_to_proto(result.vertex),
        conjugates_and_products=numbers_to_proto(result.conjugates_and_products),
        model=optional_vector_to_proto(result.model),
        objectives=None if told is None else objectives_to_proto(told),
        accepted=result.accepted,
        scores=numbers_to_proto(result.scores),
    ).SerializeToString(deterministic=True)


def primal_result_from_bytes(data: Body, scope: Scope) -> PrimalResult:
    message = parsed_message(corrective_pb2.CorrectivePrimalResult, data)
    return PrimalResult(
        point=_features(message, "point", scope),
        vertex=_features(message, "vertex", scope),
        conjugates_and_products=_numbers(message, "conjugates_and_products", scope),
        model=_features(message, "model", scope),
        objectives=objectives_from_proto(message.objectives) if message.HasField("objectives") else None,
        accepted=message.accepted,
        scores=_numbers(message, "scores", scope),
    )


def measured_task_to_bytes(scores: Vector | None) -> bytes:
    """The totals of the parties' sums of scores; None for a problem whose model is not measured."""
    message = corrective_pb2.CorrectiveMeasuredTask(scores=numbers_to_proto(scores))
    return message.SerializeToString(deterministic=True)


def measured_task_from_bytes(data: bytes, scope: Scope) -> Vector | None:
    return _numbers(parsed_message(corrective_pb2.CorrectiveMeasuredTask, data), "scores", scope)


def measured_result_to_bytes(figures: ScoreFigures | None) -> bytes:
    message = corrective_pb2.CorrectiveMeasuredResult(figures=score_figures_to_proto(figures))
    return message.SerializeToString(deterministic=True)


def measured_result_from_bytes(data: Body) -> ScoreFigures | None:
    message = parsed_message(corrective_pb2.CorrectiveMeasuredResult, data)
    return score_figures_from_proto(message.figures, "figures") if message.HasField("figures") else None


def model_to_bytes(weights: BlockVector | None) -> bytes:
    return corrective_pb2.CorrectiveModel(weights=optional_vector_to_proto(weights)).SerializeToString(
        deterministic=True
    )


def model_from_bytes(data: bytes, scope: Scope) -> BlockVector | None:
    return _features(parsed_message(corrective_pb2.CorrectiveModel, data), "weights", scope)


def round_choices_to_bytes(choices: RoundChoices, clients: Sequence[ClientId]) -> bytes:
    """The choices of the server for a round; `clients` are the parties in roster order."""
    message = corrective_pb2.CorrectiveRoundChoices(
        participants=positions_to_bytes(choices.participants, clients),
        collapse=choices.collapse,
        closing=choices.closing,
        live_samples=choices.live_samples,
        leg=choices.leg,
    )
    return message.SerializeToString(deterministic=True)


def round_choices_from_bytes(data: bytes, clients: Sequence[ClientId]) -> RoundChoices:
    message = parsed_message(corrective_pb2.CorrectiveRoundChoices, data)
    if message.HasField("pairs"):
        raise InvalidInput("pairs: only a run of one problem, with all parties, goes on with pairs of points")
    return RoundChoices(
        participants=positions_from_bytes(message.participants, clients, "participants"),
        collapse=message.collapse,
        closing=message.closing,
        live_samples=message.live_samples,
        leg=message.leg,
    )


def primal_choices_to_bytes(choices: PrimalChoices) -> bytes:
    message = corrective_pb2.CorrectivePrimalChoices(accepted=choices.accepted, reported=choices.reported)
    return message.SerializeToString(deterministic=True)


def primal_choices_from_bytes(data: bytes) -> PrimalChoices:
    message = parsed_message(corrective_pb2.CorrectivePrimalChoices, data)
    return PrimalChoices(message.accepted, message.reported)


def measured_choices_to_bytes(value: float | None) -> bytes:
    """The metric of a model on the samples of a fold; empty bytes for None."""
    if value is None:
        return b""
    return corrective_pb2.CorrectiveMeasuredChoices(value=value).SerializeToString(deterministic=True)


def measured_choices_from_bytes(data: bytes) -> float | None:
    if not data:
        return None
    return finite_number(parsed_message(corrective_pb2.CorrectiveMeasuredChoices, data).value, "record: value")


def _round_start_to_proto(start: RoundStart) -> corrective_pb2.CorrectiveRoundStart:
    return corrective_pb2.CorrectiveRoundStart(
        restored=None if start.restored is None else _anchor_to_proto(start.restored),
        point=optional_vector_to_proto(start.point),
        vertex=optional_vector_to_proto(start.vertex),
        conjugates_and_products=numbers_to_proto(start.conjugates_and_products),
    )


def _round_start_from_proto(message: corrective_pb2.CorrectiveRoundStart, scope: Scope) -> RoundStart:
    return RoundStart(
        restored=_anchor_from_proto(message.restored, scope) if message.HasField("restored") else None,
        point=_features(message, "point", scope),
        vertex=_features(message, "vertex", scope),
        conjugates_and_products=_numbers(message, "conjugates_and_products", scope),
    )


def _anchor_to_proto(anchor: Anchor) -> corrective_pb2.CorrectiveAnchor:
    return corrective_pb2.CorrectiveAnchor(
        alpha=optional_vector_to_proto(anchor.alpha),
        weights=optional_vector_to_proto(anchor.weights),
        model=optional_vector_to_proto(anchor.model),
    )


def _anchor_from_proto(message: corrective_pb2.CorrectiveAnchor, scope: Scope) -> Anchor:
    return Anchor(
        alpha=_samples(message, "alpha", scope, (scope.alpha_format,)),
        weights=_features(message, "weights", scope),
        model=_features(message, "model", scope),
    )


def objectives_to_proto(objectives: Objectives) -> corrective_pb2.CorrectiveObjectives:
    return corrective_pb2.CorrectiveObjectives(**asdict(objectives))


def objectives_from_proto(message: corrective_pb2.CorrectiveObjectives) -> Objectives:
    names = ("primal", "dual", "accuracy", "squared_norm", "row_norm", "product_error")
    return Objectives(**{name: finite_number(getattr(message, name), f"objectives.{name}") for name in names})


_WithVectors = (
    corrective_pb2.CorrectiveAnchor
    | corrective_pb2.CorrectiveRoundStart
    | corrective_pb2.CorrectiveProductResult
    | corrective_pb2.CorrectiveDualTask
    | corrective_pb2.CorrectiveDualResult
    | corrective_pb2.CorrectivePrimalTask
    | corrective_pb2.CorrectivePrimalResult
    | corrective_pb2.CorrectiveMeasuredTask
    | corrective_pb2.CorrectiveModel
)


def _given(message: _WithVectors, field: str) -> bool:
    return any(present.name == field for present, _ in message.ListFields())


def _products_from_proto(
    message: corrective_pb2.CorrectiveProductResult | corrective_pb2.CorrectiveDualTask, scope: Scope
) -> Products | None:
    """The products in a message; None if it has none."""
    if not message.HasField("gram"):
        return None
    return Products(
        point=_samples(message, "point", scope, scope.product_formats),
        vertex=_samples(message, "vertex", scope, scope.product_formats),
        gram=numbers_from_proto(message.gram, scope, "gram"),
    )


def _samples(message: _WithVectors, field: str, scope: Scope, formats: Collection[VectorFormat]) -> BlockVector | None:
    if not _given(message, field):
        return None
    vector: hyfdca_pb2.BlockVector = getattr(message, field)
    return sample_vector_from_proto(vector, scope, formats, field)


def _features(message: _WithVectors, field: str, scope: Scope) -> BlockVector | None:
    if not _given(message, field):
        return None
    vector: hyfdca_pb2.BlockVector = getattr(message, field)
    return feature_vector_from_proto(vector, scope, field)


def _numbers(message: _WithVectors, field: str, scope: Scope) -> Vector | None:
    if not _given(message, field):
        return None
    vector: vectors_pb2.Vector = getattr(message, field)
    return numbers_from_proto(vector, scope, field)
