import numpy as np
import pytest
from gmpy2 import mpz
from numpy.typing import NDArray

from fenchel_common.crypto.packing import SlotLayout, VectorFormat, slot_layout
from fenchel_common.errors import ChecksumMismatch, TooManyTerms, ValueNotFinite, ValueOutOfRange

LAYOUTS = [slot_layout(VectorFormat(slot_bits=width), bits) for width in (64, 48) for bits in (256, 2048, 3072, 4096)]
EACH_LAYOUT = pytest.mark.parametrize("layout", LAYOUTS, ids=lambda item: f"{item.key_bits}/{item.format.slot_bits}")


def random_integers(layout: SlotLayout, count: int, seed: int = 0) -> NDArray[np.int64]:
    bound = int(layout.format.integer_bound)
    return np.random.default_rng(seed).integers(-bound + 1, bound, count, dtype=np.int64)


@pytest.mark.parametrize(
    ("bits", "width", "slots", "spare"),
    [(2048, 64, 31, 62), (2048, 48, 42, 30), (3072, 64, 47, 62), (3072, 48, 63, 46)],
)
def test_slots_and_spare_bits_are_those_of_the_design(bits: int, width: int, slots: int, spare: int) -> None:
    layout = slot_layout(VectorFormat(slot_bits=width), bits)
    assert (layout.slots, layout.checksum_width) == (slots, spare)


@EACH_LAYOUT
def test_packing_round_trips_across_blocks(layout: SlotLayout) -> None:
    integers = random_integers(layout, 2 * layout.slots + 1)
    plaintexts = layout.pack(integers)
    assert len(plaintexts) == 3
    assert (layout.unpack(plaintexts, length=integers.size, terms=1) == integers).all()


@EACH_LAYOUT
def test_plaintexts_stay_away_from_half_the_modulus(layout: SlotLayout) -> None:
    """A modulus of k bits is at least 2^(k−1), so |m| < 2^(k−2) keeps the sign through the reduction."""
    bound = int(layout.format.integer_bound) - 1
    for extreme in (bound, -bound):
        plaintext = layout.pack(np.full(layout.slots, extreme, dtype=np.int64))[0] * layout.term_limit
        assert abs(plaintext) < mpz(1) << (layout.key_bits - 2)


def test_a_mask_without_offset_reads_slots_below_a_negative_one_wrong_and_ours_does_not() -> None:
    layout = slot_layout(VectorFormat(), 2048)
    integers = random_integers(layout, 50 * layout.slots)
    plaintexts = layout.pack(integers)
    mask = (1 << 64) - 1
    naive = [(int(m) >> (64 * j)) & mask for m in plaintexts for j in range(layout.slots)]
    signed = np.array([value - (1 << 64) if value >> 63 else value for value in naive], dtype=np.int64)
    assert 0.4 < (signed != integers).mean() < 0.6
    assert (layout.unpack(plaintexts, length=integers.size, terms=1) == integers).all()


@EACH_LAYOUT
def test_extreme_values_of_both_signs_are_exact_at_the_term_limit(layout: SlotLayout) -> None:
    bound = int(layout.format.integer_bound) - 1
    integers = np.resize(np.array([bound, -bound], dtype=np.int64), layout.slots)
    terms = layout.term_limit
    summed = [plaintext * terms for plaintext in layout.pack(integers)]
    layout.check_terms(terms)
    assert (layout.unpack(summed, length=layout.slots, terms=terms) == integers * terms).all()


@EACH_LAYOUT
def test_one_term_beyond_the_limit_is_refused(layout: SlotLayout) -> None:
    with pytest.raises(TooManyTerms, match="decrypt and encrypt afresh"):
        layout.check_terms(layout.term_limit + 1)


def test_default_formats_allow_the_guard_bits_worth_of_terms() -> None:
    assert slot_layout(VectorFormat(), 2048).term_limit == 1024
    assert slot_layout(VectorFormat(slot_bits=48), 2048).term_limit == 256


def test_a_small_public_bound_allows_a_million_rounds() -> None:
    assert slot_layout(VectorFormat(bound=2.0), 3072).term_limit == 2**30


def overflowing_sum(layout: SlotLayout, slot: int) -> list[mpz]:
    """An honest-looking plaintext in which one slot has silently wrapped into its upper neighbour."""
    integers = np.zeros(layout.slots, dtype=np.int64)
    integers[slot] = int(layout.format.integer_bound) - 1
    factor = (1 << layout.format.slot_bits) // (int(layout.format.integer_bound) - 1) + 1
    return [plaintext * factor for plaintext in layout.pack(integers)]


@pytest.mark.parametrize("slot", [0, 7, 29])
def test_an_overflow_of_a_middle_slot_is_detected(slot: int) -> None:
    layout = slot_layout(VectorFormat(), 2048)
    with pytest.raises(ChecksumMismatch, match="overflowed"):
        layout.unpack(overflowing_sum(layout, slot), length=layout.slots, terms=1024)


@pytest.mark.parametrize("slot", [0, 7, 29])
def test_without_the_checksum_that_overflow_would_be_returned_as_numbers(
    slot: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = slot_layout(VectorFormat(), 2048)
    monkeypatch.setattr(SlotLayout, "_verify", lambda *_: None)
    wrong = layout.unpack(overflowing_sum(layout, slot), length=layout.slots, terms=1024)
    assert wrong[slot + 1] == 1


def test_overflows_of_opposite_sign_do_not_cancel_in_the_checksum() -> None:
    layout = slot_layout(VectorFormat(), 2048)
    integers = np.zeros(layout.slots, dtype=np.int64)
    integers[3], integers[9] = 2**40, -(2**40)
    overflowed = [plaintext * 2**25 for plaintext in layout.pack(integers)]
    with pytest.raises(ChecksumMismatch):
        layout.unpack(overflowed, length=layout.slots, terms=1024)


def test_a_random_plaintext_is_refused() -> None:
    layout = slot_layout(VectorFormat(), 2048)
    rng = np.random.default_rng(1)
    for _ in range(200):
        number = mpz.from_bytes(rng.bytes(256), "little") >> 3
        with pytest.raises(ChecksumMismatch):
            layout.unpack([number - (mpz(1) << 2044)], length=layout.slots, terms=1)


def test_a_slot_beyond_the_bound_of_its_terms_is_refused() -> None:
    layout = slot_layout(VectorFormat(bound=2.0), 2048)
    plaintexts = [plaintext * 3 for plaintext in layout.pack(np.array([2**32], dtype=np.int64))]
    assert layout.unpack(plaintexts, length=1, terms=2)[0] == 3 * 2**32
    with pytest.raises(ChecksumMismatch, match="bound of its terms"):
        layout.unpack(plaintexts, length=1, terms=1)


def test_padding_that_is_not_zero_is_refused() -> None:
    layout = slot_layout(VectorFormat(), 2048)
    with pytest.raises(ChecksumMismatch, match="padding"):
        layout.unpack(layout.pack(np.ones(5, dtype=np.int64)), length=4, terms=1)


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


@pytest.mark.parametrize(("slot_bits", "bound"), [(32, 1.0), (64, -1.0), (64, 2.0**32), (64, float("nan"))])
def test_impossible_formats_are_refused(slot_bits: int, bound: float) -> None:
    with pytest.raises(ValueOutOfRange):
        VectorFormat(slot_bits=slot_bits, bound=bound)
