"""Tables for the bench, cut so that many kinds of leak can show.

    dense      some rows of breast cancer in principal components, rows and columns halved: four parties, every sample
               and every feature with two holders; the parties of the second half of the columns have no labels
    labelled   the same, and all parties have labels
    row_thirds, column_thirds
               the same rows, cut by rows alone or by columns alone: three parties with labels, every feature or every
               sample with three holders
    sparse     generated bags of words, whole rows: two parties with labels

Beside each table are as many rows of the same kind that nobody holds.
"""

from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fenchel_common.data.datasets import Dataset, load_dataset
from fenchel_common.data.partition import partition
from fenchel_common.data.shard import Matrix, Shard

DENSE_ROWS: Final = 20
DENSE_FEATURES: Final = 20
SPARSE_ROWS: Final = 20
SPARSE_WORDS: Final = 60
WORDS_A_ROW: Final = 6
ALL_DENSE: Final = DENSE_ROWS // 2
ALL_SPARSE: Final = SPARSE_ROWS // 2
"""All samples of a party: the most that it can update in a round."""

Table = Literal["dense", "labelled", "row_thirds", "column_thirds", "sparse"]


def dense_table() -> tuple[Dataset, Dataset]:
    loaded = load_dataset("breast_cancer")
    # In raw columns any two rows are so alike that a guess at one is a fair guess at the other.
    left, _, _ = np.linalg.svd(np.asarray(loaded.X), full_matrices=False)
    components = left[:, :DENSE_FEATURES] * np.sqrt(len(loaded.y) / DENSE_FEATURES)
    whole = Dataset(loaded.name, components, loaded.y, tuple(f"component-{i:02d}" for i in range(DENSE_FEATURES)))
    chosen = np.random.default_rng(3).permutation(len(whole.y))[: 2 * DENSE_ROWS]
    return _part(whole, chosen[:DENSE_ROWS]), _part(whole, chosen[DENSE_ROWS:])


def sparse_table() -> tuple[Dataset, Dataset]:
    """Bags of a few of many words, some frequent and most rare, counted; labels follow a few of the words."""
    rng = np.random.default_rng(4)
    frequency = 1.0 / np.arange(1, SPARSE_WORDS + 1)
    counts = np.zeros((2 * SPARSE_ROWS, SPARSE_WORDS))
    for row in counts:
        words = rng.choice(SPARSE_WORDS, size=WORDS_A_ROW, replace=False, p=frequency / frequency.sum())
        row[words] = rng.integers(1, 4, size=WORDS_A_ROW)
    rows = counts / np.linalg.norm(counts, axis=1, keepdims=True)
    y = np.where(rows @ rng.standard_normal(SPARSE_WORDS) > 0.0, 1.0, -1.0)
    whole = Dataset("bags", csr_array(rows), y, tuple(f"word-{number:02d}" for number in range(SPARSE_WORDS)))
    return _part(whole, np.arange(SPARSE_ROWS)), _part(whole, np.arange(SPARSE_ROWS, 2 * SPARSE_ROWS))


def _part(whole: Dataset, rows: NDArray[np.int64]) -> Dataset:
    return Dataset(whole.name, whole.X[rows], whole.y[rows], whole.features)


def shards_of(table: Dataset, kind: Table) -> list[Shard]:
    if kind == "sparse":
        return partition(table, grid=(2, 1), seed=1)
    if kind in ("row_thirds", "column_thirds"):
        return partition(table, grid=(3, 1) if kind == "row_thirds" else (1, 3), labels="all", seed=1)
    return partition(table, grid=(2, 2), labels="first" if kind == "dense" else "all", seed=1)


def sample_names(table: Dataset) -> list[str]:
    """The sample ids that `partition` gives the rows."""
    digits = len(str(len(table.y) - 1))
    return [f"{table.name}-{row:0{digits}d}" for row in range(len(table.y))]


def as_dense(X: Matrix) -> NDArray[np.float64]:
    return np.asarray(X.toarray() if isinstance(X, csr_array) else X, dtype=np.float64)
