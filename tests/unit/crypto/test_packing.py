import numpy as np
import pytest
from gmpy2 import mpz
from numpy.typing import NDArray

from fenchel_common.crypto.packing import SlotLayout, VectorFormat, slot_layout
from fenchel_common.crypto.tags import TAG_PRIME, PadSum
from fenchel_common.errors import TagMismatch, TooManyTerms, ValueNotFinite, ValueOutOfRange
from support.keys import tags as block_tags

PAD = TAG_PRIME // 3

LAYOUTS = [slot_layout(VectorFormat(slot_bits=width), bits) for width in (64, 48) for bits in (256, 2048, 3072, 4096)]
EACH_LAYOUT = pytest.mark.parametrize("layout", LAYOUTS, ids=lambda item: f"{item.key_bits}/{item.format.slot_bits}")


def random_integers(layout: SlotLayout, count: int, seed: int = 0) -> NDArray[np.int64]:
    bound = int(layout.format.integer_bound)
    return np.random.default_rng(seed).integers(-bound + 1, bound, count, dtype=np.int64)


@pytest.mark.parametrize(
    ("bits", "width", "slots", "tag"),
    [(2048, 64, 30, 126), (2048, 48, 40, 126), (3072, 64, 46, 126), (3072, 48, 61, 142)],
)
def test_slots_and_bits_of_the_tag_are_those_of_the_design(bits: int, width: int, slots: int, tag: int) -> None:
    layout = slot_layout(VectorFormat(slot_bits=width), bits)
    assert (layout.slots, layout.tag_width) == (slots, tag)


@EACH_LAYOUT
def test_packing_round_trips_across_blocks(layout: SlotLayout) -> None:
    integers = random_integers(layout, 2 * layout.slots + 1)
    tags = [0, TAG_PRIME - 1, 12345]
    plaintexts = layout.pack(layout.grid(integers), tags)
    assert len(plaintexts) == 3
    grid, read = layout.unpack(plaintexts)
    assert (grid.reshape(-1)[: integers.size] == integers).all()
    assert not grid.reshape(-1)[integers.size :].any()
    assert read == tags


@EACH_LAYOUT
def test_plaintexts_stay_away_from_half_the_modulus(layout: SlotLayout) -> None:
    """A modulus of k bits is at least 2^(k−1), so |m| < 2^(k−2) keeps the sign through the reduction."""
    for bound in (1 - int(layout.format.integer_bound), int(layout.format.integer_bound) - 1):
        grid = np.full((1, layout.slots), bound, dtype=np.int64)
        for tag in (0, TAG_PRIME - 1):
            assert abs(layout.pack(grid, [tag])[0] * layout.term_limit) < mpz(1) << (layout.key_bits - 2)


def test_a_mask_without_offset_reads_slots_below_a_negative_one_wrong_and_ours_does_not() -> None:
    layout = slot_layout(VectorFormat(), 2048)
    integers = random_integers(layout, 50 * layout.slots)
    plaintexts = layout.pack(layout.grid(integers), [0] * 50)
    mask = (1 << 64) - 1
    naive = [(int(m) >> (64 * j)) & mask for m in plaintexts for j in range(layout.slots)]
    signed = np.array([value - (1 << 64) if value >> 63 else value for value in naive], dtype=np.int64)
    assert 0.4 < (signed != integers).mean() < 0.6
    assert (layout.unpack(plaintexts)[0].reshape(-1) == integers).all()


@EACH_LAYOUT
def test_extreme_values_and_tags_are_exact_at_the_term_limit(layout: SlotLayout) -> None:
    bound = int(layout.format.integer_bound) - 1
    integers = np.resize(np.array([bound, -bound], dtype=np.int64), layout.slots)
    terms = layout.term_limit
    layout.check_terms(terms)
    for tag in (0, TAG_PRIME - 1):
        grid, tags = layout.unpack([plaintext * terms for plaintext in layout.pack(layout.grid(integers), [tag])])
        assert (grid[0] == integers * terms).all()
        assert tags == [tag * terms]


@EACH_LAYOUT
def test_a_tag_that_an_adder_made_negative_is_read_as_it_is(layout: SlotLayout) -> None:
    """So that the check of its range refuses it, and nothing of it runs into the slots."""
    integers = random_integers(layout, layout.slots)
    grid, tags = layout.unpack([-plaintext for plaintext in layout.pack(layout.grid(integers), [7])])
    assert (grid[0] == -integers).all()
    assert tags == [-7]


