"""Homomorphism and round trips over extreme values, all slot widths and key sizes."""

from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fenchel_common.crypto.packing import VectorFormat, slot_layout
from fenchel_common.crypto.tags import TAG_PRIME
from fenchel_common.crypto.vectors import total
from fenchel_common.errors import TagMismatch
from support.keys import SMALL_BITS, cipher
from support.keys import tags as block_tags
from support.tagged import ORIGIN, PLACE, decrypted, encrypted

FORMATS = st.sampled_from([VectorFormat(), VectorFormat(slot_bits=48), VectorFormat(bound=2.0), VectorFormat(48, 2.0)])
SMALL = cipher(SMALL_BITS)
Case: TypeAlias = tuple[VectorFormat, list[NDArray[np.int64]]]


@st.composite
def integer_vectors(draw: st.DrawFn, count: int) -> Case:
    vector_format = draw(FORMATS)
    bound = int(vector_format.integer_bound) - 1
    edges = st.sampled_from([0, 1, -1, bound, -bound, bound - 1, 1 - bound])
    element = st.one_of(edges, st.integers(-bound, bound))
    length = draw(st.integers(1, 12))
    vectors = [draw(st.lists(element, min_size=length, max_size=length)) for _ in range(count)]
    return vector_format, [np.array(vector, dtype=np.int64) for vector in vectors]


@given(integer_vectors(1))
@settings(max_examples=60, deadline=None)
def test_decrypt_inverts_encrypt(case: Case) -> None:
    vector_format, (integers,) = case
    values = vector_format.dequantise(integers)
    assert (decrypted(SMALL, encrypted(SMALL, values, vector_format)) == values).all()


@given(integer_vectors(5))
@settings(max_examples=60, deadline=None)
def test_encrypted_and_plain_sums_agree_exactly(case: Case) -> None:
    vector_format, integers = case
    values = [vector_format.dequantise(vector) for vector in integers]
    secret = total([encrypted(SMALL, value, vector_format) for value in values])
    clear = total([encrypted(SMALL.in_clear(), value, vector_format) for value in values])
    expected = vector_format.dequantise(sum(integers[1:], start=integers[0]))
    assert (decrypted(SMALL, secret) == expected).all()
    assert (decrypted(SMALL.in_clear(), clear) == expected).all()
    assert secret.terms == clear.terms


@given(integer_vectors(6))
@settings(max_examples=40, deadline=None)
def test_sums_do_not_depend_on_their_order(case: Case) -> None:
    vector_format, integers = case
    given = [encrypted(SMALL, vector_format.dequantise(vector), vector_format) for vector in integers]
    assert total(given) == total(given[::-1])


@given(integer_vectors(2), st.integers(0, 11), st.integers(-(2**60), 2**60).filter(bool))
@settings(max_examples=60, deadline=None)
def test_no_change_of_one_number_keeps_the_tag(case: Case, position: int, change: int) -> None:
    vector_format, integers = case
    layout = slot_layout(vector_format, SMALL_BITS)
    grids = [layout.grid(vector) for vector in integers]
    tags = [block_tags(SMALL_BITS).made(grid, ORIGIN, [PLACE] * len(grid)) for grid in grids]
    summed, summed_tags = grids[0] + grids[1], [left + right for left, right in zip(*tags, strict=True)]
    expected = block_tags(SMALL_BITS).expected([[ORIGIN] * 2] * len(summed), [PLACE] * len(summed))
    block_tags(SMALL_BITS).check(summed, summed_tags, expected)
    altered = summed.copy()
    altered.reshape(-1)[position % altered.size] += change
    with pytest.raises(TagMismatch):
        block_tags(SMALL_BITS).check(altered, summed_tags, expected)


@given(st.lists(st.floats(-2e6, 2e6, allow_nan=False), min_size=1, max_size=8).map(np.array), st.sampled_from([64, 48]))
@settings(max_examples=60, deadline=None)
def test_the_error_of_floats_is_within_the_stated_bound(values: NDArray[np.float64], slot_bits: int) -> None:
    vector_format = VectorFormat(slot_bits=slot_bits, bound=2.0**21)
    vector = encrypted(SMALL, values, vector_format)
    repeated = total([vector, vector, vector])
    error = np.abs(decrypted(SMALL, repeated) - 3 * values).max()
    assert error <= vector_format.error_bound(3) + 3 * np.spacing(6e6)


@given(st.sampled_from([64, 48]), st.sampled_from([256, 512, 2048, 3072, 4096]), st.data())
@settings(max_examples=80, deadline=None)
def test_packing_inverts_for_every_width_and_key_size(slot_bits: int, key_bits: int, data: st.DataObject) -> None:
    layout = slot_layout(VectorFormat(slot_bits=slot_bits), key_bits)
    bound = int(layout.format.integer_bound) - 1
    integers = np.array(data.draw(st.lists(st.integers(-bound, bound), min_size=1, max_size=100)), dtype=np.int64)
    terms = data.draw(st.integers(1, layout.term_limit))
    tags = data.draw(
        st.lists(st.integers(0, TAG_PRIME - 1), min_size=layout.block_count(integers.size), max_size=100).map(tuple)
    )[: layout.block_count(integers.size)]
    grid, read = layout.unpack([plaintext * terms for plaintext in layout.pack(layout.grid(integers), tags)])
    assert (grid.reshape(-1)[: integers.size] == integers * terms).all()
    assert read == [tag * terms for tag in tags]
