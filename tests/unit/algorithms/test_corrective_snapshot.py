"""The state of a corrective server as bytes."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from fenchel.v1 import corrective_pb2 as pb
from fenchel_client.crypto.plain import Cipher, PlainCipher
from fenchel_common.algorithms.dual import ALPHA_FORMAT, PRODUCT_FORMAT
from fenchel_common.blocks import BlockSum, BlockVector
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import Vector
from fenchel_common.errors import StateDamaged
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.privacy import Privacy
from fenchel_common.wire.arrays import numbers_to_bytes
from fenchel_common.wire.corrective_snapshot import (
    CorrectiveSnapshot,
    CorrectiveState,
    Memories,
    PendingPoints,
    StoredAnchor,
    snapshot_from_bytes,
    snapshot_to_bytes,
)
from support.keys import cipher, run_key, tags
from support.tagged import decrypted, encrypted

KEY_BITS = 2048
IN_CLEAR = RunKey.in_clear(KEY_BITS)
PLAIN = PlainCipher(KEY_BITS, tags())


def vector(of: Cipher, vector_format: VectorFormat, seed: int) -> Vector:
    return encrypted(of, np.random.default_rng(seed).uniform(size=of.slots), vector_format)


def stored(parts: Mapping[int, Vector]) -> BlockSum:
    return BlockSum(tuple(BlockVector((block,), part) for block, part in parts.items()))


def snapshot(by_sample: Cipher = PLAIN, by_feature: Cipher = PLAIN) -> CorrectiveSnapshot:
    state = CorrectiveState(
        norms=stored({0: vector(by_sample, PRODUCT_FORMAT, 4)}),
        memories=Memories(8, frozenset({ClientId("b"), ClientId("a")}), frozenset({ClientId("b")})),
        anchor=StoredAnchor(
            7,
            alpha=stored({4: vector(by_sample, ALPHA_FORMAT, 1), 0: vector(by_sample, ALPHA_FORMAT, 2)}),
            weights=stored({1: vector(by_feature, PRODUCT_FORMAT, 3)}),
        ),
        model=stored({1: vector(by_feature, PRODUCT_FORMAT, 5)}),
        pending=PendingPoints(
            point=stored({1: vector(by_feature, PRODUCT_FORMAT, 6)}),
            vertex=stored({1: vector(by_feature, PRODUCT_FORMAT, 7)}),
            conjugates_and_products=encrypted(by_feature, np.array([0.5, -0.25]), PRODUCT_FORMAT),
        ),
        collapses=3,
        relative_rounds=2,
    )
    return CorrectiveSnapshot(RoundId(9), state)


@pytest.mark.parametrize("level", ["sealed", "paper", "plain"])
def test_a_snapshot_is_read_as_it_was_written(level: str) -> None:
    by_sample: Cipher = PLAIN if level == "plain" else cipher()
    key = IN_CLEAR if level == "plain" else run_key()
    by_feature = cipher() if level == "sealed" else PLAIN
    written = snapshot(by_sample, by_feature)
    read = snapshot_from_bytes(snapshot_to_bytes(written), key, privacy=Privacy(level))
    assert snapshot_to_bytes(read) == snapshot_to_bytes(written)
    assert read.round_id == written.round_id
    left, right = written.state, read.state
    assert (left.memories, left.collapses, left.relative_rounds) == (
        right.memories,
        right.collapses,
        right.relative_rounds,
    )
    assert left.anchor.round_id == right.anchor.round_id
    for before, after, opener in [
        (left.norms, right.norms, by_sample),
        (left.anchor.alpha, right.anchor.alpha, by_sample),
        (left.anchor.weights, right.anchor.weights, by_feature),
        (left.model, right.model, by_feature),
        (left.pending.point, right.pending.point, by_feature),
        (left.pending.vertex, right.pending.vertex, by_feature),
    ]:
        written_parts, read_parts = before.parts(), after.parts()
        assert list(written_parts) == list(read_parts)
        for block, part in written_parts.items():
            assert type(read_parts[block]) is type(part)
            np.testing.assert_array_equal(decrypted(opener, read_parts[block]), decrypted(opener, part))
    numbers = right.pending.conjugates_and_products
    assert numbers is not None
    np.testing.assert_array_equal(decrypted(by_feature, numbers), [0.5, -0.25])


def test_a_fresh_state_is_read_as_such() -> None:
    fresh = CorrectiveSnapshot(RoundId(0), CorrectiveState())
    assert snapshot_from_bytes(snapshot_to_bytes(fresh), IN_CLEAR, privacy=Privacy.PLAIN) == fresh


def test_the_order_in_which_blocks_were_put_in_does_not_show() -> None:
    written = snapshot()
    anchor = written.state.anchor
    turned = replace(anchor, alpha=BlockSum(anchor.alpha.pieces[::-1]))
    other = replace(written, state=replace(written.state, anchor=turned))
    assert snapshot_to_bytes(other) == snapshot_to_bytes(written)


@pytest.mark.parametrize("data", [b"\xff\xff\xff", snapshot_to_bytes(snapshot())[:-3]], ids=["noise", "cut"])
def test_a_damaged_snapshot_is_refused_as_such(data: bytes) -> None:
    with pytest.raises(StateDamaged, match="snapshot"):
        snapshot_from_bytes(data, IN_CLEAR, privacy=Privacy.PLAIN)


def test_a_vector_that_does_not_hold_together_is_refused_as_damage() -> None:
    message = pb.CorrectiveSnapshot.FromString(snapshot_to_bytes(snapshot()))
    message.alpha[0].vector.plain.values += b"odd"
    with pytest.raises(StateDamaged, match="8 bytes each"):
        snapshot_from_bytes(message.SerializeToString(), IN_CLEAR, privacy=Privacy.PLAIN)


def test_a_snapshot_of_another_level_is_refused_as_damage() -> None:
    key = run_key()
    sealed = snapshot_to_bytes(snapshot(cipher(), cipher()))
    with pytest.raises(StateDamaged):
        snapshot_from_bytes(sealed, key, privacy=Privacy.PAPER)
    with pytest.raises(StateDamaged):
        snapshot_from_bytes(snapshot_to_bytes(snapshot(cipher(), PLAIN)), key, privacy=Privacy.SEALED)


def test_blocks_that_do_not_share_out_a_vector_are_refused_as_damage() -> None:
    message = pb.CorrectiveSnapshot.FromString(snapshot_to_bytes(snapshot()))
    for blocks in (b"", numbers_to_bytes([0, 0]), numbers_to_bytes([0, 1, 2])):
        message.alpha[0].blocks = blocks
        with pytest.raises(StateDamaged, match="alpha"):
            snapshot_from_bytes(message.SerializeToString(), IN_CLEAR, privacy=Privacy.PLAIN)
