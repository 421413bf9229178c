"""The messages of corrective HyFDCA: what is sent arrives, and what nobody would send is refused by field."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fenchel.v1 import corrective_pb2 as pb
from fenchel_common.algorithms.corrective.messages import (
    FIGURE_COUNT,
    POINT_PRODUCT_FORMAT,
    Anchor,
    DualResult,
    DualTask,
    Objectives,
    PrimalResult,
    PrimalTask,
    Products,
    RoundStart,
)
from fenchel_common.algorithms.dual import ALPHA_FORMAT, PRODUCT_FORMAT
from fenchel_common.blocks import BlockVector
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import PlainCipher, Vector
from fenchel_common.errors import FenchelError, InvalidInput
from fenchel_common.privacy import Privacy
from fenchel_common.wire import corrective as wire
from fenchel_common.wire.scope import MAXIMUM_NUMBERS, Scope
from support.keys import cipher, run_key
from support.listed import add_numbers, drop_last

KEY_BITS = 2048
IN_CLEAR = RunKey.in_clear(KEY_BITS)
CIPHER = PlainCipher(KEY_BITS)
SLOTS = CIPHER.slots
BLOCKS, FEATURE_BLOCKS = {2: SLOTS, 5: 4, 9: 1}, {0: 3, 3: SLOTS}
SCOPE = Scope(key=IN_CLEAR, feature_key=IN_CLEAR, slots=SLOTS, blocks=BLOCKS, feature_blocks=FEATURE_BLOCKS)


def blocks(ids: tuple[int, ...], vector_format: VectorFormat = PRODUCT_FORMAT) -> BlockVector:
    return BlockVector(ids, CIPHER.encrypt(np.linspace(0.0, 1.0, len(ids) * SLOTS), vector_format))


def numbers(count: int) -> Vector:
    return CIPHER.encrypt(np.linspace(-1.0, 1.0, count), PRODUCT_FORMAT)


def round_start(*, collapse: bool = False) -> RoundStart:
    return RoundStart(
        memory_round=7,
        anchor_round=6,
        collapse=collapse,
        restored=Anchor(blocks((2, 9), ALPHA_FORMAT), blocks((0,)), blocks((0, 3))) if collapse else None,
        live_blocks=(2, 5),
        report_blocks=(5,),
        feature_blocks=(3,),
        point=None if collapse else blocks((0, 3)),
        vertex=None if collapse else blocks((0, 3)),
        conjugates_and_products=None if collapse else numbers(2),
    )


def products() -> Products:
    return Products(blocks((2, 5), POINT_PRODUCT_FORMAT), blocks((2, 5), POINT_PRODUCT_FORMAT), numbers(12))


def dual_task(*, collapse: bool = False) -> DualTask:
    return DualTask(
        round_start=round_start(collapse=collapse),
        round_id=8,
        norms=blocks((2,)),
        products=products(),
        divisors=(2, 3),
        scale=4.5,
        certify_only=True,
    )


def dual_result() -> DualResult:
    return DualResult(
        blocks((2, 5), ALPHA_FORMAT), numbers(FIGURE_COUNT), blocks((5,), ALPHA_FORMAT), blocks((3,)), bytes(range(32))
    )


def primal_task() -> PrimalTask:
    return PrimalTask(8, blocks((2, 5), ALPHA_FORMAT), numbers(FIGURE_COUNT), relative=True, vertex=False, report=True)


def primal_result() -> PrimalResult:
    told = Objectives(primal=0.5, dual=0.25, accuracy=0.75, squared_norm=2.0, row_norm=1.0)
    return PrimalResult(blocks((0, 3)), blocks((0, 3)), numbers(2), blocks((3,)), told, accepted=True)


UNSOLVED = PrimalResult(None, None, None, None, None, accepted=False)

KINDS: list[tuple[Any, Callable[[Any], bytes], Callable[..., Any]]] = [
    (round_start(), wire.product_task_to_bytes, wire.product_task_from_bytes),
    (round_start(collapse=True), wire.product_task_to_bytes, wire.product_task_from_bytes),
    (products(), wire.product_result_to_bytes, wire.product_result_from_bytes),
    (None, wire.product_result_to_bytes, wire.product_result_from_bytes),
    (Products(None, None, numbers(2)), wire.product_result_to_bytes, wire.product_result_from_bytes),
    (dual_task(), wire.dual_task_to_bytes, wire.dual_task_from_bytes),
    (DualTask(None, 3, None, None, (1,), 1.0), wire.dual_task_to_bytes, wire.dual_task_from_bytes),
    (dual_result(), wire.dual_result_to_bytes, wire.dual_result_from_bytes),
    (None, wire.dual_result_to_bytes, wire.dual_result_from_bytes),
    (primal_task(), wire.primal_task_to_bytes, wire.primal_task_from_bytes),
    (primal_result(), wire.primal_result_to_bytes, wire.primal_result_from_bytes),
    (UNSOLVED, wire.primal_result_to_bytes, wire.primal_result_from_bytes),
    (blocks((0, 3)), wire.model_to_bytes, wire.model_from_bytes),
    (None, wire.model_to_bytes, wire.model_from_bytes),
]


@pytest.mark.parametrize(("value", "write", "read"), KINDS)
def test_what_is_sent_arrives(value: Any, write: Callable[[Any], bytes], read: Callable[..., Any]) -> None:
    arrived = read(write(value), SCOPE)
    assert type(arrived) is type(value)
    assert write(arrived) == write(value)


def test_a_task_arrives_value_by_value() -> None:
    task = wire.dual_task_from_bytes(wire.dual_task_to_bytes(dual_task()), SCOPE)
    assert task.round_start is not None
    told = task.round_start
    assert (told.memory_round, told.anchor_round, told.collapse, told.restored) == (7, 6, False, None)
    assert (told.live_blocks, told.report_blocks, told.feature_blocks) == ((2, 5), (5,), (3,))
    assert (task.round_id, task.divisors, task.scale, task.certify_only) == (8, (2, 3), 4.5, True)
    assert task.products is not None
    assert task.products.point is not None
    assert task.products.point.blocks == (2, 5)
    np.testing.assert_array_equal(CIPHER.decrypt(task.products.gram), CIPHER.decrypt(numbers(12)))


def test_the_objectives_arrive_bit_by_bit() -> None:
    arrived = wire.primal_result_from_bytes(wire.primal_result_to_bytes(primal_result()), SCOPE)
    assert arrived.objectives == primal_result().objectives
    assert arrived.accepted


def spoilt(kind: type[Any], data: bytes, change: Callable[[Any], None]) -> bytes:
    message = kind.FromString(data)
    change(message)
    return bytes(message.SerializeToString())


def clear(message: Any, field: str) -> None:
    message.ClearField(field)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda m: setattr(m, "scale", 0.5), "scale"),
        (lambda m: setattr(m, "scale", float("inf")), "scale"),
        (lambda m: setattr(m, "scale", float("nan")), "scale"),
        (lambda m: setattr(m, "divisors", bytes(4)), "divisors"),
        (lambda m: add_numbers(m.point, "blocks", 3), "point.blocks"),
        (lambda m: drop_last(m.point, "blocks"), "point.vector"),
        (lambda m: setattr(m.vertex.vector.plain.format, "bound", 2.0**21), "vertex.vector"),
        (lambda m: setattr(m.norms.vector.plain.format, "bound", 2.0), "norms.vector"),
        (lambda m: setattr(m.gram.plain, "values", b""), "gram"),
        (lambda m: setattr(m.gram.plain, "values", bytes(8 * MAXIMUM_NUMBERS + 8)), "gram"),
        (lambda m: add_numbers(m.round_start, "live_blocks", 1), "round_start.live_blocks"),
        (lambda m: add_numbers(m.round_start, "live_blocks", 5), "round_start.live_blocks"),
        (lambda m: clear(m.round_start, "live_blocks"), "round_start.live_blocks"),
        (lambda m: add_numbers(m.round_start, "report_blocks", 1), "round_start.report_blocks"),
        (lambda m: add_numbers(m.round_start, "report_blocks", 9), "round_start.live_blocks"),
        (lambda m: add_numbers(m.round_start, "feature_blocks", 5), "round_start.feature_blocks"),
        (lambda m: setattr(m.round_start, "collapse", False), "round_start.restored"),
        (lambda m: add_numbers(m.round_start.restored.alpha, "blocks", 5), "alpha"),
        (lambda m: setattr(m.round_start.restored.weights.vector.plain.format, "bound", 2.0), "weights"),
    ],
)
def test_a_task_that_nobody_would_send_is_refused_by_field(change: Callable[[Any], None], field: str) -> None:
    body = spoilt(pb.CorrectiveDualTask, wire.dual_task_to_bytes(dual_task(collapse=True)), change)
    with pytest.raises(InvalidInput) as caught:
        wire.dual_task_from_bytes(body, SCOPE)
    assert str(caught.value).startswith(field)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda m: clear(m, "figures"), "figures"),
        (lambda m: clear(m, "combination"), "combination"),
        (lambda m: setattr(m, "combination", bytes(33)), "combination"),
        (lambda m: setattr(m.point.vector.plain.format, "bound", 2.0**21), "point.vector"),
        (lambda m: add_numbers(m.alpha, "blocks", 2), "alpha.blocks"),
        (lambda m: add_numbers(m.weights, "blocks", 9), "weights.blocks"),
        (lambda m: m.weights.vector.Clear(), "this run is in clear"),
    ],
)
def test_a_dual_result_that_nobody_would_send_is_refused_by_field(change: Callable[[Any], None], field: str) -> None:
    body = spoilt(pb.CorrectiveDualResult, wire.dual_result_to_bytes(dual_result()), change)
    with pytest.raises(FenchelError) as caught:
        wire.dual_result_from_bytes(body, SCOPE)
    assert str(caught.value).startswith(field)


@pytest.mark.parametrize("name", ["primal", "dual", "accuracy", "squared_norm", "row_norm"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_an_objective_that_is_no_number_is_refused_by_name(name: str, value: float) -> None:
    body = wire.primal_result_to_bytes(primal_result())
    body = spoilt(pb.CorrectivePrimalResult, body, lambda m: setattr(m.objectives, name, value))
    with pytest.raises(InvalidInput, match=f"objectives.{name}"):
        wire.primal_result_from_bytes(body, SCOPE)


def test_a_primal_task_without_figures_is_refused() -> None:
    body = spoilt(pb.CorrectivePrimalTask, wire.primal_task_to_bytes(primal_task()), lambda m: clear(m, "figures"))
    with pytest.raises(InvalidInput, match="figures: missing"):
        wire.primal_task_from_bytes(body, SCOPE)


@pytest.mark.parametrize(
    "read",
    [
        wire.product_task_from_bytes,
        wire.product_result_from_bytes,
        wire.dual_task_from_bytes,
        wire.dual_result_from_bytes,
        wire.primal_task_from_bytes,
        wire.primal_result_from_bytes,
        wire.model_from_bytes,
    ],
)
def test_bytes_that_are_no_message_are_refused(read: Callable[..., Any]) -> None:
    with pytest.raises(InvalidInput, match="cut or altered"):
        read(b"\xff\xff\xff", SCOPE)


@pytest.mark.parametrize(("level", "accepted"), [(Privacy.SEALED, "encrypted"), (Privacy.PAPER, "plain")])
def test_vectors_by_feature_must_be_of_the_level(level: Privacy, accepted: str) -> None:
    """In a sealed run a model in clear is refused, in any other an encrypted one."""
    key = run_key()
    scope = Scope(key, key.by_feature(level), cipher().slots, BLOCKS, FEATURE_BLOCKS)
    values = np.linspace(0.0, 1.0, cipher().slots)
    made: dict[str, Vector] = {
        "encrypted": cipher().encrypt(values, PRODUCT_FORMAT),
        "plain": PlainCipher(key.bits).encrypt(values, PRODUCT_FORMAT),
    }
    for kind, vector in made.items():
        body = wire.model_to_bytes(BlockVector((0,), vector))
        if kind == accepted:
            arrived = wire.model_from_bytes(body, scope)
            assert arrived is not None
            assert type(arrived.vector) is type(vector)
        else:
            with pytest.raises(FenchelError, match="the vector is not"):
                wire.model_from_bytes(body, scope)
