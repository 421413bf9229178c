"""The state of a corrective server as bytes."""

import dataclasses

import numpy as np
import pytest

from fenchel.v1 import corrective_pb2 as pb
from fenchel_common.algorithms.dual import ALPHA_FORMAT, PRODUCT_FORMAT
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import Cipher, PlainCipher, Vector
from fenchel_common.errors import StateDamaged
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.privacy import Privacy
from fenchel_common.wire.corrective_snapshot import CorrectiveState, state_from_bytes, state_to_bytes
from support.keys import cipher, run_key

KEY_BITS = 2048
IN_CLEAR = RunKey.in_clear(KEY_BITS)
PLAIN = PlainCipher(KEY_BITS)


def vector(of: Cipher, vector_format: VectorFormat, seed: int) -> Vector:
    return of.encrypt(np.random.default_rng(seed).uniform(size=of.slots), vector_format)


def made(by_sample: Cipher = PLAIN, by_feature: Cipher = PLAIN) -> CorrectiveState:
    return CorrectiveState(
        round_id=RoundId(9),
        concluded=8,
        anchor=7,
        makers=frozenset({ClientId("b"), ClientId("a")}),
        sound=frozenset({ClientId("b")}),
        alpha={4: vector(by_sample, ALPHA_FORMAT, 1), 0: vector(by_sample, ALPHA_FORMAT, 2)},
        weights={1: vector(by_feature, PRODUCT_FORMAT, 3)},
        norms={0: vector(by_sample, PRODUCT_FORMAT, 4)},
        model={1: vector(by_feature, PRODUCT_FORMAT, 5)},
        point={1: vector(by_feature, PRODUCT_FORMAT, 6)},
        vertex={1: vector(by_feature, PRODUCT_FORMAT, 7)},
        conjugates=by_feature.encrypt(np.array([0.5, -0.25]), PRODUCT_FORMAT),
        collapses=3,
        relative_rounds=2,
    )


@pytest.mark.parametrize("level", ["sealed", "paper", "plain"])
def test_a_state_is_read_as_it_was_written(level: str) -> None:
    by_sample: Cipher = PLAIN if level == "plain" else cipher()
    key = IN_CLEAR if level == "plain" else run_key()
    state = made(by_sample, cipher() if level == "sealed" else PLAIN)
    data = state_to_bytes(state)
    read = state_from_bytes(data, key=key, share_key=key.by_feature(Privacy(level)))
    assert state_to_bytes(read) == data
    for field in dataclasses.fields(CorrectiveState):
        left, right = getattr(state, field.name), getattr(read, field.name)
        if isinstance(left, dict):
            assert left.keys() == right.keys()
            assert [type(left[block]) for block in left] == [type(right[block]) for block in left]
        elif field.name != "conjugates":
            assert left == right
    np.testing.assert_array_equal(by_sample.decrypt(read.alpha[4]), by_sample.decrypt(state.alpha[4]))


def test_a_fresh_state_is_read_as_such() -> None:
    read = state_from_bytes(state_to_bytes(CorrectiveState(RoundId(0))), key=IN_CLEAR, share_key=IN_CLEAR)
    assert read == CorrectiveState(RoundId(0))


def test_the_order_in_which_blocks_were_put_in_does_not_show() -> None:
    state = made()
    turned = dataclasses.replace(state, alpha=dict(reversed(state.alpha.items())))
    assert state_to_bytes(turned) == state_to_bytes(state)


@pytest.mark.parametrize("data", [b"\xff\xff\xff", state_to_bytes(made())[:-3]], ids=["noise", "cut"])
def test_a_damaged_snapshot_is_refused_as_such(data: bytes) -> None:
    with pytest.raises(StateDamaged, match="snapshot"):
        state_from_bytes(data, key=IN_CLEAR, share_key=IN_CLEAR)


def test_a_vector_that_does_not_hold_together_is_refused_as_damage() -> None:
    message = pb.CorrectiveSnapshot.FromString(state_to_bytes(made()))
    message.alpha[0].vector.plain.values += b"odd"
    with pytest.raises(StateDamaged, match="8-byte"):
        state_from_bytes(message.SerializeToString(), key=IN_CLEAR, share_key=IN_CLEAR)


def test_a_snapshot_of_another_level_is_refused_as_damage() -> None:
    key = run_key()
    sealed = state_to_bytes(made(cipher(), cipher()))
    with pytest.raises(StateDamaged):
        state_from_bytes(sealed, key=key, share_key=IN_CLEAR)
    with pytest.raises(StateDamaged):
        state_from_bytes(state_to_bytes(made(cipher(), PLAIN)), key=key, share_key=key)
