"""The two ways in which the HyFDCA paper cuts a table into shards (section 7.2 of its supplement).

Every shard knows the labels of its samples. Samples have the names that `fenchel_common.data.partition` gives them.
"""

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fenchel_common.data.datasets import Dataset
from fenchel_common.data.shard import Matrix, Shard
from fenchel_common.errors import InvalidInput

Positions = NDArray[np.int64]

QUADRANTS: Final = 4


def quadrants(dataset: Dataset, parties: int) -> list[Shard]:
    """The four quadrants of square images, each dealt out to a quarter of the parties in groups of samples.

    Columns after those of the pixels go to the last quadrant. Party k gets quadrant ⌊4k/K⌋. All quadrants are cut into
    groups in the same order of samples, so that the parties of one group hold the same samples where the quadrants have
    equally many parties. If K is no multiple of 4, the first quadrants have one party more, with smaller groups.
    """
    count, width = dataset.X.shape
    side = math.isqrt(width)
    if side % 2 or not parties >= QUADRANTS:
        raise InvalidInput(f"{dataset.name}: quadrants need images of an even side and 4 parties at least")
    pixels = np.arange(side * side).reshape(side, side)
    half = side // 2
    corners = [pixels[:half, :half], pixels[:half, half:], pixels[half:, :half], pixels[half:, half:]]
    columns = [corner.ravel() for corner in corners]
    columns[-1] = np.concatenate([columns[-1], np.arange(side * side, width)])
    owners = [QUADRANTS * party // parties for party in range(parties)]
    return [
        _shard(dataset, rows, own, dataset.X[rows][:, own])
        for quadrant, own in enumerate(columns)
        for rows in np.array_split(np.arange(count), owners.count(quadrant))
    ]


def nonzeros(dataset: Dataset, groups: tuple[int, int], *, seed: int) -> list[Shard]:
    """K groups of samples; in each, Q parties hold all its samples, and each 1/Q of the non-zero values of a sample.

    The values of a sample are dealt out at random. So parties of a group hold the same features, with values of
    different samples, and a run over these shards needs `overlap = "sum"`. A party holds the features of which it has a
    value.
    """
    sample_groups, parts = groups
    rng = np.random.default_rng([seed, 0])
    shards = []
    for rows in np.array_split(rng.permutation(len(dataset.y)), sample_groups):
        X = csr_array(dataset.X[rows])
        part_of = _dealt(X, parts, rng)
        for part in range(parts):
            kept = part_of == part
            counts = np.add.reduceat(np.append(kept, False), X.indptr[:-1]) * (np.diff(X.indptr) > 0)
            own = csr_array((X.data[kept], X.indices[kept], np.append(0, np.cumsum(counts))), shape=X.shape)
            columns = np.unique(own.indices).astype(np.int64)
            values = own[:, columns]
            shards.append(
                _shard(dataset, rows, columns, values if isinstance(dataset.X, csr_array) else values.toarray())
            )
    return shards


def _dealt(X: csr_array, parts: int, rng: np.random.Generator) -> Positions:
    """The part of each stored value: in every row, parts that differ by at most one in size."""
    lengths = np.diff(X.indptr)
    row_of = np.repeat(np.arange(len(lengths)), lengths)
    order = np.lexsort((rng.random(len(row_of)), row_of))
    rank = np.empty(len(row_of), dtype=np.int64)
    rank[order] = np.arange(len(row_of)) - np.repeat(X.indptr[:-1], lengths)
    return (rank + rng.integers(parts, size=len(lengths))[row_of]) % parts


def _shard(dataset: Dataset, rows: Positions, columns: Positions, X: Matrix) -> Shard:
    digits = len(str(len(dataset.y) - 1))
    return Shard(
        ids=tuple(f"{dataset.name}-{row:0{digits}d}" for row in rows.tolist()),
        features=tuple(dataset.features[column] for column in columns.tolist()),
        X=X,
        y=dataset.y[rows],
    )
