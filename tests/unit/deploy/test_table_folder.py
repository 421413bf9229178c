"""The tables of several parties, pooled and prepared in one place to compare with."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fenchel_common.data.shard import Shard
from fenchel_common.errors import InvalidInput
from fenchel_common.runsections import FeaturesConfig
from fenchel_deploy.tablefolder import pooled, read_tables, scale_of, table_folders

Array = NDArray[np.float64]


def shard(ids: str, features: str, X: list[list[float]], y: list[float] | None) -> Shard:
    imputed = frozenset(features) if np.isnan(X).any() else frozenset()
    return Shard(tuple(ids), tuple(features), np.array(X), None if y is None else np.array(y), imputed)


def test_samples_with_labels_are_pooled_standardised_and_filled_in() -> None:
    shards = {
        "clinic": shard("abc", "p", [[1.0], [np.nan], [5.0]], [1.0, -1.0, 1.0]),
        "lab": shard("bxa", "q", [[2.0], [9.0], [4.0]], None),
    }
    dataset = pooled("both", shards, FeaturesConfig())
    assert dataset.features == ("p", "q")
    assert dataset.y.tolist() == [1.0, -1.0, 1.0]
    np.testing.assert_allclose(np.asarray(dataset.X), [[-1.0, 1.0], [0.0, -1.0], [1.0, 0.0]])
    assert scale_of(shards) == "standard"


def test_sparse_tables_are_divided_by_the_root_of_the_mean_square() -> None:
    one = shard("ab", "p", [[3.0], [0.0]], [1.0, -1.0])
    other = shard("ab", "q", [[0.0], [4.0]], None)
    shards = {"one": Shard(one.ids, one.features, csr_array(one.X), one.y), "other": other}
    dataset = pooled("both", shards, FeaturesConfig(scale="rms"))
    assert isinstance(dataset.X, csr_array)
    np.testing.assert_allclose(dataset.X.toarray(), np.sqrt(2.0) * np.eye(2))
    assert scale_of(shards) == "rms"


def test_a_folder_without_parties_or_labels_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="is no folder"):
        table_folders(tmp_path / "none")
    with pytest.raises(InvalidInput, match="has no folders"):
        table_folders(tmp_path)
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "t.csv").write_text("id,age\n1,2\n2,3\n")
    folders = table_folders(tmp_path)
    assert list(folders) == ["lab"]
    with pytest.raises(InvalidInput, match="no table has labels"):
        pooled("folder", read_tables(folders), FeaturesConfig())
