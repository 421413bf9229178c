"""Masks: sums open for the holders of a block, and nothing else opens for anybody."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fenchel_client.crypto.plain import PlainCipher
from fenchel_common.crypto import packing
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.words import MaskedVector, PlainVector
from fenchel_common.errors import IncompatibleVectors, MalformedVector, TagMismatch, ValueOutOfRange
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.records import Moment
from support.keys import cipher, tags
from support.masked import (
    BITS,
    PAIR,
    TRIO,
    A,
    B,
    C,
    D,
    at_moment,
    contribution,
    keys_of,
    mask_cipher,
    origin_of,
    places,
    secret,
    summed,
    values,
)
from support.tagged import encrypted

FORMAT = VectorFormat()
SLOTS = 30
OWN_SUMS: list[tuple[ClientId, ...]] = [(A,), (A, B), TRIO]


@pytest.mark.parametrize("count", [1, 29, 30, 31, 100])
@pytest.mark.parametrize("contributors", OWN_SUMS, ids=len)
@pytest.mark.parametrize("pairwise", [False, True], ids=["without pairs", "with pairs"])
def test_a_sum_opens_at_every_holder(count: int, contributors: tuple[ClientId, ...], pairwise: bool) -> None:
    """Also if the last block is not filled."""
    at = places(-(-count // SLOTS))
    among = contributors if pairwise else None
    given = [contribution(k, values(count, seed), at, among=among) for seed, k in enumerate(contributors)]
    total, expected = summed(*given), np.sum([values(count, seed) for seed in range(len(contributors))], axis=0)
    origins = [[origin_of(k) for k in contributors]] * len(at)
    for party in TRIO:
        np.testing.assert_array_equal(mask_cipher(party).decrypt(total, origins=origins, places=at), expected)


def test_stretches_of_several_groups_and_single_blocks_of_a_stretch_open_in_one_vector() -> None:
    at = [places(4)[3], *places(2, PAIR, name=b"pair"), places(4)[1], *places(1, (), name=b"")]
    origin = origin_of(C)
    vector = contribution(C, values(5 * SLOTS, 0), at, among=TRIO)
    # The masks with the other two of the trio are missing in the sum of one.
    with pytest.raises(TagMismatch):
        mask_cipher(C).decrypt(vector, origins=[[origin]] * 5, places=at)
    vector = contribution(C, values(5 * SLOTS, 0), at)
    opened = mask_cipher(C).decrypt(vector, origins=[[origin]] * 5, places=at)
    np.testing.assert_array_equal(opened, values(5 * SLOTS, 0))
    pair = vector.select([1, 2])
    opened = mask_cipher(D).decrypt(pair, origins=[[origin]] * 2, places=at[1:3])
    np.testing.assert_array_equal(opened, values(5 * SLOTS, 0)[SLOTS : 3 * SLOTS])


SUM_OF_A_AND_B = [[origin_of(A), origin_of(B)]]
OTHER_SUMS = {
    "lacks one": [[origin_of(A)]],
    "one too many": [[origin_of(A), origin_of(B), origin_of(C)]],
    "one twice": [[origin_of(A), origin_of(A)]],
    "another party": [[origin_of(A), origin_of(C)]],
    "another message": [[origin_of(A), origin_of(B, nonce=1)]],
    "another field": [[origin_of(A), origin_of(B, field="vertex")]],
    "another view": [[origin_of(A), origin_of(B, view=bytes([1] * 32))]],
    "another round": [[origin_of(A), at_moment(origin_of(B), Moment(1, RoundId(2), "primal"))]],
    "another attempt": [[origin_of(A), at_moment(origin_of(B), Moment(2, RoundId(1), "primal"))]],
    "another phase": [[origin_of(A), at_moment(origin_of(B), Moment(1, RoundId(1), "sync"))]],
    "nobody": [[]],
}


@pytest.mark.parametrize("origins", OTHER_SUMS.values(), ids=OTHER_SUMS)
def test_no_other_sum_opens(origins: list[list[Any]]) -> None:
    at = places(1)
    total = summed(*(contribution(k, values(SLOTS, 1), at) for k in (A, B)))
    mask_cipher(A).decrypt(total, origins=SUM_OF_A_AND_B, places=at)
    with pytest.raises(TagMismatch, match="is not the sum"):
        mask_cipher(A).decrypt(total, origins=origins, places=at)


@pytest.mark.parametrize(
    "change",
    [{"index": 1}, {"stretch": b"other"}, {"holders": ()}, {"holders": PAIR}],
    ids=str,
)
def test_a_block_opens_at_its_own_place_alone(change: dict[str, Any]) -> None:
    at = places(1)
    vector = contribution(C, values(SLOTS, 1), at)
    elsewhere = [replace(at[0], **change)]
    with pytest.raises(TagMismatch):
        mask_cipher(C).decrypt(vector, origins=[[origin_of(C)]], places=elsewhere)


def test_a_vector_of_another_length_or_block_size_does_not_open() -> None:
    at = places(2)
    vector = contribution(A, values(2 * SLOTS, 1), at)
    for origins, where in (([[origin_of(A)]], at), ([[origin_of(A)]] * 2, at[:1])):
        with pytest.raises(TagMismatch):
            mask_cipher(A).decrypt(vector, origins=origins, places=where)
    shorter = replace(vector, integers=vector.integers[:-1])
    foreign = replace(vector, key_bits=3072, integers=vector.integers[:46], tags=vector.tags[:1])
    for wrong in (shorter, foreign):
        with pytest.raises(TagMismatch):
            mask_cipher(A).decrypt(wrong, origins=[[origin_of(A)]] * wrong.block_count, places=at[: wrong.block_count])


@pytest.mark.parametrize("position", [0, SLOTS - 1, SLOTS, 36])
def test_a_changed_word_or_tag_is_refused(position: int) -> None:
    at = places(2)
    vector = contribution(A, values(37, 1), at)
    words = vector.integers.copy()
    words[position] += 1
    block = position // SLOTS
    tags_changed = tuple(tag + (number == block) for number, tag in enumerate(vector.tags))
    for wrong in (replace(vector, integers=words), replace(vector, tags=tags_changed)):
        with pytest.raises(TagMismatch):
            mask_cipher(A).decrypt(wrong, origins=[[origin_of(A)]] * 2, places=at)


def test_a_party_outside_the_group_can_neither_open_nor_forge() -> None:
    """D has the keys of everybody and of its own group, all keys with other parties, and every message."""
    at = places(1)
    vector = contribution(A, values(SLOTS, 1), at)
    with pytest.raises(KeyError):
        mask_cipher(D).decrypt(vector, origins=[[origin_of(A)]], places=at)
    outsider = keys_of(D)
    for known in (*outsider.groups.values(), *outsider.pairs.values()):
        tried = mask_cipher(D, keys=replace(outsider, groups={TRIO: known}))
        with pytest.raises(TagMismatch):
            tried.decrypt(vector, origins=[[origin_of(A)]], places=at)
        forged = tried.encrypt(values(SLOTS, 1), FORMAT, origin=origin_of(A), places=at)
        with pytest.raises(TagMismatch):
            mask_cipher(B).decrypt(forged, origins=[[origin_of(A)]], places=at)


def test_a_known_plaintext_gives_nobody_outside_the_group_another_one() -> None:
    """The mask follows from words and values that are both known; the tag of other values does not."""
    at = places(1)
    vector = contribution(A, values(SLOTS, 1), at)
    shift = np.zeros(SLOTS, dtype=np.uint64)
    shift[3] = 1 << 32
    forged = replace(vector, integers=vector.integers + shift)
    with pytest.raises(TagMismatch):
        mask_cipher(B).decrypt(forged, origins=[[origin_of(A)]], places=at)


@pytest.mark.parametrize("changed", ["pair key", "group key", "run"])
def test_other_keys_and_other_runs_give_other_sums(changed: str) -> None:
    at = places(1)
    given = [contribution(k, values(SLOTS, n), at, among=TRIO) for n, k in enumerate((A, B))]
    keys, run = keys_of(C), "masked"
    if changed == "pair key":
        keys = replace(keys, pairs={**keys.pairs, A: secret("another")})
    elif changed == "group key":
        keys = replace(keys, groups={**keys.groups, TRIO: secret("another")})
    else:
        run = "another"
    odd = mask_cipher(C, keys=keys, run=run)  # type: ignore[arg-type]  # one of several kinds of change
    last = odd.encrypt(values(SLOTS, 2), FORMAT, origin=origin_of(C), places=at, among=[dict.fromkeys(TRIO)])
    with pytest.raises(TagMismatch):
        mask_cipher(A).decrypt(summed(*given, last), origins=[[origin_of(k) for k in TRIO]], places=at)


def test_other_kinds_of_vectors_are_refused() -> None:
    zeros = np.zeros(SLOTS)
    plain, paillier = encrypted(PlainCipher(BITS, tags()), zeros), encrypted(cipher(), zeros)
    masked = contribution(A, zeros, places(1))
    for vector in (plain, paillier):
        with pytest.raises(IncompatibleVectors, match="this run is masked, but the vector is not"):
            mask_cipher(A).decrypt(vector, origins=[[origin_of(A)]], places=places(1))
        with pytest.raises(IncompatibleVectors):
            masked.plus(vector)  # type: ignore[arg-type]  # its class is known when it runs
    for used in (PlainCipher(BITS, tags()), cipher()):
        with pytest.raises(IncompatibleVectors):
            used.decrypt(masked, origins=[[origin_of(A)]], places=places(1))


def test_values_out_of_range_are_refused_before_they_are_masked() -> None:
    with pytest.raises(ValueOutOfRange):
        contribution(A, np.array([FORMAT.bound]), places(1))


def test_a_masked_vector_has_words_of_its_format_and_a_tag_for_each_block() -> None:
    vector = contribution(A, values(SLOTS, 1), places(1))
    with pytest.raises(MalformedVector, match="words of uint32 do not fit slots of 64 bits"):
        replace(vector, integers=vector.integers.astype(np.uint32))
    with pytest.raises(MalformedVector, match="1 blocks have 0 tags"):
        replace(vector, tags=())


@pytest.mark.parametrize("slot_bits", sorted(packing.FRACTION_BITS))
def test_words_of_every_width_wrap_around_and_open(slot_bits: int) -> None:
    """Negative sums, and sums of masked words beyond the width of a word."""
    vector_format = VectorFormat(slot_bits=slot_bits)
    slots = packing.slot_layout(vector_format, BITS).slots
    at, own = places(3), np.linspace(-0.99, 0.99, 2 * slots + 7) * vector_format.bound
    given = [contribution(k, own, at, among=TRIO, vector_format=vector_format) for k in TRIO]
    total = summed(*given)
    opened = mask_cipher(B).decrypt(total, origins=[[origin_of(k) for k in TRIO]] * 3, places=at)
    np.testing.assert_array_equal(opened, 3 * vector_format.dequantise(vector_format.quantise(own)))
    assert total.integers.dtype.itemsize == (4 if slot_bits == 32 else 8)


def test_nothing_secret_is_shown() -> None:
    vector = contribution(A, values(SLOTS, 1), places(1))
    assert repr(vector) == "MaskedVector(30 values, 1 terms)"
    shown = repr(keys_of(A))
    assert "party='a'" in shown
    assert not any(key.hex() in shown or repr(key) in shown for key in keys_of(A).groups.values())
    assert isinstance(vector, MaskedVector)
    assert not isinstance(vector, PlainVector)
