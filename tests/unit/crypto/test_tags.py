"""Tags of blocks: sums keep them, and nothing else does; with a toy prime, guesses succeed as often as predicted."""

import numpy as np
import pytest
from numpy.typing import NDArray

from fenchel_common.crypto.tags import TAG_PRIME, PadSum, Tagger
from fenchel_common.errors import TagMismatch

KEY = bytes(range(32))
SLOTS = 30
TAGGER = Tagger(KEY, slots=SLOTS)


def blocks(count: int, seed: int = 0) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(-(2**53), 2**53, (count, SLOTS), dtype=np.int64)


def pads(count: int, seed: int = 0) -> list[int]:
    rng = np.random.default_rng([seed, 1])
    return [int.from_bytes(rng.bytes(32)) % TAG_PRIME for _ in range(count)]


def accepted(grid: NDArray[np.int64], tags: list[int], expected: list[PadSum], tagger: Tagger = TAGGER) -> bool:
    try:
        tagger.check(grid, tags, expected)
    except TagMismatch:
        return False
    return True


def test_a_block_has_its_own_tag_and_a_sum_the_sum_of_tags() -> None:
    count = 5
    grids, drawn = [blocks(3, seed) for seed in range(count)], [pads(3, seed) for seed in range(count)]
    tags = [TAGGER.tags(grid, own) for grid, own in zip(grids, drawn, strict=True)]
    assert all(0 <= tag < TAG_PRIME for own in tags for tag in own)
    for grid, own, padded in zip(grids, tags, drawn, strict=True):
        assert accepted(grid, own, [PadSum(1, pad) for pad in padded])
    summed = [sum(column) for column in zip(*tags, strict=True)]
    expected = [PadSum(count, sum(column) % TAG_PRIME) for column in zip(*drawn, strict=True)]
    assert accepted(sum(grids[1:], start=grids[0]), summed, expected)


def test_weights_follow_from_the_key_and_from_the_slot() -> None:
    unit = np.eye(SLOTS, dtype=np.int64)
    weights = TAGGER.tags(unit, [0] * SLOTS)
    assert len(set(weights)) == SLOTS
    assert not set(weights) & set(Tagger(KEY[::-1], slots=SLOTS).tags(unit, [0] * SLOTS))
    assert Tagger(KEY, slots=4).tags(unit[:4, :4], [0] * 4) == weights[:4]


@pytest.mark.parametrize("multiple", [-2, -1, 1, 2, 2**20])
def test_a_tag_moved_by_a_multiple_of_the_prime_is_out_of_range(multiple: int) -> None:
    """Whoever adds q and sees it accepted would know that the tag is small, and so something of a value."""
    grid, drawn = blocks(1), pads(1)
    (tag,) = TAGGER.tags(grid, drawn)
    assert accepted(grid, [tag], [PadSum(1, drawn[0])])
    assert not accepted(grid, [tag + multiple * TAG_PRIME], [PadSum(1, drawn[0])])


def test_the_range_of_a_sum_grows_with_its_terms_and_not_beyond() -> None:
    grid, drawn = blocks(1), pads(1)
    (tag,) = TAGGER.tags(grid, drawn)
    for terms in (1, 2, 7):
        expected = [PadSum(terms, terms * drawn[0] % TAG_PRIME)]
        assert accepted(terms * grid, [terms * tag], expected)
        assert not accepted(terms * grid, [terms * tag + terms * TAG_PRIME], expected)
        assert not accepted(terms * grid, [terms * tag - terms * TAG_PRIME], expected)


def test_a_sum_of_nothing_has_no_tag() -> None:
    """Zero blocks of zero terms would be what anybody can make; no tag is in the range of no terms."""
    assert not accepted(np.zeros((1, SLOTS), dtype=np.int64), [0], [PadSum(0, 0)])


@pytest.mark.parametrize("slot", [0, 13, 29])
@pytest.mark.parametrize("change", [1, -1, 2**32, 2**53, -(2**53), 2**62])
def test_a_number_moved_in_any_slot_is_noticed(slot: int, change: int) -> None:
    grid, drawn = blocks(1), pads(1)
    tags = TAGGER.tags(grid, drawn)
    grid[0, slot] += change
    assert not accepted(grid, tags, [PadSum(1, drawn[0])])


