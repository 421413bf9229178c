"""A party's data in memory, with one copy of the matrix X.

The party lists its rows to the server in one order, and each run uses them in another: that of its layout's blocks. A
second matrix for the second order would double the memory that a party needs, so the rows are moved within the one
matrix, a column at a time.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

from fenchel_common.classlabels import class_code, one_against_rest
from fenchel_common.clientlayout import ClientLayout, IgnoredFeatures
from fenchel_common.data.missingcells import missing_cells
from fenchel_common.data.shard import Matrix, Shard

Positions = NDArray[np.int64]
Entries = tuple[NDArray[np.int64], ...]

ROWS_AT_ONCE: Final = 256
"""The number of rows that are copied from the shard in one step."""


@dataclass(frozen=True, slots=True)
class _Blank:
    """Entries of X that are zero for the layout at work: their positions, and the values to put back."""

    entries: Entries
    values: NDArray[np.float64]


class PartyTable:
    """The rows of one party. The table copies the shard, so the caller can drop the shard.

    Parameters
    ----------
    shard
        The party's data.
    order
        (n,) the shard's row at each position of the list that the server gets. The rows of a layout are positions in
        that list.

    Attributes
    ----------
    ids, y, weights
        In the order of the list; y is None without labels, `weights` without weights of samples.
    features
        In the order of the shard, which is the order in which they are listed too.
    """

    def __init__(self, shard: Shard, order: Positions) -> None:
        self.ids = tuple(shard.ids[row] for row in order)
        self.features = shard.features
        self.y = None if shard.y is None else shard.y[order]
        self.weights = None if shard.weights is None else shard.weights[order]
        self._X = _by_name(shard, order)
        self._rows: Positions = np.arange(len(order))
        """(n,) the position in the list of each row of the matrix."""
        self.sparse = isinstance(self._X, csr_array)
        self._layout: ClientLayout | None = None
        self._blanks: list[_Blank] = []
        self._with_constant: PartyTable | None = None

    def matrix(self, layout: ClientLayout) -> Matrix:
        """X with its rows in the order of the layout's blocks, columns sorted by name, ignored entries zero.

        The caller must not change it, and must not use it after `matrix` was called with another layout.
        """
        if layout is not self._layout:
            self._arrange(layout)
            self._layout = layout
        count = len(layout.rows)
        return self._X if count == len(self._rows) else self._X[:count]

    def with_constant(self, name: str) -> "PartyTable":
        """The same table with one more feature, which is 1 in every row; made once, with a matrix of its own."""
        if self._with_constant is None:
            self._put_back()
            self._layout = None
            names, ones = sorted(self.features), np.ones((len(self.ids), 1))
            listed: Matrix = self._X[np.argsort(self._rows)]
            if isinstance(listed, csr_array):
                X: Matrix = csr_array(hstack([listed, csr_array(ones)], format="csr"))
            else:
                X = np.hstack([listed, ones])
            shard = Shard(self.ids, (*names, name), X, self.y, frozenset(self.missing()), self.weights)
            self._with_constant = PartyTable(shard, np.arange(len(self.ids)))
        return self._with_constant

    def missing(self) -> dict[str, int]:
        """The number of missing cells of each feature that has any."""
        return missing_cells(self._X, sorted(self.features))

    def entries(self, layout: ClientLayout) -> Iterator[Entries]:
        """The index of entries that earlier parties give: into X or, if X is sparse, into its stored values.

        Only while `layout` is the one that `matrix` was called with last.
        """
        yield from (self._entries(layout, cut) for cut in layout.ignored)

    def _put_back(self) -> None:
        while self._blanks:
            blank = self._blanks.pop()
            self._values[blank.entries] = blank.values

    def _arrange(self, layout: ClientLayout) -> None:
        self._put_back()
        left_out = np.setdiff1d(self._rows, layout.rows)
        rows = np.concatenate([layout.rows, left_out])
        moves = np.argsort(self._rows)[rows]
        if isinstance(self._X, csr_array):
            self._X = csr_array(self._X[moves])
        else:
            for column in self._X.T:
                column[:] = column[moves]
        self._rows = rows
        for cut in layout.ignored:
            entries = self._entries(layout, cut)
            self._blanks.append(_Blank(entries, self._values[entries]))
            self._values[entries] = 0.0

    @property
    def _values(self) -> NDArray[np.float64]:
        return self._X.data if isinstance(self._X, csr_array) else self._X

    def _entries(self, layout: ClientLayout, cut: IgnoredFeatures) -> Entries:
        """The index into `_values` of the entries that the cut leaves out."""
        ignored = np.repeat(np.isin(layout.block_ids, cut.block_ids), layout.block_sizes)
        if not isinstance(self._X, csr_array):
            return np.ix_(np.flatnonzero(ignored), cut.features)
        row_of = np.repeat(np.arange(self._X.shape[0]), np.diff(self._X.indptr))
        ignored = np.pad(ignored, (0, len(self._rows) - len(ignored)))
        return (np.flatnonzero(ignored[row_of] & np.isin(self._X.indices, cut.features)),)


class OneClass(PartyTable):
    """The rows of `table`, with the label +1 for samples of one class and −1 for all others."""

    def __init__(self, table: PartyTable, name: str) -> None:
        self.ids, self.features, self.sparse, self.weights = table.ids, table.features, table.sparse, None
        self.y = None if table.y is None else one_against_rest(table.y, class_code(name))
        self._table = table

    def matrix(self, layout: ClientLayout) -> Matrix:
        return self._table.matrix(layout)


def _by_name(shard: Shard, order: Positions) -> Matrix:
    """A copy of the shard's matrix with its rows in the given order and its columns sorted by name.

    A dense copy has whole columns side by side in memory, so that its rows can be moved a column at a time.
    """
    columns = np.argsort(np.array(shard.features, dtype=object), kind="stable")
    if isinstance(shard.X, csr_array):
        sparse = csr_array(shard.X[order])
        sparse.indices = np.argsort(columns).astype(sparse.indices.dtype)[sparse.indices]
        sparse.has_sorted_indices = False
        return sparse
    X = np.empty(shard.X.shape, order="F")
    for start in range(0, len(order), ROWS_AT_ONCE):
        stop = start + ROWS_AT_ONCE
        X[start:stop] = shard.X[order[start:stop]][:, columns]
    return X
