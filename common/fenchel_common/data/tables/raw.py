"""A table as its reader leaves it, and the shard that is made of it once every missing cell is dealt with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

from fenchel_common.data.shard import Matrix, Shard, check_ids
from fenchel_common.data.tables.declaration import DECLARATION_FILE, Declaration, MissingPolicy
from fenchel_common.errors import InvalidInput

LARGE_VALUE: Final = 100.0
"""A run without `[features]` does not scale: a feature with values beyond this weighs far more than the others."""
SHOWN_NAMES: Final = 5


@dataclass(frozen=True, slots=True)
class MissingCells:
    """What to do about the missing cells of one column."""

    column: str
    policy: MissingPolicy
    fill: float = 0.0
    indicator: bool = False


@dataclass(slots=True, eq=False)
class RawTable:
    """The cells of a table as numbers.

    Attributes
    ----------
    source
        The file, for messages.
    ids
        The canonical id of each row.
    features
        A name for each column of X.
    X
        (rows, features); NaN where a cell is missing.
    y
        (rows,), NaN where a label is missing; None for a table without labels.
    missing
        What to do about missing cells, by position of the feature. A category has several features of one column.
    weights
        (rows,), NaN where a weight is missing; None for a table without weights.
    """

    source: str
    ids: list[str]
    features: tuple[str, ...]
    X: Matrix
    y: NDArray[np.float64] | None
    missing: Mapping[int, MissingCells] = field(default_factory=dict)
    weights: NDArray[np.float64] | None = None


def complete(raw: RawTable, declaration: Declaration) -> tuple[Shard, list[str]]:
    """The shard, and notes on what its owner should know: rows dropped, constant columns, large values.

    Changes `raw.X` in place. Raises `InvalidInput`, or `Refusal` for duplicate ids, with the rows and columns at fault.
    """
    if not raw.ids:
        raise InvalidInput(f"{raw.source}: has no rows; give a table with a row for each sample")
    if not raw.features:
        raise InvalidInput(
            f"{raw.source}: no column is a feature; name some under [features] in {DECLARATION_FILE}, or take them out "
            "of leave_out"
        )
    check_ids(raw.ids, f"{raw.source}: {_columns(declaration.id)}" if declaration.id else raw.source)
    notes: list[str] = []
    rows, positions = _missing_cells(raw.X)
    default = MissingCells("", declaration.missing, declaration.fill)
    indicators = _indicators(raw, rows, positions)
    kept = np.ones(len(raw.ids), dtype=bool)
    imputed: set[str] = set()
    for position in np.unique(positions):
        column_rows = rows[positions == position]
        cells = raw.missing.get(int(position), default)
        name = cells.column or raw.features[position]
        if len(column_rows) == len(raw.ids):
            raise InvalidInput(f"{raw.source}: column {name!r}: every cell is missing; add it to leave_out")
        if cells.policy == "refuse":
            raise InvalidInput(missing_cell(raw.source, int(column_rows.min()) + 1, name, len(column_rows)))
        if cells.policy == "drop":
            kept[column_rows] = False
        elif cells.policy == "impute":
            imputed.add(raw.features[position])
        else:
            _fill(raw.X, int(position), cells.fill)
    kept &= _labelled(raw, declaration)
    X, features = _with_indicators(raw, indicators)
    dropped = int((~kept).sum())
    if dropped == len(raw.ids):
        raise InvalidInput(f'{raw.source}: every row has a missing cell, so missing = "drop" leaves none; use "fill"')
    if dropped:
        notes.append(f"{raw.source}: {dropped} of {len(raw.ids)} rows are dropped for a missing cell")
        X = X[kept]
    ids = tuple(sample for sample, keep in zip(raw.ids, kept, strict=True) if keep) if dropped else tuple(raw.ids)
    y, weights = (None if values is None else values[kept] for values in (raw.y, raw.weights))
    try:
        shard = Shard(ids, features, X, y, frozenset(imputed), weights)
    except InvalidInput as error:
        raise InvalidInput(f"{raw.source}: {error}") from None
    return shard, notes + _cautions(raw.source, shard)


def missing_cell(source: str, row: int, column: str, count: int) -> str:
    """What to say of a missing cell that the declaration refuses."""
    return (
        f"{source}: row {row}, column {column!r}: the cell is missing (missing in this column: {count}); choose "
        f'missing = "drop", "fill" or "impute" in {DECLARATION_FILE}, for the table or under [features.{column}]'
    )


def _missing_cells(X: Matrix) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows and positions of the cells without value."""
    if isinstance(X, csr_array):
        entries = np.flatnonzero(np.isnan(X.data))
        rows = np.searchsorted(X.indptr, entries, side="right") - 1
        return rows.astype(np.int64), X.indices[entries].astype(np.int64)
    rows, positions = np.nonzero(np.isnan(X))
    return rows.astype(np.int64), positions.astype(np.int64)


