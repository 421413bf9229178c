"""A party's data in memory, with one copy of the matrix X.

The party lists its rows to the server in one order, and each run uses them in another: that of its layout's blocks. A
second matrix for the second order would double the memory that a party needs, so the rows are moved within the one
matrix, a column at a time.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

from fenchel_client.rowpieces import HeldRows, OwnRows
from fenchel_common.classlabels import class_code, one_against_rest
from fenchel_common.clientlayout import ClientLayout, IgnoredFeatures
from fenchel_common.data.categories import Category, Vocabulary, expanded, expanded_names
from fenchel_common.data.missingcells import missing_cells
from fenchel_common.data.shard import Matrix, Shard
from fenchel_common.objectives import squared_row_norms

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
    """The rows of one party.

    Attributes
    ----------
    ids, y, weights
        In the order of the list that the server gets; y is None without labels, `weights` without weights of samples.
        The rows of a layout are positions in that list.
    features
        The names of the columns of the matrix, in any order.
    categories
        Columns that are not features yet, in the order of the list. A run works with the table that `expanded` gives.
    label_names, fills
        As for `Shard`; of the party's own table, not of those that are made of it.
    spread
        Whether workers hold the rows, so that `held` alone gives them.
    """

    spread = False

    def __init__(
        self,
        ids: tuple[str, ...],
        features: tuple[str, ...],
        X: Matrix,
        y: NDArray[np.float64] | None,
        *,
        categories: tuple[Category, ...] = (),
        weights: NDArray[np.float64] | None = None,
        label_names: tuple[str, str] | None = None,
        fills: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        """Takes over X, whose rows are in the order of `ids` and whose columns are sorted by name.

        The columns of a dense X must lie side by side in memory, so that rows can be moved a column at a time.
        """
        self.ids, self.features, self.y, self.categories, self.weights = ids, features, y, categories, weights
        self.label_names, self.fills = label_names, fills
        self._X = X
        self._rows: Positions = np.arange(len(ids))
        """(n,) the position in the list of each row of the matrix."""
        self.sparse = isinstance(X, csr_array)
        self._layout: ClientLayout | None = None
        self._blanks: list[_Blank] = []
        self._with_constant: PartyTable | None = None

    @classmethod
    def of(cls, shard: Shard, order: Positions) -> "PartyTable":
        """A copy of the shard, so the caller can drop the shard. `order` has the shard's row of each listed row."""
        return cls(
            tuple(shard.ids[row] for row in order),
            shard.features,
            _by_name(shard, order),
            None if shard.y is None else shard.y[order],
            categories=tuple(category.taken(order) for category in shard.categories),
            weights=None if shard.weights is None else shard.weights[order],
            label_names=shard.label_names,
            fills=shard.fills,
        )

    def feature_count(self, vocabulary: Vocabulary) -> int:
        """The number of features that `expanded` gives."""
        if not self.categories and not vocabulary.indicators:
            return len(self.features)
        return len(expanded_names(self.features, self.categories, vocabulary))

    def expanded(self, vocabulary: Vocabulary) -> "PartyTable":
        """The table with the features that a run's vocabulary makes; this very table if there are none.

        Raises `InvalidInput` if two features would have the same name.
        """
        if not self.categories and self.feature_count(vocabulary) == len(self.features):
            return self
        X, features = expanded(self._listed(), sorted(self.features), self.categories, vocabulary)
        return PartyTable(self.ids, features, X, self.y, weights=self.weights)

    def matrix(self, layout: ClientLayout) -> Matrix:
        """X with its rows in the order of the layout's blocks, columns sorted by name, ignored entries zero.

        The caller must not change it, and must not use it after `matrix` was called with another layout.
        """
        if layout is not self._layout:
            self._arrange(layout)
            self._layout = layout
        count = len(layout.rows)
        return self._X if count == len(self._rows) else self._X[:count]

    def held(self, layout: ClientLayout) -> HeldRows:
        """The rows of `matrix`, wherever they are."""
        return OwnRows(self.matrix(layout))

    def with_constant(self, name: str) -> "PartyTable":
        """The same table with one more feature, which is 1 in every row; made once, with a matrix of its own."""
        if self._with_constant is None:
            names, ones, listed = sorted(self.features), np.ones((len(self.ids), 1)), self._listed()
            if isinstance(listed, csr_array):
                X: Matrix = csr_array(hstack([listed, csr_array(ones)], format="csr"))
            else:
                X = np.hstack([listed, ones])
            missing = frozenset(self.missing())
            shard = Shard(self.ids, (*names, name), X, self.y, missing, weights=self.weights)
            self._with_constant = PartyTable.of(shard, np.arange(len(self.ids)))
        return self._with_constant

    def missing(self) -> dict[str, int]:
        """The number of missing cells of each feature, and of each category, that has any."""
        gaps = {category.column: category.missing for category in self.categories if category.missing}
        return missing_cells(self._X, sorted(self.features)) | gaps

    def columns_from(self, limit: float) -> list[str]:
        """The names of columns that have a value of at least this magnitude."""
        X, names = self._X, sorted(self.features)
        if isinstance(X, csr_array):
            return [names[column] for column in np.unique(X.indices[np.abs(X.data) >= limit]).tolist()]
        return [name for name, column in zip(names, X.T, strict=True) if (np.abs(column) >= limit).any()]

    def squared_lengths(self) -> NDArray[np.float64]:
        """(n,) the squared length of the party's own part of each row, without categories."""
        return squared_row_norms(self._X)

    def entries(self, layout: ClientLayout) -> Iterator[Entries]:
        """The index of entries that earlier parties give: into X or, if X is sparse, into its stored values.

        Only while `layout` is the one that `matrix` was called with last.
        """
        yield from (self._entries(layout, cut) for cut in layout.ignored)

    def _listed(self) -> Matrix:
        """X with its rows in the order of the list and without blanks; a copy, where a layout is at work."""
        if self._layout is None:
            return self._X
        X = self._X.copy()
        values = X.data if isinstance(X, csr_array) else X
        for blank in reversed(self._blanks):
            values[blank.entries] = blank.values
        return csr_array(X[np.argsort(self._rows)]) if isinstance(X, csr_array) else X[np.argsort(self._rows)]

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
    """The rows of `table`, with the label +1 for samples of one class and −1 for all others.

    `problem` is the position of the class in the run. If samples have weights, `table` has those of each problem after
    the label, and this table those of its own.
    """

    def __init__(self, table: PartyTable, name: str, problem: int) -> None:
        self.ids, self.features, self.sparse, self.weights = table.ids, table.features, table.sparse, None
        self.y, code = table.y, class_code(name)
        if table.y is not None and table.y.ndim == 1:
            self.y = one_against_rest(table.y, code)
        elif table.y is not None:
            self.y = np.column_stack([one_against_rest(table.y[:, 0], code), table.y[:, 1 + problem]])
        self._table = table

    def matrix(self, layout: ClientLayout) -> Matrix:
        return self._table.matrix(layout)

    def held(self, layout: ClientLayout) -> HeldRows:
        return self._table.held(layout)


def _by_name(shard: Shard, order: Positions) -> Matrix:
    """A copy of the shard's matrix with its rows in the given order and its columns sorted by name.

    A dense copy has whole columns side by side in memory, so that its rows can be moved a column at a time.
    """
    columns = np.argsort(np.array(shard.features, dtype=object), kind="stable")
    if isinstance(shard.X, csr_array):
        rows = shard.X[order]
        narrow = np.int32 if max(rows.nnz, *rows.shape) <= np.iinfo(np.int32).max else np.int64
        position = np.argsort(columns).astype(narrow)
        sparse = csr_array((rows.data, position[rows.indices], rows.indptr.astype(narrow)), shape=rows.shape)
        sparse.has_sorted_indices = False
        return sparse
    X = np.empty(shard.X.shape, order="F")
    for start in range(0, len(order), ROWS_AT_ONCE):
        stop = start + ROWS_AT_ONCE
        X[start:stop] = shard.X[order[start:stop]][:, columns]
    return X
