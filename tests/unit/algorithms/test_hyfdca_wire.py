"""HyFDCA's messages on the wire: what is sent arrives, and what nobody would send is refused by field."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fenchel.v1 import hyfdca_pb2
from fenchel_common.algorithms.dual import ALPHA_FORMAT, PRODUCT_FORMAT, ProductResult
from fenchel_common.algorithms.hyfdca.messages import (
    DualResult,
    DualTask,
    Figures,
    PrimalResult,
    PrimalTask,
    ProductTask,
    SampleRange,
    StateUpdate,
)
from fenchel_common.blocks import BlockVector
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import PlainCipher, PlainVector, Vector
from fenchel_common.errors import FenchelError, IncompatibleVectors, InvalidInput, StateDamaged
from fenchel_common.privacy import Privacy
from fenchel_common.wire import hyfdca as wire
from fenchel_common.wire.arrays import numbers_to_bytes
from fenchel_common.wire.hyfdca_snapshot import snapshot_from_bytes
from fenchel_common.wire.scope import Scope
from support.keys import cipher, run_key

KEY_BITS = 2048
IN_CLEAR = RunKey.in_clear(KEY_BITS)
CIPHER = PlainCipher(KEY_BITS)
SLOTS = CIPHER.slots
SCOPE = Scope(
    key=IN_CLEAR, feature_key=IN_CLEAR, slots=SLOTS, blocks={2: SLOTS, 5: 4, 9: 1}, feature_blocks={1: 3, 4: SLOTS}
)


def blocks(ids: tuple[int, ...], vector_format: VectorFormat) -> BlockVector:
    return BlockVector(ids, CIPHER.encrypt(np.linspace(0.0, 1.0, len(ids) * SLOTS), vector_format))


def same(left: BlockVector | None, right: BlockVector | None) -> bool:
    if left is None or right is None:
        return left is right
    assert isinstance(left.vector, PlainVector)
    assert isinstance(right.vector, PlainVector)
    return left.blocks == right.blocks and np.array_equal(left.vector.integers, right.vector.integers)


def figures(count: int = 4) -> Vector:
    return CIPHER.encrypt(np.arange(1.0, count + 1.0), PRODUCT_FORMAT)


def test_primal_messages_arrive_as_sent() -> None:
    state = StateUpdate(reset=True, alpha=blocks((2, 9), ALPHA_FORMAT))
    task = wire.primal_task_from_bytes(wire.primal_task_to_bytes(PrimalTask(state, figures())), SCOPE)
    assert (task.state.reset, task.state.model) == (True, None)
    assert same(task.state.alpha, state.alpha)
    assert task.totals is not None
    np.testing.assert_array_equal(CIPHER.decrypt(task.totals), [1.0, 2.0, 3.0, 4.0])
    answer = PrimalResult(blocks((1, 4), PRODUCT_FORMAT), Figures(0.1, -2.5, 0.75, 1e-3))
    result = wire.primal_result_from_bytes(wire.primal_result_to_bytes(answer), SCOPE)
    assert result.figures == answer.figures
    assert same(result.contribution, answer.contribution)


def test_product_messages_arrive_as_sent() -> None:
    sent = ProductTask(StateUpdate(model=blocks((1, 4), PRODUCT_FORMAT)), (2, 5))
    task = wire.product_task_from_bytes(wire.product_task_to_bytes(sent), SCOPE)
    assert task.blocks == (2, 5)
    assert same(task.state.model, sent.state.model)
    products = blocks((2, 5), PRODUCT_FORMAT)
    result = wire.product_result_from_bytes(wire.product_result_to_bytes(ProductResult(products)), SCOPE)
    assert same(result.products, products)


def test_the_last_state_arrives_as_sent_and_is_never_empty() -> None:
    sent = StateUpdate(reset=True, model=blocks((4,), PRODUCT_FORMAT))
    assert same(wire.state_from_bytes(wire.state_to_bytes(sent), SCOPE).model, sent.model)
    assert wire.state_to_bytes(StateUpdate(reset=True))


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
        norm_blocks=(1,),
        with_losses=True,
    )


def test_dual_messages_arrive_as_sent() -> None:
    sent = dual_task()
    task = wire.dual_task_from_bytes(wire.dual_task_to_bytes(sent), SCOPE)
    assert (task.ranges, task.divisors, task.report_blocks) == (sent.ranges, sent.divisors, sent.report_blocks)
    assert (task.gamma, task.step_scale, task.norm_blocks, task.with_losses) == (0.5, 0.25, (1,), True)
    assert task.asks_figures
    assert same(task.norms, sent.norms)
    assert same(task.products, sent.products)
    answer = DualResult(blocks((2,), ALPHA_FORMAT), figures())
    result = wire.dual_result_from_bytes(wire.dual_result_to_bytes(answer), SCOPE)
    assert same(result.changes, answer.changes)
    assert result.figures is not None
    np.testing.assert_array_equal(CIPHER.decrypt(result.figures), [1.0, 2.0, 3.0, 4.0])


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (replace(dual_task(), gamma=0.0), "gamma: "),
        (replace(dual_task(), gamma=float("nan")), "gamma: "),
        (replace(dual_task(), step_scale=1.5), "step_scale: "),
        (replace(dual_task(), report_blocks=(4,)), "report_blocks: names a block that this client does not hold"),
        (replace(dual_task(), report_blocks=(5, 2)), "report_blocks: ids must be ascending"),
        (replace(dual_task(), report_blocks=(5, 5)), "report_blocks: ids must be ascending"),
        (replace(dual_task(), norm_blocks=(2,)), "norm_blocks: names a block that this client does not hold"),
    ],
)
def test_a_dual_task_out_of_bounds_is_refused_by_field(task: DualTask, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        wire.dual_task_from_bytes(wire.dual_task_to_bytes(task), SCOPE)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ([4, 0, 1], "ranges: names a block"),
        ([5, 2, 2], "ranges: start must lie below stop"),
        ([5, 0, 5], "ranges: "),
        ([5, 0], "ranges: 3 numbers are due for each"),
        ([5, 0, 1] * 7, "ranges: 21 numbers where at most 18"),
        ([5, 0, 1, 5, 1, 2], "divisors: "),
    ],
)
def test_a_range_outside_the_clients_blocks_is_refused(part: list[int], message: str) -> None:
    proto = hyfdca_pb2.HyfdcaDualTask(
        gamma=1.0, step_scale=1.0, ranges=numbers_to_bytes(part), divisors=numbers_to_bytes([1])
    )
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


@pytest.mark.parametrize(
    ("contribution", "message"),
    [
        (blocks((2, 4), PRODUCT_FORMAT), r"contribution\.blocks: names a block"),
        (blocks((4, 1), PRODUCT_FORMAT), r"contribution\.blocks: ids must be ascending"),
        (blocks((1, 4), ALPHA_FORMAT), r"contribution\.vector: has another format"),
        (BlockVector((1, 4), blocks((1,), PRODUCT_FORMAT).vector), r"contribution\.vector: 2 blocks take"),
    ],
)
def test_a_contribution_on_other_features_is_refused(contribution: BlockVector, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        wire.primal_result_from_bytes(wire.primal_result_to_bytes(PrimalResult(contribution)), SCOPE)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((0.1, 0.2, 0.3), "figures: must be 4 numbers or none"),
        ((0.1, 0.2, 0.3, 0.4, 0.5), "figures: must be 4 numbers or none"),
        ((0.1, np.nan, 0.3, 0.4), "figures: is NaN or infinite"),
        ((0.1, 0.2, 0.3, np.inf), "figures: is NaN or infinite"),
    ],
)
def test_figures_that_cannot_be_are_refused(values: tuple[float, ...], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        wire.primal_result_from_bytes(hyfdca_pb2.HyfdcaPrimalResult(figures=values).SerializeToString(), SCOPE)


def test_totals_of_another_length_are_refused() -> None:
    with pytest.raises(InvalidInput, match="totals: must be 4 figures"):
        wire.primal_task_from_bytes(wire.primal_task_to_bytes(PrimalTask(StateUpdate(), figures(3))), SCOPE)


def test_a_clear_vector_by_feature_is_refused_in_a_sealed_run_and_an_encrypted_one_in_a_paper_run() -> None:
    paillier = cipher()
    key = run_key()
    values = np.zeros(SLOTS)
    cases = ((CIPHER, Privacy.SEALED, "this run is encrypted"), (paillier, Privacy.PAPER, "is in clear"))
    for encrypting, privacy, message in cases:
        vector = BlockVector((1,), encrypting.encrypt(values, PRODUCT_FORMAT))
        scope = replace(SCOPE, key=key, feature_key=key.by_feature(privacy))
        with pytest.raises(IncompatibleVectors, match=message):
            wire.primal_result_from_bytes(wire.primal_result_to_bytes(PrimalResult(vector)), scope)


@given(data=st.binary(max_size=200))
def test_arbitrary_bytes_are_taken_or_refused_but_never_break(data: bytes) -> None:
    for read in (
        wire.primal_task_from_bytes,
        wire.primal_result_from_bytes,
        wire.product_task_from_bytes,
        wire.product_result_from_bytes,
        wire.dual_task_from_bytes,
        wire.dual_result_from_bytes,
        wire.state_from_bytes,
    ):
        try:
            read(data, SCOPE)
        except FenchelError:
            continue


def test_a_damaged_snapshot_is_called_damaged() -> None:
    with pytest.raises(StateDamaged, match="cannot be read"):
        snapshot_from_bytes(b"\xff\xff\xff", IN_CLEAR, privacy=Privacy.PLAIN)
