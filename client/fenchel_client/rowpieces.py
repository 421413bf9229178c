"""Work on the rows of a party, with the same result wherever the rows are.

Sums over rows are made piece by piece, of `PIECE_ROWS` rows each, and added up in the order of the pieces. So they have
the same bits whether this process has all rows, or workers have some pieces each. `HeldRows` and `LocalRows` are what
an algorithm may do with rows that it does not see; here they are those of this process.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

from fenchel_common.data.shard import Matrix
from fenchel_common.objectives import squared_row_norms

Array = NDArray[np.float64]
Positions = NDArray[np.int64]
Places = slice | Positions

PIECE_ROWS: Final = 1 << 16
COPIED_BYTES: Final = 1 << 22
"""The most bytes of X that are copied in one step to multiply some of its rows."""
DENSE_WIDTH: Final = 512
"""The most columns of F for which the Hessian is formed and factored."""
DENSE_ENTRIES: Final = 1 << 24
"""The most entries of a sparse F that is made dense for the Hessian."""
ROWS_AT_ONCE: Final = 1024
"""The rows of F that are copied in one step while the Hessian is formed."""


@dataclass(frozen=True, slots=True, eq=False)
class Others:
    """What the party knows of the columns of others: by J models, projected onto r directions.

    Attributes
    ----------
    weights
        (J, m) the models on the party's own columns.
    whole
        (J, L) the products of whole live rows with the models.
    basis
        (J, r) what makes orthonormal columns of the differences.
    """

    weights: Array
    whole: Array
    basis: Array


class LocalRows(Protocol):
    """F (L, d), the live rows as the local problem describes them."""

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def factored(self) -> bool:
        """Whether `curvature` can be called."""
        ...

    def squared_norms(self) -> Array:
        """(L,) ‖f_i‖²."""
        ...

    def times(self, v: Array) -> Array:
        """(L,) F·v."""
        ...

    def pull(self, a: Array) -> Array:
        """(d,) Fᵀa."""
        ...

    def curvature(self, inside: Positions, weights: Array, start: Array) -> Array:
        """(d, d) start + Σ weights_i f_i f_iᵀ over the rows at these ascending positions; changes `start`."""
        ...

    def chosen(self, inside: Positions) -> "LocalRows":
        """The rows at these ascending positions."""
        ...


class HeldRows(Protocol):
    """X (n, m) in the order of a layout's blocks."""

    def squared_norms(self) -> Array:
        """(n,) ‖x_i‖² on the party's own columns."""
        ...

    def products(self, positions: Positions, weights: Array) -> Array:
        """(k,) x_i·w of the rows at these positions."""
        ...

    def pull(self, a: Array) -> Array:
        """(m,) Xᵀa."""
        ...

    def described(self, live: Positions, others: Others | None, constant: tuple[int, float] | None) -> LocalRows:
        """F: own columns of the live rows, with `constant`, a column and its value, then the columns of `others`."""
        ...


