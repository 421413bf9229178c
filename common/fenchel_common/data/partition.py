"""Splits a whole data set into the shards of a made-up federation."""

from typing import Literal

import numpy as np

from fenchel_common.data.datasets import Dataset
from fenchel_common.data.shard import Shard
from fenchel_common.errors import InvalidInput


def partition(
    dataset: Dataset,
    *,
    grid: tuple[int, int],
    columns: Literal["contiguous", "shuffled"] = "contiguous",
    labels: Literal["all", "first"] = "all",
    seed: int = 0,
) -> list[Shard]:
    """K row groups times Q column groups, as K·Q shards: shard r·Q + c holds row group r and column group c.

    Rows are assigned at random; columns are divided in their order or at random. Every party gets its rows in an order
    of its own, so that only the ids tell which rows belong together. With `labels="first"` only the parties of the
    first column group know the labels.
    """
    row_groups, column_groups = grid
    count, width = dataset.X.shape
    if not 1 <= row_groups <= count or not 1 <= column_groups <= width:
        raise InvalidInput(
            f"grid: {row_groups}x{column_groups} does not fit; "
            f"use 1 to {count} row groups and 1 to {width} column groups"
        )
    rng = np.random.default_rng([seed, 0])
    digits = len(str(count - 1))
    rows_of = np.array_split(rng.permutation(count), row_groups)
    order = rng.permutation(width) if columns == "shuffled" else np.arange(width)
    columns_of = np.array_split(order, column_groups)
    shards = []
    for row_group in rows_of:
        for index, own in enumerate(columns_of):
            rows = rng.permutation(row_group)
            labelled = labels == "all" or index == 0
            shards.append(
                Shard(
                    ids=tuple(f"{dataset.name}-{row:0{digits}d}" for row in rows),
                    features=tuple(dataset.features[column] for column in own),
                    X=dataset.X[rows][:, own],
                    y=dataset.y[rows] if labelled else None,
                    weights=dataset.weights[rows] if labelled and dataset.weights is not None else None,
                )
            )
    return shards
