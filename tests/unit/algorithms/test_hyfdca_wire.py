"""HyFDCA's messages on the wire: what is sent arrives, and what nobody would send is refused by field."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

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
from fenchel_common.changes import ArrayChange
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.vectors import PlainCipher, PlainVector
from fenchel_common.errors import FenchelError, InvalidInput, StateDamaged
from fenchel_common.wire import hyfdca as wire
from fenchel_common.wire.hyfdca_snapshot import snapshot_from_bytes

KEY_BITS = 2048
CIPHER = PlainCipher(KEY_BITS)
SLOTS = CIPHER.slots
SCOPE = wire.Scope(key=KEY_BITS, slots=SLOTS, features=3, blocks={2: SLOTS, 5: 4, 9: 1})


def blocks(ids: tuple[int, ...], vector_format: VectorFormat) -> BlockVector:
    return BlockVector(ids, CIPHER.encrypt(np.linspace(0.0, 1.0, len(ids) * SLOTS), vector_format))


def same(left: BlockVector | None, right: BlockVector | None) -> bool:
    if left is None or right is None:
        return left is right
    assert isinstance(left.vector, PlainVector)
    assert isinstance(right.vector, PlainVector)
    return left.blocks == right.blocks and np.array_equal(left.vector.integers, right.vector.integers)


def whole(*values: float) -> ArrayChange:
    return ArrayChange(len(values), None, np.array(values))


def test_primal_messages_arrive_as_sent() -> None:
    state = StateUpdate(reset=True, alpha=blocks((2, 9), ALPHA_FORMAT))
    task = wire.primal_task_from_bytes(wire.primal_task_to_bytes(PrimalTask(state, True, (5,))), SCOPE)
    assert (task.state.reset, task.whole, task.conjugate_blocks, task.state.model) == (True, True, (5,), None)
    assert same(task.state.alpha, state.alpha)
    change = ArrayChange(3, np.array([0, 2]), np.array([1.5, -0.0]))
    result = wire.primal_result_from_bytes(wire.primal_result_to_bytes(PrimalResult(change, -2.5)), SCOPE)
    assert result.conjugate_sum == -2.5
    np.testing.assert_array_equal(result.share.positions, change.positions)
    assert result.share.values.tobytes() == change.values.tobytes()


def test_product_messages_arrive_as_sent() -> None:
    sent = ProductTask(StateUpdate(model=whole(1.0, 2.0, 3.0)), (2, 5))
    task = wire.product_task_from_bytes(wire.product_task_to_bytes(sent), SCOPE)
    assert task.blocks == (2, 5)
    assert task.state.model is not None
    np.testing.assert_array_equal(task.state.model.values, [1.0, 2.0, 3.0])
    products = blocks((2, 5), PRODUCT_FORMAT)
    result = wire.product_result_from_bytes(wire.product_result_to_bytes(ProductResult(products)), SCOPE)
    assert same(result.products, products)


def dual_task() -> DualTask:
    return DualTask(
        state=StateUpdate(),
        norms=blocks((2,), PRODUCT_FORMAT),
        products=blocks((2, 5), PRODUCT_FORMAT),
        ranges=(SampleRange(2, 1, 30), SampleRange(5, 0, 4)),
        divisors=(3, 1),
        gamma=0.5,
        step_scale=0.25,
        report_blocks=(2, 5, 9),
    )


def test_dual_messages_arrive_as_sent() -> None:
    sent = dual_task()
    task = wire.dual_task_from_bytes(wire.dual_task_to_bytes(sent), SCOPE)
    assert (task.ranges, task.divisors, task.report_blocks) == (sent.ranges, sent.divisors, sent.report_blocks)
    assert (task.gamma, task.step_scale) == (0.5, 0.25)
    assert same(task.norms, sent.norms)
    assert same(task.products, sent.products)
    answer = DualResult(blocks((2,), ALPHA_FORMAT), CertificateShare(5, 1.0, -2.0, 4))
    result = wire.dual_result_from_bytes(wire.dual_result_to_bytes(answer), SCOPE)
    assert result.certificate == answer.certificate
    assert same(result.changes, answer.changes)


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (replace(dual_task(), gamma=0.0), "gamma: "),
        (replace(dual_task(), gamma=float("nan")), "gamma: "),
        (replace(dual_task(), step_scale=1.5), "step_scale: "),
        (replace(dual_task(), report_blocks=(4,)), "report_blocks: names a block that this client does not hold"),
        (replace(dual_task(), report_blocks=(5, 2)), "report_blocks: ids must be ascending"),
        (replace(dual_task(), report_blocks=(5, 5)), "report_blocks: ids must be ascending"),
    ],
)
def test_a_dual_task_out_of_bounds_is_refused_by_field(task: DualTask, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        wire.dual_task_from_bytes(wire.dual_task_to_bytes(task), SCOPE)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"block": 4, "start": 0, "stop": 1, "divisor": 1}, "ranges.block: "),
        ({"block": 5, "start": 2, "stop": 2, "divisor": 1}, "ranges: start must lie below stop"),
        ({"block": 5, "start": 0, "stop": 5, "divisor": 1}, "ranges: "),
        ({"block": 5, "start": 0, "stop": 1, "divisor": 0}, "ranges.divisor: "),
    ],
)
def test_a_range_outside_the_clients_blocks_is_refused(part: dict[str, int], message: str) -> None:
    proto = hyfdca_pb2.HyfdcaDualTask(gamma=1.0, step_scale=1.0, ranges=[hyfdca_pb2.HyfdcaRange(**part)])
    with pytest.raises(InvalidInput, match=message):
        wire.dual_task_from_bytes(proto.SerializeToString(), SCOPE)


@pytest.mark.parametrize(
    ("vector", "message"),
    [
        (blocks((2, 4), PRODUCT_FORMAT), "products.blocks: names a block"),
        (blocks((2,), ALPHA_FORMAT), "products.vector: has another format"),
        (BlockVector((2, 5), blocks((2,), PRODUCT_FORMAT).vector), "products.vector: 2 blocks take"),
        (BlockVector((), blocks((2,), PRODUCT_FORMAT).vector), "products.vector: 0 blocks take"),
    ],
)
def test_a_vector_that_does_not_fit_its_blocks_is_refused(vector: BlockVector, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        wire.product_result_from_bytes(wire.product_result_to_bytes(ProductResult(vector)), SCOPE)


def test_a_result_without_its_vector_is_refused() -> None:
    with pytest.raises(InvalidInput, match="products: missing"):
        wire.product_result_from_bytes(b"", SCOPE)


def doubles(*values: float) -> bytes:
    return np.array(values).tobytes()


def positions(*values: int) -> bytes:
    return np.array(values, dtype="<u4").tobytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (hyfdca_pb2.ArrayChange(length=4, whole=True, values=doubles(1, 2, 3, 4)), r"share\.length: is 4"),
        (hyfdca_pb2.ArrayChange(length=3, whole=True, values=doubles(1, 2)), r"share\.values: 2 entries"),
        (hyfdca_pb2.ArrayChange(length=3, whole=True, values=b"123"), r"share\.values: not a whole number"),
        (hyfdca_pb2.ArrayChange(length=3, whole=True, values=doubles(1, np.nan, 3)), r"share\.values: an entry is NaN"),
        (hyfdca_pb2.ArrayChange(length=3, whole=True, positions=positions(1)), r"share\.positions: a whole array"),
        (hyfdca_pb2.ArrayChange(length=3, positions=b"1", values=b""), r"share\.positions: not a whole number"),
        (hyfdca_pb2.ArrayChange(length=3, positions=positions(3), values=doubles(1)), r"share\.positions: must be"),
        (hyfdca_pb2.ArrayChange(length=3, positions=positions(1, 1), values=doubles(1, 2)), r"share\.positions: must"),
        (hyfdca_pb2.ArrayChange(length=3, positions=positions(1), values=doubles(1, 2)), r"share\.values: 2 entries"),
    ],
)
def test_a_change_that_does_not_fit_its_array_is_refused(change: hyfdca_pb2.ArrayChange, message: str) -> None:
    proto = hyfdca_pb2.HyfdcaPrimalResult(share=change)
    with pytest.raises(InvalidInput, match=message):
        wire.primal_result_from_bytes(proto.SerializeToString(), SCOPE)


@pytest.mark.parametrize(
    ("share", "message"),
    [
        (hyfdca_pb2.HyfdcaCertificateShare(samples=1, correct=2), "certificate.correct"),
        (hyfdca_pb2.HyfdcaCertificateShare(samples=1, loss_sum=np.nan), "certificate.loss_sum"),
        (hyfdca_pb2.HyfdcaCertificateShare(samples=1, conjugate_sum=np.inf), "certificate.conjugate_sum"),
    ],
)
def test_a_share_of_the_certificate_that_cannot_be_is_refused(
    share: hyfdca_pb2.HyfdcaCertificateShare, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        wire.dual_result_from_bytes(hyfdca_pb2.HyfdcaDualResult(certificate=share).SerializeToString(), SCOPE)


@given(data=st.binary(max_size=200))
def test_arbitrary_bytes_are_taken_or_refused_but_never_break(data: bytes) -> None:
    for read in (
        wire.primal_task_from_bytes,
        wire.primal_result_from_bytes,
        wire.product_task_from_bytes,
        wire.product_result_from_bytes,
        wire.dual_task_from_bytes,
        wire.dual_result_from_bytes,
    ):
        try:
            read(data, SCOPE)
        except FenchelError:
            continue


def test_a_damaged_snapshot_is_called_damaged() -> None:
    with pytest.raises(StateDamaged, match="cannot be read"):
        snapshot_from_bytes(b"\xff\xff\xff", KEY_BITS)


arrays = st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=40)


@given(values=arrays, data=st.data())
def test_a_change_turns_the_old_array_into_the_new_one_bit_by_bit(values: list[float], data: st.DataObject) -> None:
    old: NDArray[np.float64] = np.array(values)
    new = old.copy()
    for place in data.draw(st.lists(st.integers(0, len(values) - 1), max_size=len(values))):
        new[place] = data.draw(st.sampled_from([0.0, -0.0, 1.0, 1e-300]))
    change = ArrayChange.between(old, new)
    assert change.applied_to(old).tobytes() == new.tobytes()
    assert ArrayChange.between(None, new).is_whole


def test_a_change_of_few_entries_is_smaller_than_the_array() -> None:
    old = np.zeros(100)
    new = old.copy()
    new[7] = 1.0
    change = ArrayChange.between(old, new)
    assert not change.is_whole
    assert len(change.values) == 1
    assert ArrayChange.between(old, old + 1.0).is_whole
