"""The messages of corrective HyFDCA: what is sent arrives, and what nobody would send is refused by field."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fenchel.v1 import corrective_pb2 as pb
from fenchel_common.algorithms.corrective import (
    MEMORY,
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
from fenchel_common.algorithms.hyfdca import ALPHA_FORMAT, PRODUCT_FORMAT, BlockVector, CertificateShare
from fenchel_common.changes import ArrayChange
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.vectors import PlainCipher
from fenchel_common.errors import InvalidInput, StateDamaged
from fenchel_common.wire import corrective as wire
from fenchel_common.wire.corrective_snapshot import snapshot_from_bytes
from fenchel_common.wire.hyfdca import Scope

KEY_BITS = 2048
CIPHER = PlainCipher(KEY_BITS)
SLOTS = CIPHER.slots
SCOPE = Scope(key=KEY_BITS, slots=SLOTS, features=3, blocks={2: SLOTS, 5: 4, 9: 1})
SHARE = np.array([0.5, -0.0, 3.0])


def blocks(ids: tuple[int, ...], vector_format: VectorFormat) -> BlockVector:
    return BlockVector(ids, CIPHER.encrypt(np.linspace(0.0, 1.0, len(ids) * SLOTS), vector_format))


def opening() -> Opening:
    memory = Memory(
        blocks((2,), ALPHA_FORMAT),
        blocks((5, 9), ALPHA_FORMAT),
        (RememberedModel(3, SHARE, (2, 5), blocks((2, 5), PRODUCT_FORMAT)), RememberedModel(4, SHARE, (9,), None)),
    )
    change = ArrayChange(3, None, SHARE)
    return Opening(memory, change, 6, Combination(7, 0.25, 0.5, {3: 0.125, 4: 0.125}), (2, 9))


def dual_task() -> DualTask:
    return DualTask(
        opening=opening(),
        round_id=7,
        norms=blocks((2,), PRODUCT_FORMAT),
        products=blocks((5, 9), PRODUCT_FORMAT),
        blocks=(5, 9),
        divisors=(2, 3),
        scale=4.5,
        models=(3, 4),
        gram=np.arange(9.0).reshape(3, 3),
        certificate_blocks=(9,),
    )


def product_task() -> bytes:
    return wire.product_task_to_bytes(ProductTask(opening(), (5,)))


def product_result() -> bytes:
    opened = Opened(SHARE, -1.5, blocks((2, 9), ALPHA_FORMAT))
    return wire.product_result_to_bytes(ProductResult(opened, blocks((5,), PRODUCT_FORMAT)))


def dual_result() -> bytes:
    share = CertificateShare(4, 1.5, -2.5, 3)
    return wire.dual_result_to_bytes(DualResult(Opened(SHARE, 0.0, None), blocks((5, 9), ALPHA_FORMAT), share))


def primal_task() -> bytes:
    return wire.primal_task_to_bytes(PrimalTask(6, (3, 4, 7), blocks((5,), ALPHA_FORMAT), (9,), vertex=True))


def primal_result() -> bytes:
    return wire.primal_result_to_bytes(PrimalResult(Measured(SHARE, -1.0), Measured(2.0 * SHARE, -2.0)))


@pytest.mark.parametrize(
    ("sent", "read", "write"),
    [
        (product_task(), wire.product_task_from_bytes, wire.product_task_to_bytes),
        (product_result(), wire.product_result_from_bytes, wire.product_result_to_bytes),
        (wire.dual_task_to_bytes(dual_task()), wire.dual_task_from_bytes, wire.dual_task_to_bytes),
        (dual_result(), wire.dual_result_from_bytes, wire.dual_result_to_bytes),
        (primal_task(), wire.primal_task_from_bytes, wire.primal_task_to_bytes),
        (primal_result(), wire.primal_result_from_bytes, wire.primal_result_to_bytes),
    ],
)
def test_what_is_sent_arrives(sent: bytes, read: Callable[..., Any], write: Callable[[Any], bytes]) -> None:
    assert write(read(sent, SCOPE)) == sent


def test_a_task_arrives_value_by_value() -> None:
    task = wire.dual_task_from_bytes(wire.dual_task_to_bytes(dual_task()), SCOPE)
    assert task.opening is not None
    assert task.opening.combination == Combination(7, 0.25, 0.5, {3: 0.125, 4: 0.125})
    assert (task.round_id, task.blocks, task.divisors, task.scale) == (7, (5, 9), (2, 3), 4.5)
    np.testing.assert_array_equal(task.gram, np.arange(9.0).reshape(3, 3))


def spoilt_dual(change: Callable[[pb.CorrectiveDualTask], None]) -> bytes:
    message = pb.CorrectiveDualTask.FromString(wire.dual_task_to_bytes(dual_task()))
    change(message)
    return message.SerializeToString()


def clear(message: Any, field: str) -> None:
    message.ClearField(field)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda m: clear(m, "gram"), "gram"),
        (lambda m: setattr(m, "gram", np.full(9, np.nan).tobytes()), "gram"),
        (lambda m: setattr(m, "scale", 0.5), "scale"),
        (lambda m: setattr(m, "scale", float("inf")), "scale"),
        (lambda m: clear(m, "divisors"), "divisors"),
        (lambda m: m.divisors.__setitem__(0, 0), "divisors"),
        (lambda m: m.blocks.append(3), "blocks"),
        (lambda m: m.models.append(4), "models"),
        (lambda m: m.models.extend(range(10, 10 + MEMORY)), "models"),
        (lambda m: m.certificate_blocks.append(1), "certificate_blocks"),
        (lambda m: m.opening.report_blocks.append(1), "opening.report_blocks"),
        (lambda m: setattr(m.opening.combination, "anchor", 0.5), "combination"),
        (lambda m: setattr(m.opening.combination, "point", -0.5), "combination"),
        (lambda m: setattr(m.opening.combination, "anchor", float("nan")), "combination"),
        (lambda m: setattr(m.opening.memory.models[0], "weights", b"12345678"), "memory.models.weights"),
        (lambda m: setattr(m.opening.memory.models[0], "id", 9), "memory.models"),
        (lambda m: m.opening.memory.models[0].blocks.append(77), "memory.models.blocks"),
        (lambda m: m.opening.memory.alpha.blocks.append(5), "memory.alpha"),
    ],
)
def test_a_task_that_nobody_would_send_is_refused_by_field(change: Callable[[Any], None], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        wire.dual_task_from_bytes(spoilt_dual(change), SCOPE)
    assert str(caught.value).startswith(field)


@pytest.mark.parametrize("share", [b"", b"1234567", np.array([1.0, np.inf, 0.0]).tobytes(), np.zeros(4).tobytes()])
def test_a_share_of_another_shape_or_not_finite_is_refused(share: bytes) -> None:
    message = pb.CorrectivePrimalResult.FromString(primal_result())
    message.vertex.share = share
    with pytest.raises(InvalidInput, match=r"vertex\.share"):
        wire.primal_result_from_bytes(message.SerializeToString(), SCOPE)


def test_a_sum_of_conjugates_that_is_infinite_is_refused() -> None:
    message = pb.CorrectiveProductResult.FromString(product_result())
    message.opened.conjugate_sum = float("inf")
    with pytest.raises(InvalidInput, match=r"opened\.conjugate_sum"):
        wire.product_result_from_bytes(message.SerializeToString(), SCOPE)


@pytest.mark.parametrize(
    "read", [wire.product_task_from_bytes, wire.dual_result_from_bytes, wire.primal_task_from_bytes]
)
def test_bytes_that_are_no_message_are_refused(read: Callable[..., Any]) -> None:
    with pytest.raises(InvalidInput):
        read(b"\xff\xff\xff", SCOPE)


def test_a_damaged_snapshot_is_refused_as_such() -> None:
    with pytest.raises(StateDamaged):
        snapshot_from_bytes(b"\xff\xff\xff", KEY_BITS)
