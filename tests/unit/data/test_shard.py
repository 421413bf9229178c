"""Shards: what a party may hold, and how it is told what is wrong."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fenchel_common.data.shard import Shard
from fenchel_common.errors import InvalidInput, Refusal

IDS = ("a", "b", "c")
FEATURES = ("age", "bmi")


def matrix() -> NDArray[np.float64]:
    return np.array([[1.0, 0.0], [0.0, 2.5], [3.0, -1.0]])


@pytest.mark.parametrize("make", [matrix, lambda: csr_array(matrix())], ids=["dense", "csr"])
@pytest.mark.parametrize("labels", [None, np.array([1.0, -1.0, 1.0])], ids=["without labels", "with labels"])
def test_a_saved_shard_loads_equal(
    tmp_path: Path, make: Callable[[], NDArray[np.float64] | csr_array], labels: NDArray[np.float64] | None
) -> None:
    shard = Shard(IDS, FEATURES, make(), labels)
    shard.save(tmp_path / "shard.npz")
    loaded = Shard.load(tmp_path / "shard.npz")
    assert (loaded.ids, loaded.features) == (IDS, FEATURES)
    assert isinstance(loaded.X, csr_array) == isinstance(shard.X, csr_array)
    np.testing.assert_array_equal(loaded.X.toarray() if isinstance(loaded.X, csr_array) else loaded.X, matrix())
    if labels is None:
        assert loaded.y is None
    else:
        np.testing.assert_array_equal(loaded.y, labels)


def test_duplicate_ids_are_refused_by_their_rows_and_not_shown() -> None:
    with pytest.raises(Refusal, match="rows 1 and 3 have the same id") as caught:
        Shard(("patient-7", "b", "patient-7"), FEATURES, matrix(), None)
    assert "patient-7" not in f"{caught.value} {caught.value.public_reason}"


@pytest.mark.parametrize(
    ("ids", "features", "X", "y", "field"),
    [
        (("a", "b"), FEATURES, matrix(), None, "X: has the shape"),
        (IDS, ("age",), matrix(), None, "X: has the shape"),
        (IDS, ("age", "age"), matrix(), None, "features: 'age' occurs more than once"),
        (IDS, ("age", ""), matrix(), None, "empty name"),
        (IDS, FEATURES, matrix() * np.nan, None, "X: row 1, column 'age': is NaN or infinite"),
        (IDS, FEATURES, matrix(), np.ones(2), "y: has the shape"),
        (IDS, FEATURES, matrix(), np.array([1.0, np.inf, 1.0]), "y: has NaN"),
        ((), FEATURES, np.zeros((0, 2)), None, "at least one row"),
    ],
)
def test_a_shard_that_cannot_be_used_is_refused_by_field(
    ids: tuple[str, ...],
    features: tuple[str, ...],
    X: NDArray[np.float64],
    y: NDArray[np.float64] | None,
    field: str,
) -> None:
    with pytest.raises(InvalidInput, match=field):
        Shard(ids, features, X, y)


def test_repr_shows_no_id() -> None:
    assert "patient" not in repr(Shard(("patient-1", "patient-2", "c"), FEATURES, matrix(), None))


@pytest.mark.parametrize(
    ("arrays", "problem"),
    [
        ({"features": np.array(FEATURES), "X": matrix()}, "ids: missing"),
        ({"ids": np.array(IDS), "features": np.array(FEATURES)}, "X: missing"),
        ({"ids": np.array([[1, 2, 3]]), "features": np.array(FEATURES), "X": matrix()}, "ids: must be"),
        ({"ids": np.array(IDS), "features": np.array(FEATURES), "X": np.array([["x"]])}, "X: must be numbers"),
        (
            {
                "ids": np.array(IDS),
                "features": np.array(FEATURES),
                "data": np.ones(1),
                "indices": np.array([9]),
                "indptr": np.array([0, 1, 1, 1]),
                "shape": np.array([3, 2]),
            },
            "not a CSR matrix",
        ),
    ],
)
def test_a_file_with_a_bad_array_is_refused_by_field(
    tmp_path: Path, arrays: dict[str, NDArray[np.generic]], problem: str
) -> None:
    path = tmp_path / "shard.npz"
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)
    with pytest.raises(InvalidInput, match=problem):
        Shard.load(path)


def test_a_file_that_is_no_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "shard.npz"
    path.write_bytes(b"not an archive")
    with pytest.raises(InvalidInput, match=r"not a readable \.npz"):
        Shard.load(path)
    with pytest.raises(InvalidInput, match="no such file"):
        Shard.load(tmp_path / "missing.npz")


def test_a_pickled_array_is_not_unpickled(tmp_path: Path) -> None:
    path = tmp_path / "shard.npz"
    np.savez(path, ids=np.array([object()], dtype=object))
    with pytest.raises(InvalidInput, match="ids: is an array of Python objects"):
        Shard.load(path)
