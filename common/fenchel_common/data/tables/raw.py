"""A table as its reader leaves it, and the shard that is made of it once every missing cell is dealt with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

from fenchel_common.data.categories import MISSING, NONE, Category, missing_name
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
        What to do about missing cells, for each feature; none for a format that declares no features.
    categories
        The columns of categories, and what to do about the missing cells of each.
    weights
        (rows,), NaN where a weight is missing; None for a table without weights.
    """

    source: str
    ids: list[str]
    features: tuple[str, ...]
    X: Matrix
    y: NDArray[np.float64] | None
    missing: Sequence[MissingCells] = ()
    categories: Sequence[tuple[Category, MissingCells]] = ()
    weights: NDArray[np.float64] | None = None


def complete(raw: RawTable, declaration: Declaration) -> tuple[Shard, list[str]]:
    """The shard, and notes on what its owner should know: rows dropped, constant columns, large values.

    Changes `raw.X` in place. Raises `InvalidInput`, or `Refusal` for duplicate ids, with the rows and columns at fault.
    """
    if not raw.ids:
        raise InvalidInput(f"{raw.source}: has no rows; give a table with a row for each sample")
    if not raw.features and not raw.categories:
        raise InvalidInput(
            f"{raw.source}: no column is a feature; name some under [features] in {DECLARATION_FILE}, or take them out "
            "of leave_out"
        )
    check_ids(raw.ids, f"{raw.source}: {_columns(declaration.id)}" if declaration.id else raw.source)
    notes: list[str] = []
    rows, positions = _missing_cells(raw.X)
    indicators = _indicators(raw, rows, positions)
    kept = np.ones(len(raw.ids), dtype=bool)
    imputed: set[str] = set()
    for position in np.unique(positions).tolist():
        cells = raw.missing[position] if raw.missing else MissingCells("", declaration.missing, declaration.fill)
        name = raw.features[position]
        _check_missing(raw, name, rows[positions == position], cells)
        if cells.policy == "drop":
            kept[rows[positions == position]] = False
        elif cells.policy == "impute":
            imputed.add(name)
        else:
            _fill(raw.X, position, cells.fill)
    for category, cells in raw.categories:
        gaps = np.flatnonzero(category.codes == MISSING)
        if not len(gaps):
            continue
        _check_missing(raw, category.column, gaps, cells)
        if cells.policy == "drop":
            kept[gaps] = False
        elif cells.policy == "fill":
            # A category has no number to fill in: none of its features is 1.
            category.codes[gaps] = NONE
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
        categories = tuple(category.taken(kept) for category, _ in raw.categories)
        shard = Shard(
            ids,
            features,
            X,
            y,
            frozenset(imputed),
            categories,
            weights,
            label_names=None if declaration.label is None else declaration.label.names(),
            fills=_fills(raw, declaration),
        )
    except InvalidInput as error:
        raise InvalidInput(f"{raw.source}: {error}") from None
    return shard, notes + _cautions(raw.source, shard)


def _fills(raw: RawTable, declaration: Declaration) -> dict[str, float]:
    """By column what a missing cell counts as, where the declaration fills it in: of a category, none of its values."""
    if not raw.missing and not raw.categories:
        return dict.fromkeys(raw.features, declaration.fill) if declaration.missing == "fill" else {}
    found = {cells.column: cells.fill for cells in raw.missing if cells.policy == "fill"}
    return found | {category.column: 0.0 for category, cells in raw.categories if cells.policy == "fill"}


def _check_missing(raw: RawTable, name: str, rows: NDArray[np.int64], cells: MissingCells) -> None:
    if len(rows) == len(raw.ids):
        raise InvalidInput(f"{raw.source}: column {name!r}: every cell is missing; add it to leave_out")
    if cells.policy == "refuse":
        raise InvalidInput(missing_cell(raw.source, int(rows.min()) + 1, name, len(rows)))


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
    gaps = {cells.column: rows[positions == position] for position, cells in enumerate(raw.missing) if cells.indicator}
    gaps |= {cells.column: np.flatnonzero(one.codes == MISSING) for one, cells in raw.categories if cells.indicator}
    found: dict[str, NDArray[np.float64]] = {}
    for column, missing in gaps.items():
        found[column] = np.zeros(len(raw.ids))
        found[column][missing] = 1.0
    return found


def _with_indicators(raw: RawTable, indicators: Mapping[str, NDArray[np.float64]]) -> tuple[Matrix, tuple[str, ...]]:
    if isinstance(raw.X, csr_array):
        raw.X.eliminate_zeros()
    if not indicators:
        return raw.X, raw.features
    features = (*raw.features, *(missing_name(column) for column in indicators))
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
    low = high = np.zeros(0)
    if isinstance(shard.X, csr_array):
        if shard.features:
            low = shard.X.nanmin(axis=0).toarray().reshape(-1)
            high = shard.X.nanmax(axis=0).toarray().reshape(-1)
    else:
        low, high = np.nanmin(shard.X, axis=0), np.nanmax(shard.X, axis=0)
    constant, large = np.flatnonzero(low == high), np.flatnonzero(np.maximum(-low, high) > LARGE_VALUE)
    # A sparse column without entries is constant by nature.
    constant = constant[low[constant] != 0.0] if isinstance(shard.X, csr_array) else constant
    same = [shard.features[position] for position in constant]
    same += [category.column for category in shard.categories if np.ptp(category.codes) == 0]
    notes = []
    if same:
        notes.append(
            f"{source}: every cell is the same in {_names(same)}; add it to leave_out if it is so at all parties"
        )
    if len(large):
        names = _names([shard.features[position] for position in large])
        notes.append(
            f"{source}: there are values beyond ±{LARGE_VALUE:g} in {names}; a run without [features] does not scale "
            "them, so bring them to the scale of the others first"
        )
    return notes


def _columns(names: str | Sequence[str]) -> str:
    return f"column {names!r}" if isinstance(names, str) else f"columns {', '.join(map(repr, names))}"


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:SHOWN_NAMES])
    more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
    return f"column {shown}{more}"
