"""A party's table as a run uses it: features shifted and scaled, rows perhaps of length 1; labels scaled, weighted."""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fenchel_client.rowpieces import HeldRows
from fenchel_client.scaling import Scaling
from fenchel_client.table import PartyTable
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.data.shard import Matrix
from fenchel_common.errors import InvalidInput
from fenchel_common.intercept import INTERCEPT
from fenchel_common.labelrules import LabelRules
from fenchel_common.labelscaling import LabelScaling


class PreparedTable(PartyTable):
    """The same rows and features as `table`, with labels and, if there is a scaling, a matrix of its own.

    A sparse matrix keeps its zeros; the caller must give it a scaling without shift.

    Attributes
    ----------
    y
        (n,) labels, or (n, 2) labels and weights if samples have weights by the `rules`.
    """

    def __init__(self, table: PartyTable, *, scaling: Scaling | None, labels: LabelScaling, rules: LabelRules) -> None:
        self.ids, self.features, self.sparse, self.weights = table.ids, table.features, table.sparse, table.weights
        self.categories = table.categories
        self.y = None if table.y is None else labels.applied(table.y, table.weights, rules)
        self._table = table
        self._scaling = scaling
        self._prepared: tuple[ClientLayout, Matrix] | None = None

    def matrix(self, layout: ClientLayout) -> Matrix:
        """As for `PartyTable`; entries that an earlier party gives are zero here too."""
        if self._scaling is None:
            return self._table.matrix(layout)
        if self._prepared is None or self._prepared[0] is not layout:
            self._prepared = None  # The old matrix is freed before the new one is made.
            self._prepared = layout, self._applied(self._scaling, self._table.matrix(layout), layout)
        return self._prepared[1]

    def held(self, layout: ClientLayout) -> HeldRows:
        return self._table.held(layout) if self._scaling is None else super().held(layout)

    def _applied(self, scaling: Scaling, X: Matrix, layout: ClientLayout) -> Matrix:
        missing = scaling.prepared_missing
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
        if len(scaling.lengths):
            self._divide(prepared, scaling.lengths)
        return prepared

    def _divide(self, prepared: Matrix, lengths: NDArray[np.float64]) -> None:
        """Divides the rows by their lengths, but for the constant feature."""
        if len(lengths) != prepared.shape[0]:
            raise InvalidInput("scaling: must have the length of every row")
        constant = sorted(self.features).index(INTERCEPT) if INTERCEPT in self.features else -1
        if isinstance(prepared, csr_array):
            divisors = np.repeat(lengths, np.diff(prepared.indptr))
            prepared.data /= np.where(prepared.indices == constant, 1.0, divisors)
            return
        for position, column in enumerate(prepared.T):
            if position != constant:
                column /= lengths


def table_of_run(table: PartyTable, rules: LabelRules, *, scaling: bytes, labels: bytes) -> PartyTable:
    """The table as the record of a run says; `scaling` and `labels` are empty if the run has not learnt them."""
    if not scaling and not labels and not rules.weighted:
        return table
    return PreparedTable(
        table,
        scaling=Scaling.from_bytes(scaling, features=len(table.features)) if scaling else None,
        labels=LabelScaling.from_bytes(labels) if labels else LabelScaling.of(rules, None),
        rules=rules,
    )
