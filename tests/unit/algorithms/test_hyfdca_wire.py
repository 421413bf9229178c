"""HyFDCA's messages on the wire: what is sent arrives, and what nobody would send is refused by field."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fenchel.v1 import hyfdca_pb2
from fenchel_client.crypto.plain import PlainCipher
from fenchel_common.algorithms.dual import ALPHA_FORMAT, PRODUCT_FORMAT, ProductResult
from fenchel_common.algorithms.hyfdca.messages import (
    DualResult,
    DualTask,
    Figures,
    LastState,
    PrimalResult,
    PrimalTask,
    ProductTask,
)
from fenchel_common.algorithms.hyfdca.rounds import RoundChoices
from fenchel_common.blocks import BlockVector
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import Vector
from fenchel_common.crypto.words import PlainVector
from fenchel_common.errors import FenchelError, IncompatibleVectors, InvalidInput, StateDamaged
from fenchel_common.ids import ClientId
from fenchel_common.privacy import Privacy
from fenchel_common.wire import hyfdca as wire
from fenchel_common.wire.arrays import numbers_to_bytes
from fenchel_common.wire.hyfdca_records import (
    left_out_from_bytes,
    left_out_to_bytes,
    round_choices_from_bytes,
    round_choices_to_bytes,
)
from fenchel_common.wire.hyfdca_snapshot import snapshot_from_bytes
from fenchel_common.wire.scope import Scope
from support.keys import cipher, run_key
from support.tagged import decrypted, encrypted

KEY_BITS = 2048
IN_CLEAR = RunKey.in_clear(KEY_BITS)
CIPHER = PlainCipher(KEY_BITS)
SLOTS = CIPHER.slots
SCOPE = Scope(
    key=IN_CLEAR,
    feature_key=IN_CLEAR,
    slots=SLOTS,
    feature_slots=SLOTS,
    blocks={2: SLOTS, 5: 4, 9: 1},
    feature_blocks={1: 3, 4: SLOTS},
)


def blocks(ids: tuple[int, ...], vector_format: VectorFormat) -> BlockVector:
    return BlockVector(ids, encrypted(CIPHER, np.linspace(0.0, 1.0, len(ids) * SLOTS), vector_format))


def same(left: BlockVector | None, right: BlockVector | None) -> bool:
    if left is None or right is None:
        return left is right
    assert isinstance(left.vector, PlainVector)
    assert isinstance(right.vector, PlainVector)
    return left.blocks == right.blocks and np.array_equal(left.vector.integers, right.vector.integers)


def figures(count: int = 5) -> Vector:
    return encrypted(CIPHER, np.arange(1.0, count + 1.0), PRODUCT_FORMAT)


def test_primal_messages_arrive_as_sent() -> None:
    alpha = blocks((2, 9), ALPHA_FORMAT)
    task = wire.primal_task_from_bytes(wire.primal_task_to_bytes(PrimalTask(alpha, figures())), SCOPE)
    assert same(task.alpha, alpha)
    assert task.totals is not None
    np.testing.assert_array_equal(decrypted(CIPHER, task.totals), [1.0, 2.0, 3.0, 4.0, 5.0])
    answer = PrimalResult(blocks((1, 4), PRODUCT_FORMAT), Figures(0.1, -2.5, 0.75, 1e-3))
    result = wire.primal_result_from_bytes(wire.primal_result_to_bytes(answer), SCOPE)
    assert result.figures == answer.figures
    assert same(result.contribution, answer.contribution)


def test_product_messages_arrive_as_sent() -> None:
    sent = ProductTask(blocks((1, 4), PRODUCT_FORMAT))
    assert same(wire.product_task_from_bytes(wire.product_task_to_bytes(sent), SCOPE).model, sent.model)
    assert wire.product_task_from_bytes(wire.product_task_to_bytes(ProductTask()), SCOPE) == ProductTask()
    products = blocks((2, 5), PRODUCT_FORMAT)
    result = wire.product_result_from_bytes(wire.product_result_to_bytes(ProductResult(products)), SCOPE)
    assert same(result.products, products)


def test_the_last_state_arrives_as_sent() -> None:
    sent = LastState(blocks((4,), PRODUCT_FORMAT))
    assert same(wire.state_from_bytes(wire.state_to_bytes(sent), SCOPE).model, sent.model)
    assert wire.state_from_bytes(wire.state_to_bytes(LastState()), SCOPE) == LastState()


def test_dual_messages_arrive_as_sent() -> None:
    sent = DualTask(
        model=blocks((1,), PRODUCT_FORMAT), norms=blocks((2,), PRODUCT_FORMAT), products=blocks((2, 5), PRODUCT_FORMAT)
    )
    task = wire.dual_task_from_bytes(wire.dual_task_to_bytes(sent), SCOPE)
    assert same(task.model, sent.model)
    assert same(task.norms, sent.norms)
    assert same(task.products, sent.products)
    answer = DualResult(blocks((2,), ALPHA_FORMAT), blocks((5, 9), ALPHA_FORMAT), figures())
    result = wire.dual_result_from_bytes(wire.dual_result_to_bytes(answer), SCOPE)
    assert same(result.changes, answer.changes)
    assert same(result.restated, answer.restated)
    assert result.figures is not None
    np.testing.assert_array_equal(decrypted(CIPHER, result.figures), [1.0, 2.0, 3.0, 4.0, 5.0])
    assert wire.dual_result_from_bytes(wire.dual_result_to_bytes(DualResult()), SCOPE) == DualResult()


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
    with pytest.raises(InvalidInput, match="totals: must be 5 figures"):
        wire.primal_task_from_bytes(wire.primal_task_to_bytes(PrimalTask(totals=figures(4))), SCOPE)


def test_a_clear_vector_by_feature_is_refused_in_a_sealed_run_and_an_encrypted_one_in_a_paper_run() -> None:
    paillier = cipher()
    key = run_key()
    values = np.zeros(SLOTS)
    cases = ((CIPHER, Privacy.SEALED, "this run is encrypted"), (paillier, Privacy.PAPER, "is in clear"))
    for encrypting, privacy, message in cases:
        vector = BlockVector((1,), encrypted(encrypting, values, PRODUCT_FORMAT))
        scope = replace(SCOPE, key=key, feature_key=key.by_feature(privacy))
        with pytest.raises(IncompatibleVectors, match=message):
            wire.primal_result_from_bytes(wire.primal_result_to_bytes(PrimalResult(vector)), scope)


CLIENTS = tuple(ClientId(name) for name in "abcd")
A, B, C, D = CLIENTS
CHOICES = RoundChoices(
    available=frozenset({A, B, D}),
    active=frozenset({A, B}),
    closing=False,
    shares={A: 0.25, B: 1.0},
    proportional=True,
)


def read_choices(choices: RoundChoices) -> RoundChoices:
    return round_choices_from_bytes(round_choices_to_bytes(choices, CLIENTS), CLIENTS, {A, B, C})


def test_choices_and_parties_left_out_arrive_as_sent() -> None:
    assert read_choices(CHOICES) == CHOICES
    closing = replace(CHOICES, active=frozenset(), closing=True, shares={}, proportional=False)
    assert read_choices(closing) == closing
    without_labels = replace(CHOICES, active=frozenset({A, D}), shares={A: 0.25})
    assert read_choices(without_labels) == without_labels
    for left_out in (frozenset[ClientId](), frozenset({B, D})):
        assert left_out_from_bytes(left_out_to_bytes(left_out, CLIENTS), CLIENTS) == left_out


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        (replace(CHOICES, active=frozenset({A, C}), shares={A: 0.25, C: 0.25}), "active: must be among the available"),
        (replace(CHOICES, closing=True), "active: nobody updates samples in a closing round"),
        (replace(CHOICES, shares={A: 0.25}), "shares: every active party with labels must have one"),
        (replace(CHOICES, shares={A: 0.25, B: 0.5, D: 0.5}), "shares: every active party with labels must have one"),
        (replace(CHOICES, shares={A: 0.0, B: 0.5}), "shares: "),
        (replace(CHOICES, shares={A: 0.5, B: 1.5}), "shares: "),
        (replace(CHOICES, shares={A: 0.5, B: float("nan")}), "shares: "),
    ],
)
def test_choices_that_no_server_may_make_are_refused(choices: RoundChoices, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_choices(choices)


@pytest.mark.parametrize("positions", [[4], [1, 0], [2, 2], [0, 1, 2, 3, 3]])
def test_parties_that_are_not_on_the_roster_or_out_of_order_are_refused(positions: list[int]) -> None:
    named = numbers_to_bytes(positions)
    with pytest.raises(InvalidInput, match="parties: "):
        left_out_from_bytes(hyfdca_pb2.HyfdcaLeftOut(parties=named).SerializeToString(), CLIENTS)
    with pytest.raises(InvalidInput, match="available: "):
        round_choices_from_bytes(hyfdca_pb2.HyfdcaRoundChoices(available=named).SerializeToString(), CLIENTS, CLIENTS)


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
