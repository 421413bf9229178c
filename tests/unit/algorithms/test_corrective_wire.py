"""The messages of corrective HyFDCA: what is sent arrives, and what nobody would send is refused by field."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fenchel.v1 import corrective_pb2 as pb
from fenchel_client.crypto.plain import PlainCipher
from fenchel_common.algorithms.corrective.messages import (
    FIGURE_COUNT,
    POINT_PRODUCT_FORMAT,
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
from fenchel_common.algorithms.dual import ALPHA_FORMAT, PRODUCT_FORMAT
from fenchel_common.blocks import BlockVector
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import Vector
from fenchel_common.errors import FenchelError, InvalidInput
from fenchel_common.privacy import Privacy
from fenchel_common.wire import corrective as wire
from fenchel_common.wire.arrays import numbers_to_bytes
from fenchel_common.wire.scope import MAXIMUM_NUMBERS, Scope
from support.keys import cipher, run_key, tags
from support.layouts import A, B
from support.listed import add_numbers, drop_last
from support.tagged import decrypted, encrypted

KEY_BITS = 2048
IN_CLEAR = RunKey.in_clear(KEY_BITS)
CIPHER = PlainCipher(KEY_BITS)
SLOTS = CIPHER.slots
BLOCKS, FEATURE_BLOCKS = {2: SLOTS, 5: 4, 9: 1}, {0: 3, 3: SLOTS}
SCOPE = Scope(
    key=IN_CLEAR,
    feature_key=IN_CLEAR,
    slots=SLOTS,
    feature_slots=SLOTS,
    blocks=BLOCKS,
    feature_blocks=FEATURE_BLOCKS,
    product_formats=(POINT_PRODUCT_FORMAT,),
)


def blocks(ids: tuple[int, ...], vector_format: VectorFormat = PRODUCT_FORMAT) -> BlockVector:
    return BlockVector(ids, encrypted(CIPHER, np.linspace(0.0, 1.0, len(ids) * SLOTS), vector_format))


def numbers(count: int) -> Vector:
    return encrypted(CIPHER, np.linspace(-1.0, 1.0, count), PRODUCT_FORMAT)


def round_start(*, collapse: bool = False) -> RoundStart:
    return RoundStart(
        restored=Anchor(blocks((2, 9), ALPHA_FORMAT), blocks((0,)), blocks((0, 3))) if collapse else None,
        point=None if collapse else blocks((0, 3)),
        vertex=None if collapse else blocks((0, 3)),
        conjugates_and_products=None if collapse else numbers(2),
    )


def products() -> Products:
    return Products(blocks((2, 5), POINT_PRODUCT_FORMAT), blocks((2, 5), POINT_PRODUCT_FORMAT), numbers(12))


def dual_task(*, collapse: bool = False) -> DualTask:
    return DualTask(round_start=round_start(collapse=collapse), norms=blocks((2,)), products=products())


def dual_result() -> DualResult:
    return DualResult(
        blocks((2, 5), ALPHA_FORMAT), numbers(FIGURE_COUNT), blocks((5,), ALPHA_FORMAT), blocks((3,)), bytes(range(32))
    )


def primal_task() -> PrimalTask:
    return PrimalTask(blocks((2, 5), ALPHA_FORMAT), numbers(FIGURE_COUNT))


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
    (DualTask(None, None, None), wire.dual_task_to_bytes, wire.dual_task_from_bytes),
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
    assert task.round_start.restored is None
    assert task.products is not None
    assert task.products.point is not None
    assert task.products.point.blocks == (2, 5)
    np.testing.assert_array_equal(decrypted(CIPHER, task.products.gram), decrypted(CIPHER, numbers(12)))


def test_the_objectives_arrive_bit_by_bit() -> None:
    arrived = wire.primal_result_from_bytes(wire.primal_result_to_bytes(primal_result()), SCOPE)
    assert arrived.objectives == primal_result().objectives
    assert arrived.accepted


CHOICES = [
    RoundChoices(frozenset({A, B}), collapse=False, closing=False, live_samples=5),
    RoundChoices(frozenset({B}), collapse=True, closing=True, live_samples=3),
    RoundChoices(frozenset(), collapse=True, closing=False, live_samples=0),
]


@pytest.mark.parametrize("choices", CHOICES)
def test_the_choices_for_a_round_arrive(choices: RoundChoices) -> None:
    assert wire.round_choices_from_bytes(wire.round_choices_to_bytes(choices, (A, B)), (A, B)) == choices


@pytest.mark.parametrize("accepted", [True, False])
@pytest.mark.parametrize("reported", [True, False])
def test_the_outcome_of_a_round_arrives(accepted: bool, reported: bool) -> None:
    choices = PrimalChoices(accepted=accepted, reported=reported)
    assert wire.primal_choices_from_bytes(wire.primal_choices_to_bytes(choices)) == choices


def test_choices_that_name_parties_out_of_order_or_unknown_ones_are_refused() -> None:
    message = pb.CorrectiveRoundChoices()
    for positions in ([1, 0], [0, 0], [2]):
        message.participants = numbers_to_bytes(positions)
        with pytest.raises(InvalidInput, match="participants"):
            wire.round_choices_from_bytes(message.SerializeToString(), (A, B))
    for read in (
        lambda: wire.round_choices_from_bytes(b"\xff\xff", (A, B)),
        lambda: wire.primal_choices_from_bytes(b"\xff"),
    ):
        with pytest.raises(InvalidInput, match="cut or altered"):
            read()


def spoilt(kind: type[Any], data: bytes, change: Callable[[Any], None]) -> bytes:
    message = kind.FromString(data)
    change(message)
    return bytes(message.SerializeToString())


def clear(message: Any, field: str) -> None:
    message.ClearField(field)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda m: add_numbers(m.point, "blocks", 3), "point.blocks"),
        (lambda m: drop_last(m.point, "blocks"), "point.vector"),
        (lambda m: setattr(m.vertex.vector.plain.format, "bound", 2.0**21), "vertex.vector"),
        (lambda m: setattr(m.norms.vector.plain.format, "bound", 2.0), "norms.vector"),
        (lambda m: setattr(m.gram.plain, "values", b""), "gram"),
        (lambda m: setattr(m.gram.plain, "values", bytes(8 * MAXIMUM_NUMBERS + 8)), "gram"),
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
    scope = Scope(key, key.by_feature(level), cipher().slots, cipher().slots, BLOCKS, FEATURE_BLOCKS)
    values = np.linspace(0.0, 1.0, cipher().slots)
    made: dict[str, Vector] = {
        "encrypted": encrypted(cipher(), values),
        "plain": encrypted(PlainCipher(key.bits, tags()), values),
    }
    for kind, vector in made.items():
        body = wire.model_to_bytes(BlockVector((0,), vector))
        if kind == accepted:
            arrived = wire.model_from_bytes(body, scope)
            assert arrived is not None
            assert type(arrived.vector) is type(vector)
        else:
            with pytest.raises(FenchelError, match=r"the vector is (not|encrypted)"):
                wire.model_from_bytes(body, scope)
