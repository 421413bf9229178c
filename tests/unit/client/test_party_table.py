"""A party's data in memory: each row with its id, in the order of whichever run asks, and X there once."""

import tracemalloc

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fenchel_client.alignment import arrange
from fenchel_client.table import ROWS_AT_ONCE, PartyTable
from fenchel_common.clientlayout import ClientLayout, IgnoredFeatures
from fenchel_common.data.categories import Category, Vocabulary
from fenchel_common.data.shard import Matrix, Shard
from support.layouts import client_layout

Array = NDArray[np.float64]

IDS = tuple(f"patient-{number}" for number in range(12))
VALUES = np.arange(1.0, 37.0).reshape(12, 3)
LABELS = np.arange(12.0)
FEATURES = ("sex", "age", "bmi")
BY_NAME = [1, 2, 0]


def shard(*, sparse: bool) -> Shard:
    return Shard(IDS, FEATURES, csr_array(VALUES) if sparse else VALUES, LABELS)


def layout(
    rows: NDArray[np.int64],
    *,
    unlabelled: NDArray[np.int64] | None = None,
    ignored: tuple[IgnoredFeatures, ...] = (),
) -> ClientLayout:
    """Blocks of three rows."""
    blocks = len(rows) // 3
    return client_layout(
        dict.fromkeys(range(blocks), 3),
        slots=3,
        rows=rows,
        unlabelled=unlabelled,
        ignored=ignored,
        feature_blocks={0: np.arange(3)},
    )


def dense(X: Matrix) -> Array:
    return X.toarray() if isinstance(X, csr_array) else X.copy()


def shuffled(seed: int, count: int = 12) -> NDArray[np.int64]:
    return np.random.default_rng(seed).permutation(count)


def expected(table: PartyTable, rows: NDArray[np.int64]) -> Array:
    """X of the table's ids at these positions of the list."""
    return VALUES[[IDS.index(table.ids[row]) for row in rows]][:, BY_NAME]


@pytest.mark.parametrize("sparse", [False, True])
def test_every_run_finds_the_rows_in_the_order_of_its_own_layout(sparse: bool) -> None:
    table = arrange(shard(sparse=sparse))
    assert sorted(table.ids) == sorted(IDS)
    assert table.y is not None
    assert [IDS[int(label)] for label in table.y] == list(table.ids)
    layouts = [layout(shuffled(seed)) for seed in range(3)]
    for each in (*layouts, *reversed(layouts), layouts[0], layouts[2]):
        np.testing.assert_array_equal(dense(table.matrix(each)), expected(table, each.rows))


@pytest.mark.parametrize("sparse", [False, True])
def test_what_an_earlier_party_gives_is_zero_in_that_run_alone(sparse: bool) -> None:
    table = arrange(shard(sparse=sparse))
    cuts = (IgnoredFeatures(np.array([1]), np.array([0, 2])), IgnoredFeatures(np.array([0, 1]), np.array([2])))
    cut, whole = layout(shuffled(1), ignored=cuts), layout(shuffled(2))
    left = expected(table, cut.rows)
    left[0:3, 1] = 0.0
    left[6:9, :2] = 0.0
    for _ in range(2):
        np.testing.assert_array_equal(dense(table.matrix(cut)), left)
        np.testing.assert_array_equal(dense(table.matrix(whole)), expected(table, whole.rows))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("ignored", [(), (IgnoredFeatures(np.array([2]), np.array([1])),)])
def test_a_layout_of_fewer_rows_loses_none(sparse: bool, ignored: tuple[IgnoredFeatures, ...]) -> None:
    table = arrange(shard(sparse=sparse))
    few, whole = layout(shuffled(1, 6) * 2, unlabelled=np.arange(1, 12, 2), ignored=ignored), layout(shuffled(2))
    left = expected(table, few.rows)
    if ignored:
        left[3:6, 2] = 0.0
    np.testing.assert_array_equal(dense(table.matrix(few)), left)
    np.testing.assert_array_equal(dense(table.matrix(whole)), expected(table, whole.rows))


@pytest.mark.parametrize("sparse", [False, True])
def test_the_shard_stays_as_it_is(sparse: bool) -> None:
    given = shard(sparse=sparse)
    table = arrange(given)
    table.matrix(layout(shuffled(1), ignored=(IgnoredFeatures(np.array([1]), np.array([0])),)))
    np.testing.assert_array_equal(dense(given.X), VALUES)


@pytest.mark.parametrize("sparse", [False, True])
def test_features_of_a_vocabulary_are_added_while_another_run_is_at_work(sparse: bool) -> None:
    sexes = Category("kind", ("a", "b"), np.arange(12, dtype=np.int32) % 2)
    with_gap = np.where(VALUES == 5.0, np.nan, VALUES)
    X = csr_array(with_gap) if sparse else with_gap
    table = arrange(Shard(IDS, FEATURES, X, LABELS, frozenset({"age"})))
    at_work = layout(shuffled(1), ignored=(IgnoredFeatures(np.array([1]), np.array([0])),))
    before = dense(table.matrix(at_work))
    wider = table.expanded(Vocabulary(indicators=frozenset({"age"})))
    assert sorted(wider.features) == ["age", "age is missing", "bmi", "sex"]
    order = [IDS.index(sample) for sample in wider.ids]
    listed = client_layout({0: 12}, slots=12, rows=np.arange(12), feature_blocks={0: np.arange(4)})
    whole = with_gap[order]
    expected_columns = [whole[:, 1], np.isnan(whole[:, 1]), whole[:, 2], whole[:, 0]]
    np.testing.assert_array_equal(dense(wider.matrix(listed)), np.column_stack(expected_columns))
    np.testing.assert_array_equal(dense(table.matrix(at_work)), before)
    categories = arrange(Shard(IDS, FEATURES, X, LABELS, frozenset({"age"}), (sexes,)))
    kinds = categories.expanded(Vocabulary({"kind": ("b",)}))
    column = dense(kinds.matrix(listed))[:, 2]
    np.testing.assert_array_equal(column, [IDS.index(sample) % 2 for sample in kinds.ids])


def test_more_rows_than_are_copied_in_one_step_all_arrive() -> None:
    count = 2 * ROWS_AT_ONCE + 1
    X = np.random.default_rng(0).standard_normal((count, 2))
    table = PartyTable.of(Shard(tuple(map(str, range(count))), ("b", "a"), X, None), shuffled(0, count))
    laid_out = client_layout(
        dict.fromkeys(range(count), 1), slots=3, rows=shuffled(1, count), feature_blocks={0: np.arange(2)}
    )
    rows = [int(table.ids[row]) for row in laid_out.rows]
    np.testing.assert_array_equal(table.matrix(laid_out), X[rows][:, ::-1])


def test_a_change_of_runs_takes_the_memory_of_a_few_columns() -> None:
    X = np.ones((12, 100_000))
    table = PartyTable.of(Shard(IDS, tuple(map(str, range(100_000))), X, None), shuffled(0))
    first, second = (
        client_layout({0: 12}, slots=1024, rows=shuffled(seed), feature_blocks=blocks_of(100_000)) for seed in range(2)
    )
    table.matrix(first)
    tracemalloc.start()
    try:
        table.matrix(second)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 0.01 * X.nbytes


def blocks_of(count: int) -> dict[int, NDArray[np.int64]]:
    return {start // 1024: np.arange(start, min(start + 1024, count)) for start in range(0, count, 1024)}
