"""The messages of corrective HyFDCA while some of the parties take part, as bytes.

The readers raise `InvalidInput` with the name of the wrong field. Each expects what the receiver's scope allows.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from fenchel.v1 import corrective_pb2, hyfdca_pb2, vectors_pb2
from fenchel.v1 import partial_pb2 as pb
from fenchel_common.algorithms.corrective.messages import POINT_PRODUCT_FORMAT
from fenchel_common.algorithms.dual import PRODUCT_FORMAT
from fenchel_common.algorithms.partial.messages import (
    DualResult,
    DualTask,
    Facts,
    Models,
    OfPair,
    PrimalResult,
    PrimalTask,
    ProductResult,
    RoundChoices,
    Start,
)
from fenchel_common.blocks import BlockVector
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId
from fenchel_common.wire.corrective import DIGEST_BYTES, objectives_from_proto, objectives_to_proto
from fenchel_common.wire.parsing import Body, parsed_message
from fenchel_common.wire.records import positions_from_bytes, positions_to_bytes
from fenchel_common.wire.scope import (
    Scope,
    feature_vector_from_proto,
    numbers_from_proto,
    numbers_to_proto,
    optional_vector_to_proto,
    sample_vector_from_proto,
)

Reads = Callable[[hyfdca_pb2.BlockVector, str], BlockVector]
_Pair = pb.PartialValues | pb.PartialModels | pb.PartialPredictions | pb.PartialShare | pb.PartialProducts
P = TypeVar("P", bound=_Pair)


def task_to_bytes(facts: Facts) -> bytes:
    return pb.PartialTask(facts=_facts_to_proto(facts)).SerializeToString(deterministic=True)


def task_from_bytes(data: bytes, scope: Scope) -> Facts:
    return _facts_from_proto(parsed_message(pb.PartialTask, data).facts, scope)


def catch_up_result_to_bytes(shares: Mapping[int, OfPair] | None) -> bytes:
    """The shares, or None from a client that lacks sums that it needs; the same holds for the other results."""
    given = [] if shares is None else _pairs_to_proto(pb.PartialShare, shares)
    return pb.PartialCatchUpResult(lost=shares is None, shares=given).SerializeToString(deterministic=True)


def catch_up_result_from_bytes(data: Body, scope: Scope) -> dict[int, OfPair] | None:
    message = parsed_message(pb.PartialCatchUpResult, data)
    return None if message.lost else _pairs_from_proto(message.shares, _features(scope), "shares")


def product_result_to_bytes(result: ProductResult | None) -> bytes:
    if result is None:
        return pb.PartialProductResult(lost=True).SerializeToString(deterministic=True)
    measured = result.measured
    return pb.PartialProductResult(
        products=_pairs_to_proto(pb.PartialProducts, result.products),
        gram=numbers_to_proto(result.gram),
        mean=None if measured is None else optional_vector_to_proto(measured.point),
        anchor=None if measured is None else optional_vector_to_proto(measured.vertex),
    ).SerializeToString(deterministic=True)


def product_result_from_bytes(data: Body, scope: Scope) -> ProductResult | None:
    message = parsed_message(pb.PartialProductResult, data)
    if message.lost:
        return None
    return ProductResult(
        products=_pairs_from_proto(message.products, _products(scope), "products"),
        gram=numbers_from_proto(message.gram, scope, "gram") if message.HasField("gram") else None,
        measured=_measured(message, scope),
    )


def dual_task_to_bytes(task: DualTask) -> bytes:
    return pb.PartialDualTask(
        facts=_facts_to_proto(task.facts),
        norms=optional_vector_to_proto(task.norms),
        mean=None if task.measured is None else optional_vector_to_proto(task.measured.point),
        anchor=None if task.measured is None else optional_vector_to_proto(task.measured.vertex),
    ).SerializeToString(deterministic=True)


def dual_task_from_bytes(data: bytes, scope: Scope) -> DualTask:
    message = parsed_message(pb.PartialDualTask, data)
    return DualTask(
        facts=_facts_from_proto(message.facts, scope),
        norms=_norms(scope)(message.norms, "norms") if message.HasField("norms") else None,
        measured=_measured(message, scope),
    )


def dual_result_to_bytes(result: DualResult | None) -> bytes:
    if result is None:
        return pb.PartialDualResult(lost=True).SerializeToString(deterministic=True)
    return pb.PartialDualResult(
        point=optional_vector_to_proto(result.point),
        vertex=optional_vector_to_proto(result.vertex),
        figures=numbers_to_proto(result.figures),
        combination=result.combination,
        moved=result.moved,
    ).SerializeToString(deterministic=True)


def dual_result_from_bytes(data: Body, scope: Scope) -> DualResult | None:
    message = parsed_message(pb.PartialDualResult, data)
    if message.lost:
        return None
    if len(message.combination) != DIGEST_BYTES:
        raise InvalidInput(f"combination: must have {DIGEST_BYTES} bytes")
    read = _duals(scope)
    return DualResult(
        point=read(message.point, "point") if message.HasField("point") else None,
        vertex=read(message.vertex, "vertex") if message.HasField("vertex") else None,
        figures=numbers_from_proto(message.figures, scope, "figures") if message.HasField("figures") else None,
        combination=message.combination,
        moved=message.moved,
    )


def primal_task_to_bytes(task: PrimalTask) -> bytes:
    return pb.PartialPrimalTask(
        point=optional_vector_to_proto(task.values.point),
        vertex=optional_vector_to_proto(task.values.vertex),
        figures=numbers_to_proto(task.figures),
    ).SerializeToString(deterministic=True)


def primal_task_from_bytes(data: bytes, scope: Scope) -> PrimalTask:
    message = parsed_message(pb.PartialPrimalTask, data)
    read = _duals(scope)
    values = OfPair(
        point=read(message.point, "point") if message.HasField("point") else None,
        vertex=read(message.vertex, "vertex") if message.HasField("vertex") else None,
    )
    return PrimalTask(
        values, numbers_from_proto(message.figures, scope, "figures") if message.HasField("figures") else None
    )


def primal_result_to_bytes(result: PrimalResult) -> bytes:
    share = None if result.share is None else _pair_to_proto(pb.PartialShare, 0, result.share)
    return pb.PartialPrimalResult(
        share=share,
        conjugates=numbers_to_proto(result.conjugates),
        model=optional_vector_to_proto(result.model),
        objectives=None if result.objectives is None else objectives_to_proto(result.objectives),
    ).SerializeToString(deterministic=True)


def primal_result_from_bytes(data: Body, scope: Scope) -> PrimalResult:
    message = parsed_message(pb.PartialPrimalResult, data)
    read = _features(scope)
    return PrimalResult(
        share=_pair_from_proto(message.share, read, "share") if message.HasField("share") else None,
        conjugates=numbers_from_proto(message.conjugates, scope, "conjugates")
        if message.HasField("conjugates")
        else None,
        model=read(message.model, "model") if message.HasField("model") else None,
        objectives=objectives_from_proto(message.objectives) if message.HasField("objectives") else None,
    )


def round_choices_to_bytes(choices: RoundChoices, clients: Sequence[ClientId]) -> bytes:
    """The choices of the server for a round; `clients` are the parties in roster order."""
    return pb.PartialRoundChoices(
        participants=positions_to_bytes(choices.participants, clients),
        owners=positions_to_bytes(choices.owners, clients),
        closing=choices.closing,
        live_samples=choices.live_samples,
    ).SerializeToString(deterministic=True)


def round_choices_from_bytes(data: bytes, clients: Sequence[ClientId]) -> RoundChoices:
    message = parsed_message(pb.PartialRoundChoices, data)
    return RoundChoices(
        participants=positions_from_bytes(message.participants, clients, "participants"),
        owners=positions_from_bytes(message.owners, clients, "owners"),
        closing=message.closing,
        live_samples=message.live_samples,
    )


def pairs_round_to_bytes(choices: bytes) -> bytes:
    """The choices for a round of pairs, of which `choices` are the bytes, in a run that had other rounds before."""
    return corrective_pb2.CorrectiveRoundChoices(pairs=choices).SerializeToString(deterministic=True)


def pairs_round_from_bytes(data: bytes) -> bytes | None:
    """What `pairs_round_to_bytes` was given; None for the choices of any other round."""
    message = parsed_message(corrective_pb2.CorrectiveRoundChoices, data)
    return message.pairs if message.HasField("pairs") else None


def product_choices_to_bytes(*, whole: bool) -> bytes:
    return pb.PartialProductChoices(whole=whole).SerializeToString(deterministic=True)


def product_choices_from_bytes(data: bytes) -> bool:
    return parsed_message(pb.PartialProductChoices, data).whole


def primal_choices_to_bytes(*, better: bool) -> bytes:
    return pb.PartialPrimalChoices(better=better).SerializeToString(deterministic=True)


def primal_choices_from_bytes(data: bytes) -> bool:
    return parsed_message(pb.PartialPrimalChoices, data).better


def _facts_to_proto(facts: Facts) -> pb.PartialFacts:
    models = []
    for born, of in facts.models.items():
        message = _pair_to_proto(pb.PartialModels, born, of.models)
        message.conjugates.CopyFrom(_present(numbers_to_proto(of.conjugates)))
        models.append(message)
    return pb.PartialFacts(
        values=_pairs_to_proto(pb.PartialValues, facts.values),
        models=models,
        grams=[pb.PartialGram(round=number, gram=numbers_to_proto(gram)) for number, gram in facts.grams.items()],
        predictions=_pairs_to_proto(pb.PartialPredictions, facts.predictions),
        start=None if facts.start is None else _start_to_proto(facts.start),
    )


def _start_to_proto(start: Start) -> pb.PartialStart:
    return pb.PartialStart(alpha=optional_vector_to_proto(start.alpha), weights=optional_vector_to_proto(start.weights))


def _start_from_proto(message: pb.PartialStart, scope: Scope) -> Start:
    alpha, weights = _duals(scope), _features(scope)
    return Start(
        alpha=alpha(message.alpha, "start.alpha") if message.HasField("alpha") else None,
        weights=weights(message.weights, "start.weights") if message.HasField("weights") else None,
    )


def _facts_from_proto(message: pb.PartialFacts, scope: Scope) -> Facts:
    models: dict[int, Models] = {}
    of_models = _pairs_from_proto(message.models, _features(scope), "models")
    for given in message.models:
        if not given.HasField("conjugates"):
            raise InvalidInput("models.conjugates: missing")
        models[given.born] = Models(
            of_models[given.born], numbers_from_proto(given.conjugates, scope, "models.conjugates")
        )
    grams = {one.round: numbers_from_proto(one.gram, scope, "grams.gram") for one in message.grams}
    return Facts(
        values=_pairs_from_proto(message.values, _duals(scope), "values"),
        models=models,
        grams=grams,
        predictions=_pairs_from_proto(message.predictions, _products(scope), "predictions"),
        start=_start_from_proto(message.start, scope) if message.HasField("start") else None,
    )


def _pairs_to_proto(kind: type[P], pairs: Mapping[int, OfPair]) -> list[P]:
    return [_pair_to_proto(kind, born, of) for born, of in pairs.items()]


def _pair_to_proto(kind: type[P], born: int, of: OfPair) -> P:
    return kind(born=born, point=optional_vector_to_proto(of.point), vertex=optional_vector_to_proto(of.vertex))


def _pairs_from_proto(messages: Iterable[_Pair], read: Reads, field: str) -> dict[int, OfPair]:
    found: dict[int, OfPair] = {}
    for message in messages:
        if message.born in found:
            raise InvalidInput(f"{field}: has a pair twice")
        found[message.born] = _pair_from_proto(message, read, field)
    return found


def _pair_from_proto(message: _Pair, read: Reads, field: str) -> OfPair:
    return OfPair(
        point=read(message.point, f"{field}.point") if message.HasField("point") else None,
        vertex=read(message.vertex, f"{field}.vertex") if message.HasField("vertex") else None,
    )


def _measured(message: pb.PartialProductResult | pb.PartialDualTask, scope: Scope) -> OfPair | None:
    read = _products(scope)
    mean = read(message.mean, "mean") if message.HasField("mean") else None
    anchor = read(message.anchor, "anchor") if message.HasField("anchor") else None
    return None if mean is None and anchor is None else OfPair(mean, anchor)


def _duals(scope: Scope) -> Reads:
    return lambda vector, field: sample_vector_from_proto(vector, scope, (scope.alpha_format,), field)


def _products(scope: Scope) -> Reads:
    return lambda vector, field: sample_vector_from_proto(vector, scope, (POINT_PRODUCT_FORMAT,), field)


def _norms(scope: Scope) -> Reads:
    return lambda vector, field: sample_vector_from_proto(vector, scope, (PRODUCT_FORMAT,), field)


def _features(scope: Scope) -> Reads:
    return lambda vector, field: feature_vector_from_proto(vector, scope, field)


def _present(message: vectors_pb2.Vector | None) -> vectors_pb2.Vector:
    assert message is not None, "the caller has the numbers"
    return message
