"""The search for order statistics by counts finds exactly those of the pooled values, rounded to float32."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fenchel_common.errors import InvalidInput
from fenchel_common.moments import LARGEST, Moments, column_moments
from fenchel_common.ranges import (
    STEPS,
    THRESHOLDS,
    RangeScale,
    RangeSearch,
    counts_from_values,
    counts_to_values,
    keys_of,
    values_of,
)

Array = NDArray[np.float64]

QUARTERS = (0.25, 0.5, 0.75)
RNG = np.random.default_rng(5)
COLUMNS = {
    "normal": RNG.normal(size=101),
    "negative": -np.exp(RNG.normal(size=57)),
    "ties": RNG.integers(0, 3, size=80).astype(float),
    "huge": RNG.normal(size=41) * 1e9,
    "tiny": RNG.normal(size=40) * 1e-9,
    "both zeros": np.array([-0.0, 0.0] * 20 + [1.0]),
    "ten": np.arange(10.0) - 4.5,
}


def moments_of(columns: list[Array]) -> Moments:
    return Moments(*zip(*(column_moments(column) for column in columns), strict=True))


def search_of(columns: list[Array], scale: RangeScale, *, fewest: int = 10, flags: tuple[int, ...] = ()) -> RangeSearch:
    marked = np.isin(np.arange(len(columns)), flags)
    return RangeSearch.of(moments_of(columns), scale, fewest=fewest, flags=marked)


def searched(columns: list[Array], scale: RangeScale) -> Array:
    """The results of the search in these columns, each split between two holders."""
    search = search_of(columns, scale)
    while not search.over:
        thresholds = search.thresholds()
        halves = [
            np.stack(
                [np.searchsorted(np.sort(keys_of(c[part])), thresholds[:, :, j]) for j, c in enumerate(columns)], -1
            )
            for part in (slice(0, None, 2), slice(1, None, 2))
        ]
        search = search.after(counts_from_values(counts_to_values(halves[0]) + counts_to_values(halves[1])))
    return search.values()


@pytest.mark.parametrize("name", COLUMNS)
def test_extremes_and_quartiles_are_those_of_the_pooled_column(name: str) -> None:
    column = COLUMNS[name].astype(np.float32).astype(np.float64)
    assert searched([COLUMNS[name]], "minmax")[:, 0].tolist() == [column.min(), column.max()]
    expected = np.quantile(column, QUARTERS, method="inverted_cdf")
    assert searched([COLUMNS[name]], "quantile")[:, 0].tolist() == expected.tolist()


def test_features_are_searched_side_by_side() -> None:
    columns = list(COLUMNS.values())
    for position, column in enumerate(columns):
        np.testing.assert_array_equal(searched(columns, "quantile")[:, position], searched([column], "quantile")[:, 0])


@given(st.lists(st.floats(-LARGEST / 2, LARGEST / 2, width=32), min_size=1, max_size=30))
def test_keys_keep_the_order_and_give_the_values_back(values: list[float]) -> None:
    column = np.array(values)
    np.testing.assert_array_equal(np.sort(column), values_of(np.sort(keys_of(column))))
    assert (keys_of(column) >= 0).all()
    assert (keys_of(column) < 2**32).all()


def test_few_values_constants_flags_and_values_too_close_together_are_not_searched() -> None:
    columns = [
        np.arange(9.0),
        np.arange(10.0),
        np.full(50, 0.1),
        np.array([1e9 + second for second in range(60)]),
        np.array([0.0, 1.0] * 30),
        np.zeros(0),
    ]
    assert search_of(columns, "minmax", flags=(4,)).searched.tolist() == [False, True, False, False, False, False]
    assert not search_of(columns, "quantile", fewest=61).searched.any()


@pytest.mark.parametrize("wrong", ["falling", "negative", "too many"])
def test_counts_that_no_values_have_are_refused(wrong: str) -> None:
    search = search_of([np.arange(20.0)], "minmax")
    counts = np.tile(np.arange(THRESHOLDS)[np.newaxis, :, np.newaxis], (2, 1, 1))
    assert search.after(counts).step == 1
    changed = {"falling": counts[:, ::-1], "negative": counts - 1, "too many": counts + 10}[wrong]
    with pytest.raises(InvalidInput, match="no values have these numbers"):
        search.after(changed)


def test_the_search_takes_as_many_steps_as_there_are_phases() -> None:
    search = search_of([np.arange(20.0)], "minmax")
    for _ in range(STEPS):
        assert not search.over
        search = search.after(np.zeros_like(search.thresholds()))
    assert search.over
