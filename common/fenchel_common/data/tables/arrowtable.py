"""Raw tables and profiles of sources that come in Arrow batches: CSV, Parquet, frames."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from fenchel_common.classlabels import class_code
from fenchel_common.data.canonical import canonical, joined
from fenchel_common.data.categories import MISSING, NONE, Category, Codes
from fenchel_common.data.shard import Matrix
from fenchel_common.data.tables.cells import Spot, ids, numbers, texts
from fenchel_common.data.tables.declaration import DECLARATION_FILE, Declaration, FeatureDeclaration
from fenchel_common.data.tables.profile import TableProfile
from fenchel_common.data.tables.raw import MissingCells, RawTable
from fenchel_common.data.tables.survey import ColumnSurvey
from fenchel_common.errors import InvalidInput

BLOCK_CELLS: Final = 1 << 22
"""The most numbers of a block that is made of a batch before it joins the matrix."""
SHOWN_COLUMNS: Final = 5


class ArrowSource(ABC):
    """A table that comes in batches of columns."""

    def __init__(self, name: str, columns: Sequence[str]) -> None:
        self.name = name
        self.columns = tuple(columns)

    @abstractmethod
    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """The record batches of these columns, in the order of the rows; `InvalidInput` names what is unreadable."""


class ArrowReader(ABC):
    """Reads files of one format through Arrow."""

    @abstractmethod
    def options(self, path: Path, declaration: Declaration) -> Declaration:
        """The declaration with what the file itself tells of how it is to be read."""

    @abstractmethod
    def open(self, path: Path, declaration: Declaration) -> ArrowSource:
        """The file's table."""

    def columns(self, path: Path, declaration: Declaration) -> tuple[str, ...] | None:
        return self.open(path, self.options(path, declaration)).columns

    def read(self, path: Path, declaration: Declaration) -> RawTable:
        declaration = self.options(path, declaration)
        return raw_table(self.open(path, declaration), declaration)

    def profile(self, path: Path, declaration: Declaration) -> TableProfile:
        declaration = self.options(path, declaration)
        return profiled(self.open(path, declaration), declaration)


def profiled(source: ArrowSource, declaration: Declaration) -> TableProfile:
    surveys = [ColumnSurvey(name, declaration.csv) for name in source.columns]
    rows = 0
    for batch in source.batches(source.columns):
        rows += batch.num_rows
        for survey, array in zip(surveys, batch.columns, strict=True):
            survey.add(array)
    columns = [survey.result() for survey in surveys]
    return TableProfile(source.name, rows, len(columns), declaration, columns)


