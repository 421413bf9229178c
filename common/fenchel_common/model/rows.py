"""New rows for a model: read as a party's own table is, by the names of columns.

The rules of a shard.toml hold: how the file is read, which column has the ids, which has the labels, and with which
number missing cells are filled in. Which columns are features, and what is made of them, follows from the model. A
value of a category that the model does not know counts as one of the other values or, without such a feature, as none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

from fenchel_common.classlabels import class_codes
from fenchel_common.data.categories import Category, Vocabulary, expanded
from fenchel_common.data.shard import Matrix, check_ids
from fenchel_common.data.tables.declaration import DECLARATION_FILE, Declaration
from fenchel_common.data.tables.guess import ID_NAME, LABEL_NAMES
from fenchel_common.data.tables.raw import RawTable
from fenchel_common.data.tables.readers import format_of
from fenchel_common.data.tables.source import TableFile
from fenchel_common.errors import InvalidInput
from fenchel_common.model.record import Array, Feature, ModelRecord
from fenchel_common.model.scoring import NO_NAMES

SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class TableRules:
    """What a person says of new tables: a shard.toml, the columns of ids, the column of labels; or nothing."""

    declaration: Path | None = None
    ids: tuple[str, ...] = ()
    label: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class NewRows:
    """Rows as a model takes them.

    Attributes
    ----------
    X
        (n, m) raw values in the order of the model's features, NaN where a cell is missing.
    y
        (n,) the position of the class among those of the model, or the number to predict; NaN where it is missing.
    notes
        What their owner should know; no cell and no id.
    """

    ids: tuple[str, ...] = field(repr=False)
    X: Matrix = field(repr=False)
    y: Array | None = field(repr=False)
    weights: Array | None = field(repr=False)
    notes: tuple[str, ...] = ()


def read_rows(paths: Sequence[Path], record: ModelRecord, rules: TableRules | None = None) -> NewRows:
    """The rows of one table, or of several that have different columns of the same samples, put together by id.

    `InvalidInput` says what is wrong, where, and what to do.
    """
    tables = [_table(path, record, rules or TableRules()) for path in paths]
    first, *others = tables
    order = [np.arange(len(first.raw.ids)), *(_order(first.raw, other.raw) for other in others)]
    found: dict[str, tuple[Matrix, int]] = {}
    y = weights = None
    for table, rows in zip(tables, order, strict=True):
        X, names = table.X if table is first else _taken(table.X, rows), table.names
        for position, name in enumerate(names):
            found.setdefault(name, (X, position))
        if y is None and table.raw.y is not None:
            y = table.raw.y[rows]
            weights = None if table.raw.weights is None else table.raw.weights[rows]
    _check_columns(record, found, paths)
    return NewRows(
        tuple(first.raw.ids),
        _in_order([found[feature.name] for feature in record.features]),
        None if y is None else _labels(record, y),
        weights,
        tuple(note for table in tables for note in table.notes),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """A table, and the features of the model that it has."""

    raw: RawTable
    X: Matrix
    names: tuple[str, ...]
    notes: tuple[str, ...]


def _table(path: Path, record: ModelRecord, rules: TableRules) -> _Table:
    table = TableFile.find(path)
    declared = table.declaration if rules.declaration is None else Declaration.from_toml(rules.declaration)
    base = (declared or table.blank()).model_copy(update={"file": table.path.name})
    columns = table.columns(base)
    if columns is None:
        raw = table.read(base)
        if base.label is None and raw.y is not None and record.task == "binary":
            raw = replace(raw, y=_signs(raw.y, record.classes or NO_NAMES))
    else:
        raw = table.read(_declaration(base, columns, record, rules, guess=declared is None))
    if not raw.ids:
        raise InvalidInput(f"{raw.source}: has no rows")
    X, names = _features(raw, record.features)
    filled = _fills(base, raw)
    for position, feature in enumerate(one for one in record.features if one.name in set(names)):
        if feature.column in filled and feature.kind != "missing":
            _fill(X, position, filled[feature.column] if feature.kind == "number" else 0.0)
    if format_of(table.path, base.format).name == "libsvm":
        X, names = _with_zeros(X, names, record.features)
    return _Table(raw, X, names, tuple(_unknown_values(raw, record.features)))


def _declaration(
    base: Declaration, columns: Sequence[str], record: ModelRecord, rules: TableRules, *, guess: bool
) -> Declaration:
    """How to read a table of these columns for the model."""
    categories = {one.column for one in record.features if one.kind in ("category", "other")}
    wanted = {one.column for one in record.features} | {one.name for one in record.features if one.kind == "missing"}
    ids = list(rules.ids) or _ids(base, columns)
    label = _label(base, columns, record, rules, guess=guess, taken={*ids, *wanted})
    used = {*ids, *((label or {}).get(key) for key in ("column", "weight"))}
    features = {
        name: {"type": "category" if name in categories else "number"}
        for name in columns
        if name in wanted and name not in used
    }
    values = base.model_dump(include={"file", "format", "csv", "sparse"}, exclude_defaults=True)
    values |= {"file": base.file, "id": ids, "missing": "impute", "features": features}
    values |= {"leave_out": [name for name in columns if name not in used and name not in features]}
    return Declaration.from_mapping(values | ({} if label is None else {"label": label}), source=base.file)


def _ids(base: Declaration, columns: Sequence[str]) -> list[str]:
    if base.id is not None:
        return base.id_columns
    for name in columns:
        if ID_NAME.fullmatch(name):
            return [name]
    raise InvalidInput(
        f"{base.file}: no column is named like an id (id, patient_id, …); say which one has the ids by --id COLUMN, or "
        f"in a {DECLARATION_FILE}"
    )


def _label(
    base: Declaration,
    columns: Sequence[str],
    record: ModelRecord,
    rules: TableRules,
    *,
    guess: bool,
    taken: set[str],
) -> dict[str, Any] | None:
    """The section [label] for new rows; None if they have no labels."""
    if base.label is not None and rules.label is None:
        declared = base.label.model_dump(exclude_none=True)
        present = {name: value for name, value in declared.items() if name != "weight" or value in columns}
        return present if base.label.column in columns else None
    column = rules.label
    if column is None and guess:
        column = next((name for name in columns if name.lower() in LABEL_NAMES and name not in taken), None)
    if column is None:
        return None
    if rules.label is not None and column not in columns:
        raise InvalidInput(f"{base.file}: has no column {column!r}; its columns are {', '.join(columns)}")
    if record.task != "binary":
        return {"column": column, "type": "number" if record.task == "regression" else "names"}
    negative, positive = record.classes or NO_NAMES
    return {"column": column, "positive": positive, "negative": negative}


def _features(raw: RawTable, features: Sequence[Feature]) -> tuple[Matrix, tuple[str, ...]]:
    """Raw values of the features that the table has, in their order, and their names."""
    values: dict[str, tuple[str, ...]] = {category.column: () for category, _ in raw.categories}
    for one in features:
        if one.kind == "category" and one.column in values and one.value is not None:
            values[one.column] = (*values[one.column], one.value)
    known = {*raw.features, *values}
    vocabulary = Vocabulary(
        values,
        frozenset(one.column for one in features if one.kind == "other" and one.column in values),
        frozenset(one.column for one in features if one.kind == "missing" and one.column in known),
    )
    X, names = expanded(raw.X, raw.features, [category for category, _ in raw.categories], vocabulary)
    position_of = {name: position for position, name in enumerate(names)}
    held = [one.name for one in features if one.name in position_of]
    return _columns(X, [position_of[name] for name in held]), tuple(held)


def _fills(base: Declaration, raw: RawTable) -> dict[str, float]:
    """By column the number that missing cells are filled in with, as the declaration says."""
    columns = [*raw.features, *(category.column for category, _ in raw.categories)]
    found = {}
    for column in columns:
        declared = (base.features or {}).get(column)
        if ((declared and declared.missing) or base.missing) == "fill":
            found[column] = base.fill if declared is None or declared.fill is None else declared.fill
    return found


def _fill(X: Matrix, position: int, value: float) -> None:
    if isinstance(X, csr_array):
        X.data[np.isnan(X.data) & (X.indices == position)] = value
    else:
        X[np.isnan(X[:, position]), position] = value


def _with_zeros(X: Matrix, names: tuple[str, ...], features: Sequence[Feature]) -> tuple[Matrix, tuple[str, ...]]:
    """With the features that a sparse file has no entry of: they are zero."""
    absent = tuple(one.name for one in features if one.name not in set(names) and one.kind == "number")
    return _beside([X, csr_array((X.shape[0], len(absent)))]), (*names, *absent)


def _unknown_values(raw: RawTable, features: Sequence[Feature]) -> list[str]:
    notes = []
    for category, _ in raw.categories:
        told = {one.value for one in features if one.column == category.column}
        other = any(one.kind == "other" and one.column == category.column for one in features)
        count = _count_of(category, [value for value in category.values if value not in told])
        if count:
            counted = "the other values" if other else "none of its values"
            notes.append(
                f"{raw.source}: column {category.column!r}: {count} cells have a value without a feature in the model; "
                f"they count as {counted}"
            )
    return notes


def _count_of(category: Category, values: Sequence[str]) -> int:
    wanted = [position for position, value in enumerate(category.values) if value in set(values)]
    return int(np.isin(category.codes, wanted).sum())


def _order(first: RawTable, other: RawTable) -> NDArray[np.int64]:
    """The row of `other` for each row of the first table."""
    for table in (first, other):
        check_ids(table.ids, table.source)
    row_of = {sample: row for row, sample in enumerate(other.ids)}
    absent = sum(sample not in row_of for sample in first.ids)
    if absent:
        raise InvalidInput(
            f"{other.source}: lacks {absent} of the {len(first.ids)} samples of {first.source}; give tables that have "
            "the same samples, or leave these rows out"
        )
    return np.array([row_of[sample] for sample in first.ids], dtype=np.int64)


def _check_columns(record: ModelRecord, found: Mapping[str, object], paths: Sequence[Path]) -> None:
    absent = list(dict.fromkeys(one.column for one in record.features if one.name not in found))
    if absent:
        shown = ", ".join(repr(name) for name in absent[:SHOWN])
        more = f" and {len(absent) - SHOWN} more" if len(absent) > SHOWN else ""
        raise InvalidInput(
            f"{', '.join(map(str, paths))}: has no column {shown}{more}, which the model uses; add it, with empty "
            "cells where the value is not known"
        )


def _labels(record: ModelRecord, y: Array) -> Array:
    """Labels as `quality` takes them."""
    if record.task == "regression":
        return y
    codes = (-1.0, 1.0) if record.task == "binary" else class_codes(record.classes)
    found = np.full(len(y), np.nan)
    for position, code in enumerate(codes):
        found[y == code] = position
    unknown = int((np.isnan(found) & ~np.isnan(y)).sum())
    if unknown:
        raise InvalidInput(f"y: {unknown} of {len(y)} labels are no classes of the model: {', '.join(record.classes)}")
    return found


def _signs(y: Array, names: tuple[str, ...]) -> Array:
    """Labels −1 and +1 of a matrix whose labels are written as the model names its classes."""
    codes = class_codes(names)
    return np.select([y == code for code in codes], [-1.0, 1.0], default=y)


def _columns(X: Matrix, positions: Sequence[int]) -> Matrix:
    return csr_array(X[:, positions]) if isinstance(X, csr_array) else X[:, positions]


def _taken(X: Matrix, rows: NDArray[np.int64]) -> Matrix:
    return csr_array(X[rows]) if isinstance(X, csr_array) else X[rows]


def _in_order(found: Sequence[tuple[Matrix, int]]) -> Matrix:
    """One matrix of these columns, each given by a matrix and its position there."""
    matrices = list({id(X): X for X, _ in found}.values())
    start = dict(zip(map(id, matrices), np.cumsum([0, *(X.shape[1] for X in matrices[:-1])]).tolist(), strict=True))
    positions = [start[id(X)] + position for X, position in found]
    return _columns(_beside(matrices), positions)


def _beside(matrices: Sequence[Matrix]) -> Matrix:
    """The columns of all matrices; sparse if one of them is."""
    dense = [X for X in matrices if not isinstance(X, csr_array)]
    if len(dense) == len(matrices):
        return np.hstack(dense)
    return csr_array(hstack([csr_array(X) for X in matrices], format="csr"))
