"""`fenchel shard`: the shards of a made-up federation."""

from pathlib import Path

import numpy as np
import pytest

from fenchel_common.data.datasets import load_dataset
from fenchel_common.data.shard import Shard
from fenchel_common.errors import InvalidInput
from fenchel_deploy.cli.shard import Columns, shard

NAMES = "a,b,c,d"


def shards(directory: Path) -> dict[str, Shard]:
    return {name: Shard.load(directory / name / "shard.npz") for name in NAMES.split(",")}


@pytest.mark.parametrize("columns", list(Columns))
def test_the_shards_hold_the_whole_table_and_no_cell_twice(tmp_path: Path, columns: Columns) -> None:
    shard(names=NAMES, out=tmp_path, dataset="breast_cancer", grid="2x2", columns=columns, seed=3)
    whole = load_dataset("breast_cancer")
    parts = shards(tmp_path)
    assert set(parts["a"].features) | set(parts["b"].features) == set(whole.features)
    assert not set(parts["a"].features) & set(parts["b"].features)
    assert set(parts["a"].ids) == set(parts["b"].ids)
    assert not set(parts["a"].ids) & set(parts["c"].ids)
    assert sum(np.asarray(part.X).size for part in parts.values()) == whole.X.shape[0] * whole.X.shape[1]


def test_the_same_options_give_the_same_shards(tmp_path: Path) -> None:
    for folder in ("first", "second"):
        shard(names=NAMES, out=tmp_path / folder, dataset="breast_cancer", grid="2x2")
    first, second = shards(tmp_path / "first"), shards(tmp_path / "second")
    assert all(first[name].ids == second[name].ids for name in first)


@pytest.mark.parametrize(
    ("names", "grid", "complaint"),
    [
        ("a,b,c", "2x2", "3 different names for a grid of 4 parties"),
        ("a,b,c,c", "2x2", "3 different names for a grid of 4 parties"),
        ("a,../b", "1x2", "not usable as a name"),
        ("a,b", "2by1", "not of the form KxQ"),
    ],
)
def test_names_and_grid_that_do_not_fit_are_refused(tmp_path: Path, names: str, grid: str, complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        shard(names=names, out=tmp_path, grid=grid)
    assert not any(tmp_path.iterdir())