def raw_table(source: ArrowSource, declaration: Declaration) -> RawTable:
    """Reads the columns that the declaration uses, once, and nothing else."""
    assembly = _Assembly(source, declaration)
    for batch in source.batches(assembly.columns):
        step = max(1, BLOCK_CELLS // max(len(assembly.features), 1))
        for start in range(0, batch.num_rows, step):
            assembly.add(batch.slice(start, step))
    return assembly.table()


class _Feature:
    """One column that is used: of numbers, or of categories with the position of each value."""

    def __init__(self, column: str, declared: FeatureDeclaration, declaration: Declaration) -> None:
        self.column = column
        self.is_category = declared.type == "category"
        self.listed = bool(declared.values)
        self.values = {canonical(value): position for position, value in enumerate(declared.values)}
        self.codes: list[Codes] = []
        fill = declaration.fill if declared.fill is None else declared.fill
        self.missing = MissingCells(column, declared.missing or declaration.missing, fill, declared.indicator)

    def add(self, array: Any, spot: Spot) -> None:
        """Takes the next cells of a category."""
        known, positions = texts(array, spot)
        if not self.listed:
            for text in known:
                self.values.setdefault(text, len(self.values))
        codes = np.array([*(self.values.get(text, NONE) for text in known), MISSING], dtype=np.int32)[positions]
        if (codes == NONE).any():
            raise spot.error(
                int((codes == NONE).argmax()),
                f"has a value that {DECLARATION_FILE} does not list under [features.{self.column}]; add it to the "
                "values there, or correct it here (`fenchel data inspect` shows the values)",
            )
        self.codes.append(codes)

    def category(self) -> Category:
        codes = np.concatenate([np.zeros(0, dtype=np.int32), *self.codes])
        self.codes.clear()
        return Category(self.column, tuple(self.values), codes, self.listed)


class _Assembly:
    """A raw table in the making."""

    def __init__(self, source: ArrowSource, declaration: Declaration) -> None:
        self._source, self._declaration = source, declaration
        self._id_columns = declaration.id_columns
        label = declaration.label
        if label is not None and label.column is None:
            raise InvalidInput(f'{source.name}: label: which column is it? Write column = "NAME" under [label]')
        self._label = None if label is None else label.column
        self._weight = None if label is None else label.weight
        self._used = _features(source, declaration, taken={*self._id_columns, self._label, self._weight})
        named = [
            *self._id_columns,
            *(name for name in (self._label, self._weight) if name is not None),
            *(feature.column for feature in self._used),
        ]
        _check_columns(source, named)
        self.columns = named
        self._numbers = [feature for feature in self._used if not feature.is_category]
        self._categories = [feature for feature in self._used if feature.is_category]
        self.features = tuple(feature.column for feature in self._numbers)
        self._rows = 0
        self._ids: list[str] = []
        self._labels: list[NDArray[np.float64]] = []
        self._weights: list[NDArray[np.float64]] = []
        self._dense: list[NDArray[np.float64]] = []
        self._sparse: list[csr_array] = []

    def add(self, batch: Any) -> None:
        columns = dict(zip(self.columns, batch.columns, strict=True))
        self._ids += joined([ids(columns[name], self._spot(name)) for name in self._id_columns])
        if self._label is not None:
            self._labels.append(self._label_numbers(columns[self._label]))
        if self._weight is not None:
            self._weights.append(numbers(columns[self._weight], self._spot(self._weight), self._declaration.csv))
        block = np.empty((batch.num_rows, len(self.features)))
        for position, feature in enumerate(self._numbers):
            block[:, position] = numbers(columns[feature.column], self._spot(feature.column), self._declaration.csv)
        for feature in self._categories:
            feature.add(columns[feature.column], self._spot(feature.column))
        if self._declaration.sparse:
            self._sparse.append(csr_array(block))
        else:
            self._dense.append(block)
        self._rows += batch.num_rows

    def table(self) -> RawTable:
        X: Matrix = np.zeros((0, len(self.features)))
        if self._sparse:
            X = csr_array(vstack(self._sparse, format="csr"))
        elif self._dense:
            X = np.concatenate(self._dense)
        self._dense.clear()
        self._sparse.clear()
        y = None if self._label is None else np.concatenate([np.zeros(0), *self._labels])
        return RawTable(
            self._source.name,
            self._ids,
            self.features,
            X,
            y,
            [feature.missing for feature in self._numbers],
            [(feature.category(), feature.missing) for feature in self._categories],
            weights=None if self._weight is None else np.concatenate([np.zeros(0), *self._weights]),
        )

    def _spot(self, column: str) -> Spot:
        return Spot(self._source.name, column, self._rows + 1)

    def _label_numbers(self, array: Any) -> NDArray[np.float64]:
        assert self._declaration.label is not None
        assert self._label is not None
        spot = self._spot(self._label)
        if self._declaration.label.type == "number":
            return numbers(array, spot, self._declaration.csv)
        known, codes = texts(array, spot)
        if self._declaration.label.type == "names":
            return np.array([*(class_code(text) for text in known), np.nan])[codes]
        classes = self._declaration.label.classes()
        of_text = np.array([*(classes.get(text, np.inf) for text in known), np.nan])
        y = of_text[codes]
        if np.isinf(y).any():
            raise spot.error(
                int(np.isinf(y).argmax()),
                f"is neither the positive nor the negative label of {DECLARATION_FILE}; correct it there or here "
                "(`fenchel data inspect` shows the values)",
            )
        return y


def _features(source: ArrowSource, declaration: Declaration, *, taken: set[str | None]) -> list[_Feature]:
    rest = [name for name in source.columns if name not in taken and name not in declaration.leave_out]
    if declaration.features is None:
        return [_Feature(name, FeatureDeclaration(), declaration) for name in rest]
    strangers = [name for name in rest if name not in declaration.features]
    if strangers:
        shown = ", ".join(repr(name) for name in strangers[:SHOWN_COLUMNS])
        raise InvalidInput(
            f"{source.name}: {DECLARATION_FILE} says nothing of column {shown}"
            f"{' and others' if len(strangers) > SHOWN_COLUMNS else ''}; add it to [features] or to leave_out"
        )
    return [_Feature(name, declared, declaration) for name, declared in declaration.features.items()]


def _check_columns(source: ArrowSource, named: Sequence[str]) -> None:
    for name in named:
        if name not in source.columns:
            raise InvalidInput(
                f"{source.name}: has no column {name!r}, which {DECLARATION_FILE} names; its columns are "
                f"{', '.join(source.columns[: 10 * SHOWN_COLUMNS])}"
            )
