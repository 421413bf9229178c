"""What the vectors of a run are under: a public key, or nothing, in blocks of the same size."""

import pytest

from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.privacy import Privacy
from support.keys import SMALL_BITS, cipher, private_key, run_key


def test_a_block_has_as_many_slots_in_clear_as_under_a_key_of_that_size() -> None:
    assert RunKey.in_clear(2048).slots(VectorFormat()) == run_key().slots(VectorFormat()) == cipher().slots


def test_vectors_by_feature_are_under_the_key_in_a_sealed_run_alone() -> None:
    key, clear = run_key(2 * SMALL_BITS), RunKey.in_clear(2 * SMALL_BITS)
    assert key.by_feature(Privacy.SEALED) == key
    assert key.by_feature(Privacy.PAPER) == clear
    assert clear.by_feature(Privacy.SEALED) == clear.by_feature(Privacy.PLAIN) == clear


def test_the_size_is_that_of_the_modulus() -> None:
    with pytest.raises(AssertionError):
        RunKey(2048, private_key(2 * SMALL_BITS).public_key)
