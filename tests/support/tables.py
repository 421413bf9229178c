"""Small tables for federations of real processes."""

import numpy as np

from fenchel_common.data.datasets import Dataset
from fenchel_common.data.partition import partition
from fenchel_common.data.shard import Shard


def small_dataset(rows: int = 120, columns: int = 6, *, seed: int = 0) -> Dataset:
    """Two overlapping classes; rows of norm about 1."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns))
    y = np.where(X @ rng.normal(size=columns) + rng.normal(scale=0.7, size=rows) >= 0, 1.0, -1.0)
    X /= np.sqrt((X**2).sum(axis=1).mean())
    return Dataset("table", X, y, tuple(f"f{column}" for column in range(columns)))


def named_shards(dataset: Dataset, *, grid: tuple[int, int]) -> dict[str, Shard]:
    return {f"p{number}": shard for number, shard in enumerate(partition(dataset, grid=grid), start=1)}
