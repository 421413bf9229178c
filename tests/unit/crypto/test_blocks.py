"""Vectors by block: made, restricted, split, summed and joined, in clear and encrypted."""

from typing import Any

import numpy as np
import pytest

from fenchel_common.blocks import (
    BlockVector,
    check_fresh,
    joined,
    joined_on,
    pack,
    summed,
    summed_parts,
    unpack,
)
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.vectors import PlainCipher, Vector
from fenchel_common.errors import InvalidInput
from support.keys import SMALL_BITS, cipher

FORMAT = VectorFormat()
CIPHERS = {"plain": PlainCipher(SMALL_BITS), "small": cipher(SMALL_BITS)}
EACH_CIPHER = pytest.mark.parametrize("cipher", CIPHERS.values(), ids=CIPHERS)


def constant(cipher: Any, ids: tuple[int, ...], value: float) -> BlockVector:
    return pack(np.full(len(ids), value), ids, [1] * len(ids), cipher=cipher, vector_format=FORMAT)


def first_values(cipher: Any, parts: dict[int, Vector]) -> dict[int, tuple[float, int]]:
    return {block: (float(cipher.decrypt(part)[0]), part.terms) for block, part in parts.items()}


@EACH_CIPHER
def test_values_come_back_and_unused_slots_are_zero(cipher: Any) -> None:
    values, sizes = np.array([1.0, -2.0, 3.5]), [2, 1]
    vector = pack(values, (4, 7), sizes, cipher=cipher, vector_format=FORMAT)
    assert vector.blocks == (4, 7)
    assert vector.vector.length == 2 * cipher.slots
    assert unpack(vector, sizes, cipher=cipher).tolist() == values.tolist()
    opened = cipher.decrypt(vector.vector).reshape(2, cipher.slots)
    assert (opened[0, 2:] == 0.0).all()
    assert (opened[1, 1:] == 0.0).all()


@EACH_CIPHER
def test_a_vector_is_the_join_of_its_parts(cipher: Any) -> None:
    vector = pack(np.array([1.0, 2.0, 3.0]), (0, 3, 5), [1, 1, 1], cipher=cipher, vector_format=FORMAT)
    parts = vector.parts()
    assert list(parts) == [0, 3, 5]
    again = joined(vector.blocks, parts)
    assert again is not None
    assert unpack(again, [1, 1, 1], cipher=cipher).tolist() == [1.0, 2.0, 3.0]
    some = joined_on((3, 4, 5), parts)
    assert some is not None
    assert some.blocks == (3, 5)
    assert unpack(some, [1, 1], cipher=cipher).tolist() == [2.0, 3.0]
    assert joined((), parts) is None
    assert joined_on((1, 2), parts) is None


@EACH_CIPHER
def test_a_vector_can_be_restricted_to_some_blocks(cipher: Any) -> None:
    vector = pack(np.array([1.0, 2.0, 3.0]), (0, 3, 5), [1, 1, 1], cipher=cipher, vector_format=FORMAT)
    some = vector.restricted_to({5, 0, 9})
    assert some is not None
    assert some.blocks == (0, 5)
    assert unpack(some, [1, 1], cipher=cipher).tolist() == [1.0, 3.0]
    assert vector.restricted_to({0, 3, 5, 6}) is vector
    assert vector.restricted_to({1}) is None


@EACH_CIPHER
def test_a_restricted_sum_keeps_the_terms_of_the_whole(cipher: Any) -> None:
    """A client that gets a part of a sum is told the same number of terms as one that gets all of it."""
    sums = summed([constant(cipher, (0, 3), 0.5), constant(cipher, (3,), 0.25)])
    whole = joined(sorted(sums), sums)
    assert whole is not None
    part = whole.restricted_to({0})
    assert part is not None
    assert part.vector.terms == 2


@EACH_CIPHER
def test_blocks_are_summed_over_those_who_gave_them(cipher: Any) -> None:
    given = [constant(cipher, (0, 3), 0.5), None, constant(cipher, (3, 4), 0.25)]
    sums = {0: (0.5, 1), 3: (0.75, 2), 4: (0.25, 1)}
    assert first_values(cipher, summed(given)) == sums
    assert first_values(cipher, summed_parts(vector.parts() for vector in given if vector is not None)) == sums
    assert summed([None, None]) == {}


def test_only_a_fresh_vector_of_the_asked_blocks_is_taken() -> None:
    plain = CIPHERS["plain"]
    vector = constant(plain, (0, 3), 0.5)
    check_fresh(vector, (0, 3), "contribution")
    with pytest.raises(InvalidInput, match=r"contribution\.blocks: are not the blocks that were asked for"):
        check_fresh(vector, (0,), "contribution")
    twice = BlockVector(vector.blocks, vector.vector.plus(vector.vector))
    with pytest.raises(InvalidInput, match=r"contribution\.vector: must be freshly made"):
        check_fresh(twice, (0, 3), "contribution")