def test_one_wrong_block_makes_all_of_them_wrong() -> None:
    grid, drawn = blocks(4), pads(4)
    tags, expected = TAGGER.tags(grid, drawn), [PadSum(1, pad) for pad in drawn]
    assert accepted(grid, tags, expected)
    for position in range(4):
        altered = [tag + (number == position) for number, tag in enumerate(tags)]
        assert not accepted(grid, altered, expected)
    assert not accepted(grid[[1, 0, 2, 3]], tags, expected)
    assert not accepted(grid, [tags[1], tags[0], *tags[2:]], expected)


def test_grids_tags_and_expectations_of_different_lengths_are_refused() -> None:
    grid, drawn = blocks(3), pads(3)
    tags, expected = TAGGER.tags(grid, drawn), [PadSum(1, pad) for pad in drawn]
    for rows, own, due in ((2, 3, 3), (3, 2, 3), (3, 3, 2), (0, 0, 3), (3, 0, 0), (0, 3, 3)):
        assert not accepted(grid[:rows], tags[:own], expected[:due])
    assert accepted(grid[:0], [], [])


def test_slots_beyond_the_weights_are_refused() -> None:
    """No weight, no tag: whoever adds numbers there would not be noticed."""
    grid, drawn = blocks(1), pads(1)
    tags, expected = TAGGER.tags(grid, drawn), [PadSum(1, drawn[0])]
    for beyond in (0, 1, 10**6):
        assert not accepted(np.hstack([grid, [[beyond]]]), tags, expected)
    with pytest.raises(AssertionError):
        TAGGER.tags(np.hstack([grid, [[7]]]), drawn)


def test_a_guess_succeeds_with_a_toy_prime_as_often_as_predicted_and_never_with_ours() -> None:
    """An adder that moves a block by a known difference must guess Σ r_j·d_j modulo q: one chance in q."""
    prime, tries = 251, 20_000
    rng = np.random.default_rng(3)
    changes = rng.integers(-5, 6, (tries, SLOTS))
    changes[~changes.any(axis=1), 0] = 1
    guesses = rng.integers(0, prime, tries)
    grid, pad = blocks(1), 100
    hits = genuine = 0
    for number in range(tries):
        # A key of its own for each try: weights that are found once would be known from then on.
        key = number.to_bytes(4)
        toy, ours = Tagger(key, slots=SLOTS, test_only_prime=prime), TAGGER
        moved = grid + changes[number]
        guess = int(guesses[number])
        tag, real = toy.tags(grid, [pad])[0], ours.tags(grid, [pad])[0] if number < 1000 else 0
        hits += accepted(moved, [(tag + guess) % prime], [PadSum(1, pad)], toy)
        genuine += number < 1000 and accepted(moved, [(real + guess) % TAG_PRIME], [PadSum(1, pad)], ours)
    assert genuine == 0
    expected = tries / prime
    assert abs(hits - expected) < 4 * expected**0.5, (hits, expected)


def test_linear_sums_are_exact_at_the_extremes() -> None:
    """The sums are made of limbs in floating point; with whole numbers of Python they are the same."""
    extremes = [0, 1, -1, 2**22, -(2**22), 2**44 - 1, -(2**44), 2**63 - 1, -(2**63)]
    generator = np.random.default_rng(1)
    grid = np.concatenate(
        [
            np.array([[value] * SLOTS for value in extremes], dtype=np.int64),
            generator.integers(-(2**63), 2**63 - 1, size=(200, SLOTS), dtype=np.int64),
        ]
    )
    weights = TAGGER.tags(np.eye(SLOTS, dtype=np.int64), [0] * SLOTS)
    expected = [sum(weight * value for weight, value in zip(weights, row, strict=True)) for row in grid.tolist()]
    assert TAGGER.tags(grid, [0] * len(grid)) == [total % TAG_PRIME for total in expected]
    widest = Tagger(KEY, slots=128)
    weights = widest.tags(np.eye(128, dtype=np.int64), [0] * 128)
    row = np.full((1, 128), -(2**63), dtype=np.int64)
    assert widest.tags(row, [0]) == [sum(weights) * -(2**63) % TAG_PRIME]