class OwnRows:
    """Rows of this process: all of a party's, or a worker's part, which begins with a piece."""

    def __init__(self, X: Matrix, *, piece_rows: int | None = None) -> None:
        self._X = X
        self._spans = spans_of(int(X.shape[0]), piece_rows)

    def squared_norms(self) -> Array:
        return squared_row_norms(self._X)

    def products(self, positions: Positions, weights: Array) -> Array:
        values = np.zeros(len(positions))
        step = _rows_in(self._X, COPIED_BYTES)
        for of in self._split(positions):
            chosen = positions[of]
            found = values if isinstance(of, slice) else np.empty(len(chosen))
            for start in range(0, len(chosen), step):
                found[start : start + step] = self._X[chosen[start : start + step]] @ weights
            values[of] = found
        return values

    def pull(self, a: Array) -> Array:
        return added(self.pull_parts(a))

    def pull_parts(self, a: Array) -> list[Array]:
        """Xᵀa of each piece."""
        if isinstance(self._X, csr_array):
            return [np.asarray(self._X.T @ a, dtype=np.float64)]
        return [np.asarray(self._X[span].T @ a[span], dtype=np.float64) for span in self._spans]

    def described(self, live: Positions, others: Others | None, constant: tuple[int, float] | None) -> LocalRows:
        if isinstance(self._X, csr_array):
            return in_pieces(_described_sparse(self._X[live], others, constant))
        return self.described_dense(live, others, constant)

    def described_dense(
        self, live: Positions, others: Others | None, constant: tuple[int, float] | None
    ) -> "DenseRows":
        """As for `described`, where X is dense."""
        assert not isinstance(self._X, csr_array)
        parts = [(of, _described(self._X[live[of]], others, of, constant)) for of in self._split(live)]
        return DenseRows(parts, len(live))

    def _split(self, positions: Positions) -> list[Places]:
        """By piece, which of these positions are in it."""
        if len(self._spans) == 1:
            return [slice(None)]
        return [np.flatnonzero((span.start <= positions) & (positions < span.stop)) for span in self._spans]


class DenseRows:
    """F in pieces of this process; each has its rows' positions among all rows of F."""

    def __init__(self, parts: Sequence[tuple[Places, Array]], count: int) -> None:
        self._parts, self._count = parts, count

    @property
    def shape(self) -> tuple[int, int]:
        return self._count, int(self._parts[0][1].shape[1])

    @property
    def factored(self) -> bool:
        return self.shape[1] <= DENSE_WIDTH

    def squared_norms(self) -> Array:
        return self._joined([squared_row_norms(F) for _, F in self._parts])

    def times(self, v: Array) -> Array:
        return self._joined([F @ v for _, F in self._parts])

    def pull(self, a: Array) -> Array:
        return added(self.pull_parts(a))

    def pull_parts(self, a: Array) -> list[Array]:
        """Fᵀa of each piece."""
        return [np.asarray(F.T @ a[of], dtype=np.float64) for of, F in self._parts]

    def curvature(self, inside: Positions, weights: Array, start: Array) -> Array:
        return added(self.curvature_parts(inside, weights, start))

    def curvature_parts(self, inside: Positions, weights: Array, start: Array | None) -> list[Array]:
        """Σ weights_i f_i f_iᵀ of each piece, the first one with `start`."""
        found: list[Array] = []
        for (_, F), (among, at) in zip(self._parts, self._inside(inside), strict=True):
            total = np.zeros((F.shape[1], F.shape[1])) if found or start is None else start
            for first in range(0, len(among), ROWS_AT_ONCE):
                step = slice(first, first + ROWS_AT_ONCE)
                rows = F[among[step]]
                total += (rows.T * weights[at][step]) @ rows
            found.append(total)
        return found

    def chosen(self, inside: Positions) -> "DenseRows":
        among = self._inside(inside)
        parts = [(at, F[rows]) for (_, F), (rows, at) in zip(self._parts, among, strict=True)]
        return DenseRows(parts, len(inside))

    def _inside(self, inside: Positions) -> list[tuple[Positions, Places]]:
        """By piece its rows that are inside, and their places among all that are."""
        if len(self._parts) == 1:
            return [(inside, slice(None))]
        place = np.full(self._count, -1)
        place[inside] = np.arange(len(inside))
        of_parts = [place[of] for of, _ in self._parts]
        return [(np.flatnonzero(places >= 0), places[places >= 0]) for places in of_parts]

    def _joined(self, found: Sequence[Array]) -> Array:
        values = np.empty(self._count)
        for (of, _), part in zip(self._parts, found, strict=True):
            values[of] = part
        return values


