"""A party's table as a run with `[features]` uses it: shifted, scaled, without missing cells."""

from collections.abc import Collection

import numpy as np
from scipy.sparse import csr_array

from fenchel_client.scaling import Scaling
from fenchel_client.table import PartyTable
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.data.shard import Matrix
from fenchel_common.moments import Moments
from fenchel_common.runconfig import FeaturesConfig


class PreparedTable(PartyTable):
    """The same rows and features as `table`, with a matrix of its own.

    A sparse matrix keeps its zeros; the caller must give it a scaling without shift.
    """

    def __init__(self, table: PartyTable, scaling: Scaling) -> None:
        self.ids, self.features, self.y, self.sparse = table.ids, table.features, table.y, table.sparse
        self.categories = table.categories
        self._table = table
        self.scaling = scaling
        self._prepared: tuple[ClientLayout, Matrix] | None = None

    @classmethod
    def learnt(
        cls, table: PartyTable, moments: Moments, config: FeaturesConfig, *, flags: Collection[str]
    ) -> "PreparedTable":
        """The table, prepared by the moments of its features over all their holders.

        `flags` are the names of features of 0 and 1 that the run has made, at any party.
        """
        return cls(
            table, Scaling.of(moments, config, flags=np.array([name in flags for name in sorted(table.features)]))
        )

    @classmethod
    def recorded(cls, table: PartyTable, scaling: bytes) -> "PreparedTable":
        """The table, prepared as the record of a run says."""
        return cls(table, Scaling.from_bytes(scaling, features=len(table.features)))

    def matrix(self, layout: ClientLayout) -> Matrix:
        """As for `PartyTable`; entries that an earlier party gives are zero here too."""
        if self._prepared is None or self._prepared[0] is not layout:
            self._prepared = None  # The old matrix is freed before the new one is made.
            self._prepared = layout, self._applied(self._table.matrix(layout), layout)
        return self._prepared[1]

    def _applied(self, X: Matrix, layout: ClientLayout) -> Matrix:
        scaling, missing = self.scaling, self.scaling.prepared_missing
        prepared = X.copy() if isinstance(X, csr_array) else X.copy(order="F")
        if isinstance(prepared, csr_array):
            assert not scaling.shift.any(), "a shift would fill every cell of a sparse matrix"
            prepared.data /= scaling.scale[prepared.indices]
            gaps = np.isnan(prepared.data)
            prepared.data[gaps] = missing[prepared.indices[gaps]]
        else:
            for position, column in enumerate(prepared.T):
                column -= scaling.shift[position]
                column /= scaling.scale[position]
                column[np.isnan(column)] = missing[position]
        values = prepared.data if isinstance(prepared, csr_array) else prepared
        for entries in self._table.entries(layout):
            values[entries] = 0.0
        return prepared
