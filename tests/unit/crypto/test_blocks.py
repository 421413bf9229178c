"""Vectors by block: restricted, split, summed and joined, in clear and encrypted."""

from collections.abc import Mapping
from functools import reduce
from itertools import permutations
from typing import Any

import numpy as np
import pytest

from fenchel_client.crypto.plain import PlainCipher
from fenchel_common.blocks import BlockSum, BlockVector, check_fresh, filled, joined, joined_on, summed, summed_parts
from fenchel_common.crypto.vectors import Vector
from fenchel_common.errors import InvalidInput
from support.keys import SMALL_BITS, cipher, tags
from support.tagged import decrypted, encrypted

CIPHERS = {"plain": PlainCipher(SMALL_BITS, tags(SMALL_BITS)), "small": cipher(SMALL_BITS)}
EACH_CIPHER = pytest.mark.parametrize("cipher", CIPHERS.values(), ids=CIPHERS)


def of_blocks(cipher: Any, values: dict[int, float]) -> BlockVector:
    """Blocks with one value each, in their first slots."""
    padded = np.zeros((len(values), cipher.slots))
    padded[:, 0] = list(values.values())
    return BlockVector(tuple(values), encrypted(cipher, padded.reshape(-1)))


def first_values(cipher: Any, parts: Mapping[int, Vector]) -> dict[int, tuple[float, int]]:
    return {block: (float(decrypted(cipher, part)[0]), part.terms) for block, part in parts.items()}


def opened(cipher: Any, vector: BlockVector | None) -> dict[int, float]:
    assert vector is not None
    return {block: value for block, (value, _) in first_values(cipher, vector.parts()).items()}


def test_the_slots_in_use_are_the_first_of_each_block() -> None:
    assert filled([2, 0, 3], 3).tolist() == [[True, True, False], [False, False, False], [True, True, True]]


@EACH_CIPHER
def test_a_vector_is_the_join_of_its_parts(cipher: Any) -> None:
    vector = of_blocks(cipher, {0: 1.0, 3: 2.0, 5: 3.0})
    parts = vector.parts()
    assert list(parts) == [0, 3, 5]
    assert opened(cipher, joined(vector.blocks, parts)) == {0: 1.0, 3: 2.0, 5: 3.0}
    assert opened(cipher, joined_on((3, 4, 5), parts)) == {3: 2.0, 5: 3.0}
    assert joined((), parts) is None
    assert joined_on((1, 2), parts) is None


@EACH_CIPHER
def test_a_vector_can_be_restricted_to_some_blocks(cipher: Any) -> None:
    vector = of_blocks(cipher, {0: 1.0, 3: 2.0, 5: 3.0})
    assert opened(cipher, vector.restricted_to({5, 0, 9})) == {0: 1.0, 5: 3.0}
    assert vector.restricted_to({0, 3, 5, 6}) is vector
    assert vector.restricted_to({1}) is None


@EACH_CIPHER
def test_a_restricted_sum_keeps_the_terms_of_the_whole(cipher: Any) -> None:
    """A client that gets a part of a sum is told the same number of terms as one that gets all of it."""
    sums = summed([of_blocks(cipher, {0: 0.5, 3: 0.5}), of_blocks(cipher, {3: 0.25})])
    whole = sums.whole()
    assert whole is not None
    part = whole.restricted_to({0})
    assert part is not None
    assert part.vector.terms == 2


@EACH_CIPHER
def test_blocks_are_summed_over_those_who_gave_them(cipher: Any) -> None:
    given = [of_blocks(cipher, {0: 0.5, 3: 0.5}), None, of_blocks(cipher, {3: 0.25, 4: 0.25})]
    sums = {0: (0.5, 1), 3: (0.75, 2), 4: (0.25, 1)}
    assert first_values(cipher, summed(given).parts()) == sums
    assert first_values(cipher, summed_parts(vector.parts() for vector in given if vector is not None)) == sums
    assert summed([None, None]) == BlockSum()


@EACH_CIPHER
def test_a_sum_is_in_pieces_whose_blocks_have_the_same_contributors(cipher: Any) -> None:
    given = [{0: 0.5, 3: 0.5, 4: 0.5}, {3: 0.25, 4: 0.25, 7: 0.25}, {0: 0.125, 3: 0.125, 4: 0.125, 7: 0.125}]
    sums = [BlockSum.of(of_blocks(cipher, values)) for values in given]
    for order in permutations(sums):
        whole = reduce(BlockSum.plus, order)
        assert {piece.blocks for piece in whole.pieces} == {(0,), (3, 4), (7,)}
        assert first_values(cipher, whole.parts()) == {0: (0.625, 2), 3: (0.875, 3), 4: (0.875, 3), 7: (0.375, 2)}
        assert whole.blocks == (0, 3, 4, 7)
        assert opened(cipher, whole.on((7, 0))) == {7: 0.375, 0: 0.625}
        joint = whole.whole()
        assert joint is not None
        assert (joint.blocks, joint.vector.terms) == (whole.blocks, 3)
    assert BlockSum.of(None).whole() is None


@EACH_CIPHER
def test_a_sum_is_asked_for_blocks_that_it_may_lack(cipher: Any) -> None:
    sums = summed([of_blocks(cipher, {0: 0.5, 3: 0.25}), of_blocks(cipher, {3: 0.25})])
    assert opened(cipher, sums.within((1, 3, 4))) == {3: 0.5}
    assert sums.within((1, 4)) is None


@EACH_CIPHER
def test_blocks_of_another_sum_take_the_place_of_the_same_blocks(cipher: Any) -> None:
    old = summed([of_blocks(cipher, {0: 0.5, 3: 0.5, 4: 0.5})])
    new = summed([of_blocks(cipher, {3: 0.25, 7: 0.25})])
    both = old.overlaid_with(new)
    assert first_values(cipher, both.parts()) == {0: (0.5, 1), 3: (0.25, 1), 4: (0.5, 1), 7: (0.25, 1)}
    assert BlockSum().overlaid_with(new) == new


@EACH_CIPHER
def test_a_sum_has_one_vector_for_each_number_of_terms(cipher: Any) -> None:
    given = [{0: 0.5, 3: 0.5}, {4: 0.5}, {3: 0.25, 7: 0.25}]
    sums = [BlockSum.of(of_blocks(cipher, values)) for values in given]
    for order in permutations(sums):
        vectors = reduce(BlockSum.plus, order).by_terms()
        assert [(one.blocks, one.vector.terms) for one in vectors] == [((0, 4, 7), 1), ((3,), 2)]


def test_only_a_fresh_vector_of_the_asked_blocks_is_taken() -> None:
    plain = CIPHERS["plain"]
    vector = of_blocks(plain, {0: 0.5, 3: 0.5})
    check_fresh(vector, (0, 3), "contribution")
    with pytest.raises(InvalidInput, match=r"contribution\.blocks: are not the blocks that were asked for"):
        check_fresh(vector, (0,), "contribution")
    twice = BlockVector(vector.blocks, vector.vector.plus(vector.vector))
    with pytest.raises(InvalidInput, match=r"contribution\.vector: must be freshly made"):
        check_fresh(twice, (0, 3), "contribution")