@EACH_LAYOUT
def test_one_term_beyond_the_limit_is_refused(layout: SlotLayout) -> None:
    with pytest.raises(TooManyTerms, match="decrypt and encrypt afresh"):
        layout.check_terms(layout.term_limit + 1)


def test_default_formats_allow_the_guard_bits_worth_of_terms() -> None:
    assert slot_layout(VectorFormat(), 2048).term_limit == 1024
    assert slot_layout(VectorFormat(slot_bits=48), 2048).term_limit == 256


def test_a_small_public_bound_allows_a_million_rounds() -> None:
    assert slot_layout(VectorFormat(bound=2.0), 3072).term_limit == 2**30


def test_the_tag_bounds_the_terms_of_a_format_whose_slots_would_take_more() -> None:
    layout = slot_layout(VectorFormat(bound=2.0**-30), 2048)
    assert layout.term_limit == 2 ** (126 - 1 - 89)


@pytest.mark.parametrize("slot", [0, 7, 28])
def test_a_slot_that_overflows_into_its_neighbour_does_not_keep_the_tag(slot: int) -> None:
    layout = slot_layout(VectorFormat(), 2048)
    integers = np.zeros(layout.slots, dtype=np.int64)
    integers[slot] = int(layout.format.integer_bound) - 1
    factor = (1 << 64) // int(integers[slot]) + 1
    tag = block_tags().tagger.tags(layout.grid(integers), [PAD])
    grid, tags = layout.unpack([plaintext * factor for plaintext in layout.pack(layout.grid(integers), tag)])
    assert grid[0, slot + 1] == 1
    with pytest.raises(TagMismatch):
        block_tags().tagger.check(grid, tags, [PadSum(factor, factor * PAD % TAG_PRIME)])


def test_a_plaintext_that_is_wider_than_slots_and_tag_is_refused() -> None:
    layout = slot_layout(VectorFormat(), 2048)
    for plaintext in (mpz(1) << 2046, -(mpz(1) << 2046), layout.offset * 2):
        with pytest.raises(TagMismatch, match="wider"):
            layout.unpack([plaintext])


def test_a_random_plaintext_is_refused() -> None:
    layout = slot_layout(VectorFormat(), 2048)
    rng = np.random.default_rng(1)
    for _ in range(200):
        number = mpz.from_bytes(rng.bytes(256), "little") >> 3
        grid, tags = layout.unpack([number - (mpz(1) << 2044)])
        with pytest.raises(TagMismatch):
            block_tags().tagger.check(grid, tags, [PadSum(1, PAD)])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused_by_position(value: float) -> None:
    with pytest.raises(ValueNotFinite, match="value 2 is NaN or infinite"):
        VectorFormat().quantise(np.array([1.0, 2.0, value]))


@pytest.mark.parametrize("value", [2.0**21, -(2.0**21), 1e30, -1e300, np.float64(np.iinfo(np.int64).min)])
def test_values_at_or_beyond_the_bound_are_refused_without_showing_them(value: float) -> None:
    with pytest.raises(ValueOutOfRange, match="value 1 is not below the public bound") as caught:
        VectorFormat().quantise(np.array([0.5, value]))
    assert str(value) not in str(caught.value).replace(f"{2.0**21:g}", "")


def test_values_just_inside_the_bound_are_accepted() -> None:
    inside = 2.0**21 - 2.0**-32
    assert (VectorFormat().quantise(np.array([inside, -inside])) == np.array([2**53 - 1, 1 - 2**53])).all()


def test_rounding_is_within_half_a_unit() -> None:
    values = np.random.default_rng(2).uniform(-1e6, 1e6, 10_000)
    for vector_format in (VectorFormat(), VectorFormat(slot_bits=48, bound=2.0**23)):
        back = vector_format.dequantise(vector_format.quantise(values))
        assert np.abs(back - values).max() <= vector_format.error_bound(1)


@pytest.mark.parametrize(("slot_bits", "bound"), [(40, 1.0), (64, -1.0), (64, 2.0**32), (64, float("nan"))])
def test_impossible_formats_are_refused(slot_bits: int, bound: float) -> None:
    with pytest.raises(ValueOutOfRange):
        VectorFormat(slot_bits=slot_bits, bound=bound)
