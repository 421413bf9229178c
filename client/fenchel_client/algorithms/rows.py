"""A party's rows as the client half of an algorithm gets them: by block, in the order of the layout."""

from collections.abc import Mapping, Sequence
from copy import copy
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from fenchel_client.rowpieces import HeldRows
from fenchel_client.table import PartyTable
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.data.shard import Matrix
from fenchel_common.errors import InvalidInput
from fenchel_common.intercept import INTERCEPT

Array = NDArray[np.float64]
Positions = NDArray[np.int64]


class PartyRows:
    """X (n, m) and y of one party in one run; y is None without labels.

    y is (n,) labels, or (n, 2) labels and weights in a run whose samples have weights.

    Rows are in the order of the layout's blocks, columns sorted by name, and entries that an earlier party gives are
    zero.

    Attributes
    ----------
    count, width
        n and m.
    sample_count
        N, the number of distinct samples in the federation.
    shared
        The blocks of samples that other parties hold too.
    positions
        The positions of each block's samples among the rows.
    intercept
        The column of the constant feature; None without one.
    features_apart
        Whether no other party gives a feature of this party for a sample of this party, but for the constant one.
    ids, features
        The ids of the samples, and the names of the features, in the order of the rows and of the columns.
    """

    def __init__(self, layout: ClientLayout, table: PartyTable) -> None:
        self._layout = layout
        self._table = table
        self.y = None if table.y is None else table.y[layout.rows]
        self.count = len(layout.rows)
        self.width = len(table.features)
        self.sample_count = layout.sample_count
        self.shared = frozenset(layout.block_ids[layout.shared].tolist())
        every, offsets = np.arange(self.count), layout.offsets
        self.positions: Mapping[int, Positions] = MappingProxyType(
            {
                int(block): every[start:stop]
                for block, start, stop in zip(layout.block_ids, offsets[:-1], offsets[1:], strict=True)
            }
        )
        self.ids = [table.ids[row] for row in layout.rows]
        self.features = sorted(table.features)
        self.intercept = self.features.index(INTERCEPT) if INTERCEPT in self.features else None
        self.features_apart = all(cut.features.tolist() == [self.intercept] for cut in layout.ignored)

    @property
    def X(self) -> Matrix:  # noqa: N802 - the papers' symbol
        """The party's one matrix, for reading; another run may put its rows into another order between two tasks."""
        return self._table.matrix(self._layout)

    @property
    def held(self) -> HeldRows:
        """The same rows wherever they are; all that a method may use whose rows workers can hold."""
        return self._table.held(self._layout)

    def labels(self) -> Array:
        """The party's labels; `InvalidInput` if it has none."""
        if self.y is None:
            raise InvalidInput("labels: this party has no labels, and can neither train nor report")
        return self.y

    def with_labels(self, y: Array) -> "PartyRows":
        """The same rows with other labels."""
        rows = copy(self)
        rows.y = y
        return rows

    def positions_of(self, blocks: Sequence[int]) -> Positions:
        """The positions of the samples of these blocks, in the given order of blocks."""
        return positions_of(self.positions, blocks)

    def products(self, positions: Positions, weights: Array) -> Array:
        """(n,) x_i·w on this party's columns at the positions, zero elsewhere; never a copy of all of X."""
        values = np.zeros(self.count)
        values[positions] = self.held.products(positions, weights)
        return values


def positions_of(positions: Mapping[int, Positions], blocks: Sequence[int]) -> Positions:
    """The positions of these blocks, in the given order of blocks; an empty array for no blocks."""
    return np.concatenate([np.zeros(0, dtype=np.int64), *(positions[block] for block in blocks)])
