"""Moments are exact however they are divided over parties, and however far values are from zero."""

import numpy as np
import pytest
from numpy.typing import NDArray

from fenchel_common.algorithms.dual import PRODUCT_FORMAT
from fenchel_common.errors import InvalidInput
from fenchel_common.moments import MOMENT_FIELDS, Moments, column_moments

Array = NDArray[np.float64]


def moments(*columns: Array, zeros: int = 0) -> Moments:
    counts, sums, squares = zip(*(column_moments(column, zeros) for column in columns), strict=True)
    return Moments(counts, sums, squares)


def pooled(column: Array, parties: int) -> Moments:
    """The moments of a column that is divided over parties, through limbs as they travel."""
    pieces = [moments(piece).limbs() for piece in np.array_split(column, parties)]
    assert all((np.abs(limbs) < PRODUCT_FORMAT.bound).all() for limbs in pieces)
    assert pieces[0].shape == (MOMENT_FIELDS, 1)
    return Moments.from_limbs(np.sum(pieces, axis=0))


@pytest.mark.parametrize("parties", [1, 2, 7])
@pytest.mark.parametrize(
    ("mean", "deviation"), [(0.0, 1.0), (5000.0, 1200.0), (1e9, 1e-3), (-1e6, 1e5), (0.0, 1e-6), (1e-3, 1e-4)]
)
def test_mean_and_deviation_are_those_of_the_pooled_column(parties: int, mean: float, deviation: float) -> None:
    column = np.random.default_rng(0).normal(mean, deviation, size=500)
    whole = pooled(column, parties)
    exact = column.astype(np.longdouble)
    assert whole.counts == [500]
    assert whole.means()[0] == pytest.approx(float(exact.mean()), rel=1e-12, abs=1e-16)
    assert whole.deviations()[0] == pytest.approx(float(exact.std()), rel=1e-9)
    assert whole.root_mean_squares()[0] == pytest.approx(float(np.sqrt((exact**2).mean())), rel=1e-9)


def test_a_constant_column_has_no_deviation_and_an_empty_one_no_mean() -> None:
    assert pooled(np.full(30, 0.1), 3).deviations().tolist() == [0.0]
    empty = moments(np.zeros(0))
    assert [*empty.means(), *empty.deviations(), *empty.root_mean_squares()] == [0.0, 0.0, 0.0]


def test_zeros_count_like_stored_ones() -> None:
    column = np.array([3.0, -1.5, 7.25])
    assert moments(column, zeros=4) == moments(np.concatenate([column, np.zeros(4)]))


def test_others_take_the_places_of_shared_features() -> None:
    own, other = moments(np.ones(3), np.ones(2)), moments(np.array([1.0, 2.0]))
    assert own.put([1], other).sums == [own.sums[0], other.sums[0]]


@pytest.mark.parametrize("values", [[1e10], [1e200, 1.0]])
def test_values_beyond_the_range_are_refused(values: list[float]) -> None:
    with pytest.raises(InvalidInput, match="too large"):
        column_moments(np.array(values))


@pytest.mark.parametrize("triple", [(-1, 0, 0), (0, 5, 5), (2, 1 << 60, 1), (1, 0, -1)])
def test_moments_that_no_values_have_are_refused(triple: tuple[int, int, int]) -> None:
    impossible = Moments(*([number] for number in triple))
    with pytest.raises(InvalidInput, match="no values have"):
        Moments.from_limbs(impossible.limbs())
