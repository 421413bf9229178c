"""What a chart shows of many rounds: no extreme is lost, and no more is shown than a screen can."""

import numpy as np

from fenchel_deploy.dashboard.thinning import BUCKETS, buckets_of, kept_positions, means


def test_few_values_are_kept_as_they_are() -> None:
    assert kept_positions([np.arange(7.0)]) == list(range(7))
    assert buckets_of(3) == [slice(0, 1), slice(1, 2), slice(2, 3)]


def test_the_extremes_of_every_line_and_both_ends_are_kept() -> None:
    calm, wild = np.ones(10_000), np.ones(10_000)
    calm[1234], wild[7777], wild[7778] = 5.0, -3.0, 9.0
    kept = kept_positions([calm, wild])
    assert {0, 1234, 7777, 7778, 9999} <= set(kept)
    assert kept == sorted(kept)
    assert len(kept) <= 4 * BUCKETS + 2


def test_a_piece_without_a_value_has_no_extreme() -> None:
    values = np.full(10_000, np.nan)
    values[5000] = 1.0
    assert kept_positions([values]) == [0, 5000, 9999]


def test_pieces_cover_everything_once_and_means_are_of_their_own_piece() -> None:
    pieces = buckets_of(1001, 10)
    covered = [position for piece in pieces for position in range(piece.start, piece.stop)]
    assert covered == list(range(1001))
    assert means(np.repeat([1.0, 3.0], 4), buckets_of(8, 2)) == [1.0, 3.0]