def _fill(X: Matrix, position: int, value: float) -> None:
    if isinstance(X, csr_array):
        X.data[np.isnan(X.data) & (X.indices == position)] = value
    else:
        column = X[:, position]
        column[np.isnan(column)] = value


def _indicators(raw: RawTable, rows: NDArray[np.int64], positions: NDArray[np.int64]) -> dict[str, NDArray[np.float64]]:
    """The indicator of each column that is declared to have one, whether a cell is missing here or not."""
    found: dict[str, NDArray[np.float64]] = {}
    for position, cells in raw.missing.items():
        if cells.indicator and cells.column not in found:
            indicator = np.zeros(len(raw.ids))
            indicator[rows[positions == position]] = 1.0
            found[cells.column] = indicator
    return found


def _with_indicators(raw: RawTable, indicators: Mapping[str, NDArray[np.float64]]) -> tuple[Matrix, tuple[str, ...]]:
    if isinstance(raw.X, csr_array):
        raw.X.eliminate_zeros()
    if not indicators:
        return raw.X, raw.features
    features = (*raw.features, *(f"{column} is missing" for column in indicators))
    further = np.column_stack(list(indicators.values()))
    if isinstance(raw.X, csr_array):
        return csr_array(hstack([raw.X, csr_array(further)], format="csr")), features
    return np.hstack([raw.X, further]), features


def _labelled(raw: RawTable, declaration: Declaration) -> NDArray[np.bool_]:
    """Which rows have a label, or need none."""
    if raw.y is None:
        return np.ones(len(raw.ids), dtype=bool)
    without = np.isnan(raw.y)
    label = declaration.label
    if without.any() and (label is None or label.missing == "refuse"):
        column = "" if label is None or label.column is None else f", {_columns(label.column)}"
        raise InvalidInput(
            f"{raw.source}: row {int(without.argmax()) + 1}{column}: the label is missing (missing labels: "
            f'{int(without.sum())}); remove these rows, or write missing = "drop" under [label] in {DECLARATION_FILE}'
        )
    if raw.weights is not None and not (raw.weights[~without] > 0.0).all():
        at_fault = ~without & ~(raw.weights > 0.0)
        raise InvalidInput(
            f"{raw.source}: row {int(at_fault.argmax()) + 1}: the weight is missing or not positive (of all: "
            f"{int(at_fault.sum())}); correct the weights, or remove rows that are not to count"
        )
    return ~without


def _cautions(source: str, shard: Shard) -> list[str]:
    if isinstance(shard.X, csr_array):
        low = shard.X.nanmin(axis=0).toarray().reshape(-1)
        high = shard.X.nanmax(axis=0).toarray().reshape(-1)
    else:
        low, high = np.nanmin(shard.X, axis=0), np.nanmax(shard.X, axis=0)
    notes = []
    constant, large = np.flatnonzero(low == high), np.flatnonzero(np.maximum(-low, high) > LARGE_VALUE)
    # A category that does not occur here, and a sparse column without entries, are constant by nature.
    constant = constant[low[constant] != 0.0] if isinstance(shard.X, csr_array) else constant
    if len(constant):
        notes.append(
            f"{source}: every cell is the same in {_names(shard, constant)}; add it to leave_out if it is so at all "
            "parties"
        )
    if len(large):
        notes.append(
            f"{source}: there are values beyond ±{LARGE_VALUE:g} in {_names(shard, large)}; a run without [features] "
            "does not scale them, so bring them to the scale of the others first"
        )
    return notes


def _columns(names: str | Sequence[str]) -> str:
    return f"column {names!r}" if isinstance(names, str) else f"columns {', '.join(map(repr, names))}"


def _names(shard: Shard, positions: NDArray[np.int64]) -> str:
    shown = ", ".join(repr(shard.features[position]) for position in positions[:SHOWN_NAMES])
    more = f" and {len(positions) - SHOWN_NAMES} more" if len(positions) > SHOWN_NAMES else ""
    return f"column {shown}{more}"
