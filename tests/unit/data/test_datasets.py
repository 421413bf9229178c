"""Data sets and their split into shards."""

from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

from fenchel_common.data.datasets import Dataset, load_dataset
from fenchel_common.data.partition import partition
from fenchel_common.errors import InvalidInput
from fenchel_common.objectives import squared_row_norms


@pytest.mark.parametrize(("name", "shape"), [("breast_cancer", (569, 30)), ("digits", (1797, 64))])
def test_built_in_data_is_conditioned_and_labelled_plus_and_minus_one(name: str, shape: tuple[int, int]) -> None:
    data = load_dataset(name)
    assert data.X.shape == shape
    assert len(set(data.features)) == shape[1]
    assert set(data.y) == {-1.0, 1.0}
    assert squared_row_norms(data.X).mean() == pytest.approx(1.0)
    assert not isinstance(data.X, csr_array)
    np.testing.assert_allclose(data.X.mean(axis=0), 0.0, atol=1e-12)


def test_numbers_to_predict_are_standardised() -> None:
    data = load_dataset("diabetes")
    assert data.X.shape == (442, 10)
    assert squared_row_norms(data.X).mean() == pytest.approx(1.0)
    assert (data.y.mean(), data.y.std()) == pytest.approx((0.0, 1.0))
    assert len(set(data.y)) > 100


def test_a_file_of_dense_or_csr_arrays_is_taken(tmp_path: Path) -> None:
    sparse = csr_array(random_array((40, 12), density=0.3, rng=np.random.default_rng(0)))
    y = np.arange(40) % 2
    np.savez(tmp_path / "dense.npz", X=sparse.toarray(), y=y)
    np.savez(
        tmp_path / "sparse.npz",
        data=sparse.data,
        indices=sparse.indices,
        indptr=sparse.indptr,
        shape=np.array(sparse.shape),
        y=y,
    )
    dense, csr = load_dataset(str(tmp_path / "dense.npz")), load_dataset(str(tmp_path / "sparse.npz"))
    assert isinstance(csr.X, csr_array)
    assert csr.X.nnz == sparse.nnz
    assert squared_row_norms(csr.X).mean() == pytest.approx(1.0)
    assert dense.features == csr.features == tuple(sorted(csr.features))
    np.testing.assert_array_equal(dense.y, np.where(y == 1, 1.0, -1.0))


@pytest.mark.parametrize(
    ("arrays", "problem"),
    [
        ({"X": np.ones((3, 2)), "y": np.array([1, 2, 3])}, "y: has 3 classes"),
        ({"X": np.ones((3, 2)), "y": np.array([1, 2])}, "y: has the shape"),
        ({"X": np.ones((3, 2))}, "y: missing"),
        ({"X": np.ones((2, 2)), "y": np.array([1, 2])}, "X: every column is constant"),
        ({"X": np.array([[np.nan], [1.0]]), "y": np.array([1, 2])}, "X: has NaN"),
    ],
)
def test_a_file_that_cannot_be_learnt_from_is_refused_by_field(
    tmp_path: Path, arrays: dict[str, np.ndarray], problem: str
) -> None:
    path = tmp_path / "data.npz"
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)
    with pytest.raises(InvalidInput, match=problem):
        load_dataset(str(path))


def test_an_unknown_data_set_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match=r"dataset: 'iris' is unknown; give breast_cancer, digits, diabetes or"):
        load_dataset("iris")


def small() -> Dataset:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((11, 5))
    return Dataset("small", X, np.where(X[:, 0] > 0, 1.0, -1.0), tuple("abcde"))


@pytest.mark.parametrize("columns", ["contiguous", "shuffled"])
@pytest.mark.parametrize("grid", [(1, 1), (2, 2), (3, 1), (1, 5)])
def test_the_shards_of_a_grid_make_up_the_whole_table(
    grid: tuple[int, int], columns: Literal["contiguous", "shuffled"]
) -> None:
    data = small()
    rebuilt = np.zeros_like(data.X)
    seen = np.zeros(data.X.shape, dtype=int)
    for shard in partition(data, grid=grid, columns=columns, seed=3):
        rows = [int(sample.split("-")[1]) for sample in shard.ids]
        own = [data.features.index(name) for name in shard.features]
        rebuilt[np.ix_(rows, own)] = shard.X
        seen[np.ix_(rows, own)] += 1
        np.testing.assert_array_equal(shard.y, data.y[rows])
    np.testing.assert_array_equal(seen, 1)
    np.testing.assert_array_equal(rebuilt, data.X)


def test_parties_of_one_row_group_list_their_rows_in_different_orders() -> None:
    left, right = partition(small(), grid=(1, 2))
    assert set(left.ids) == set(right.ids)
    assert left.ids != right.ids


def test_only_the_first_column_group_has_labels_if_asked_so() -> None:
    shards = partition(small(), grid=(2, 2), labels="first")
    assert [shard.y is not None for shard in shards] == [True, False, True, False]


def test_a_partition_repeats_with_its_seed() -> None:
    assert partition(small(), grid=(2, 2), seed=1)[0].ids == partition(small(), grid=(2, 2), seed=1)[0].ids
    assert partition(small(), grid=(2, 2), seed=1)[0].ids != partition(small(), grid=(2, 2), seed=2)[0].ids


@pytest.mark.parametrize("grid", [(0, 1), (1, 0), (12, 1), (1, 6)])
def test_a_grid_that_does_not_fit_is_refused(grid: tuple[int, int]) -> None:
    with pytest.raises(InvalidInput, match=r"grid: .* use 1 to 11 row groups and 1 to 5 column groups"):
        partition(small(), grid=grid)