class SparseRows:
    """F of this process, sparse and wide."""

    def __init__(self, F: csr_array) -> None:
        self._F = F

    @property
    def shape(self) -> tuple[int, int]:
        return int(self._F.shape[0]), int(self._F.shape[1])

    @property
    def factored(self) -> bool:
        return False

    def squared_norms(self) -> Array:
        return squared_row_norms(self._F)

    def times(self, v: Array) -> Array:
        return np.asarray(self._F @ v, dtype=np.float64)

    def pull(self, a: Array) -> Array:
        return np.asarray(self._F.T @ a, dtype=np.float64)

    def curvature(self, inside: Positions, weights: Array, start: Array) -> Array:
        raise NotImplementedError("a sparse F is not factored")

    def chosen(self, inside: Positions) -> "SparseRows":
        return SparseRows(self._F[inside])


def in_pieces(F: Matrix) -> LocalRows:
    """Rows of a local problem that this process has in one matrix."""
    if isinstance(F, csr_array):
        if F.shape[1] > DENSE_WIDTH or F.shape[0] * F.shape[1] > DENSE_ENTRIES:
            return SparseRows(_without_empty_columns(F))
        # A Hessian of this width is factored faster than conjugate gradients reach its solution.
        F = F.toarray()
    spans = spans_of(F.shape[0])
    return DenseRows([(span, F[span]) for span in spans], F.shape[0])


def spans_of(count: int, piece_rows: int | None = None) -> list[slice]:
    """The pieces of so many rows; one without rows if there are none."""
    step = piece_rows or PIECE_ROWS
    return [slice(start, min(start + step, count)) for start in range(0, count, step)] or [slice(0, 0)]


def added(parts: Iterable[Array]) -> Array:
    """The sum, in the order of the parts."""
    first, *rest = parts
    for part in rest:
        first = first + part
    return first


def with_constant(columns: Matrix, position: int | None, constant: float) -> Matrix:
    """The columns with `constant` in the whole column at a position; a dense matrix is changed."""
    if position is None:
        return columns
    if isinstance(columns, csr_array):
        lacking = np.flatnonzero(columns[:, [position]].toarray() == 0.0)
        added_entries = (np.full(len(lacking), constant), (lacking, np.full(len(lacking), position)))
        return csr_array(columns + csr_array(added_entries, shape=columns.shape))
    columns[:, position] = constant
    return columns


def _described(columns: Array, others: Others | None, of: Places, constant: tuple[int, float] | None) -> Array:
    """F of the live rows at the places `of`, from their own columns, which may be changed."""
    if constant is not None:
        columns[:, constant[0]] = constant[1]
    if others is None:
        return columns
    width = columns.shape[1]
    F = np.empty((len(columns), width + others.basis.shape[1]), order="F")
    F[:, :width] = columns
    F[:, width:] = (np.ascontiguousarray(others.whole[:, of]).T - columns @ others.weights.T) @ others.basis
    return F


def _described_sparse(columns: csr_array, others: Others | None, constant: tuple[int, float] | None) -> csr_array:
    if constant is not None:
        columns = csr_array(with_constant(columns, *constant))
    if others is None:
        return columns
    projected = (others.whole.T - columns @ others.weights.T) @ others.basis
    return csr_array(hstack([columns, csr_array(projected)], format="csr"))


def _rows_in(X: Matrix, limit_bytes: int) -> int:
    """The number of rows of average size that `limit_bytes` suffice for; at least 1."""
    stored = X.data.nbytes + X.indices.nbytes if isinstance(X, csr_array) else X.nbytes
    return max(1, limit_bytes * int(X.shape[0]) // max(1, int(stored)))


def _without_empty_columns(F: csr_array) -> csr_array:
    """F without columns that have no entry: v is zero there."""
    there = np.zeros(F.shape[1], dtype=bool)
    there[F.indices] = True
    position = np.cumsum(there, dtype=F.indices.dtype) - 1
    return csr_array((F.data, position[F.indices], F.indptr), shape=(F.shape[0], int(np.count_nonzero(there))))
