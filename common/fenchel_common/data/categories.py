"""Columns of categories, and the features of 0 and 1 that a run makes of them and of missing cells.

Which features these are is the run's *vocabulary*. The parties agree on it in the set-up of a run with `[features]`, so
that every holder of a column has the same features; without `[features]` each party has the values that its shard.toml
lists.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

from fenchel_common.errors import InvalidInput
from fenchel_common.layout import MAX_NAME_CHARS

Array = NDArray[np.float64]
Codes = NDArray[np.int32]
Matrix = Array | csr_array

MISSING: Final = -1
"""The code of a missing cell that the run is to fill in."""
NONE: Final = -2
"""The code of a missing cell that counts as none of the values."""


@dataclass(frozen=True, slots=True, eq=False)
class Category:
    """One column of categories.

    Attributes
    ----------
    values
        Canonical texts, none of them twice.
    codes
        (rows,) the position of the value of each row, or `MISSING` or `NONE`.
    listed
        Whether shard.toml lists the values; otherwise they are those found in the table.
    """

    column: str
    values: tuple[str, ...] = field(repr=False)
    codes: Codes = field(repr=False)
    listed: bool = True

    def taken(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> "Category":
        """The same column of chosen rows."""
        return replace(self, codes=self.codes[rows])

    @property
    def missing(self) -> int:
        """The number of cells that the run is to fill in."""
        return int(np.count_nonzero(self.codes == MISSING))

    def counts(self) -> NDArray[np.int64]:
        """(values,) the number of rows that have each value."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.values)).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Which features of 0 and 1 are made of which columns.

    Attributes
    ----------
    values
        By column of categories the values that have a feature of their own, ascending.
    others
        The columns of categories that have one feature for all other values.
    indicators
        The columns that have a feature which is 1 where the cell is missing.
    """

    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    others: frozenset[str] = frozenset()
    indicators: frozenset[str] = frozenset()

    @classmethod
    def listed(cls, categories: Iterable[Category]) -> Self:
        """One feature for each value that the party itself knows."""
        return cls({category.column: tuple(sorted(category.values)) for category in categories})

    @classmethod
    def offered(cls, categories: Sequence[Category], *, least: int, missing: Collection[str] = ()) -> Self:
        """What a party tells the others: of each column the values that at least `least` of its own rows have.

        Values that cannot be told, because they are too long or have a zero character, count as rare. `missing` are the
        columns with missing cells, if the run has indicators.
        """
        values: dict[str, tuple[str, ...]] = {}
        others = set()
        for category in categories:
            counts = category.counts()
            told = [
                value
                for value, count in zip(category.values, counts.tolist(), strict=True)
                if count >= least and len(value) <= MAX_NAME_CHARS and "\0" not in value
            ]
            values[category.column] = tuple(sorted(told))
            if len(told) < np.count_nonzero(counts):
                others.add(category.column)
        return cls(values, frozenset(others), frozenset(missing))

    @classmethod
    def union(cls, offered: Iterable["Vocabulary"]) -> Self:
        """The vocabulary that follows from all offers, the same whatever their order."""
        values: dict[str, set[str]] = {}
        others: set[str] = set()
        indicators: set[str] = set()
        for one in offered:
            for column, told in one.values.items():
                values.setdefault(column, set()).update(told)
            others |= one.others
            indicators |= one.indicators
        ordered = {column: tuple(sorted(values[column])) for column in sorted(values)}
        return cls(ordered, frozenset(others), frozenset(indicators))

    def names_of_others(self) -> frozenset[str]:
        """The names of the features for all values without a feature of their own."""
        return frozenset(map(other_name, self.others))

    def flags(self) -> frozenset[str]:
        """The names of all features of 0 and 1 that the vocabulary makes, at any party."""
        of_values = {value_name(column, value) for column, told in self.values.items() for value in told}
        return frozenset(of_values | self.names_of_others() | {missing_name(name) for name in self.indicators})


def value_name(column: str, value: str) -> str:
    """The name of the feature that is 1 where the column has the value."""
    return f"{column}={value}"


def other_name(column: str) -> str:
    """The name of the feature that is 1 where the column has a value without a feature of its own.

    No value has this name: it has no "=" after the column.
    """
    return f"{column} is other"


def missing_name(column: str) -> str:
    """The name of the feature that is 1 where the cell is missing."""
    return f"{column} is missing"


def listed_names(features: Iterable[str], categories: Sequence[Category]) -> tuple[str, ...]:
    """The names of all features that a party has if each value that it knows is a feature, sorted."""
    return expanded_names(features, categories, Vocabulary.listed(categories))


def expanded_names(features: Iterable[str], categories: Iterable[Category], vocabulary: Vocabulary) -> tuple[str, ...]:
    """The names of all features that a party has under a vocabulary, sorted."""
    columns = set(features)
    names = columns | {missing_name(name) for name in columns & vocabulary.indicators}
    for category in categories:
        names |= {value_name(category.column, value) for value in vocabulary.values[category.column]}
        if category.column in vocabulary.others:
            names.add(other_name(category.column))
        if category.column in vocabulary.indicators:
            names.add(missing_name(category.column))
    return tuple(sorted(names))


def expanded(
    X: Matrix, features: Sequence[str], categories: Sequence[Category], vocabulary: Vocabulary
) -> tuple[Matrix, tuple[str, ...]]:
    """X with the features of the vocabulary, and the names of all its columns, by which they are sorted.

    `features` are the names of the columns of X, and rows of `categories` are those of X. A dense result has whole
    columns side by side in memory. Raises `InvalidInput` if two features would have the same name.
    """
    position_of = {name: position for position, name in enumerate(features)}
    added: dict[str, Callable[[], Array]] = {}
    for name, make in _added(X, position_of, categories, vocabulary):
        if name in position_of or name in added:
            raise InvalidInput(
                f"column {name!r}: has the name of a feature that is made of a category; rename one of them"
            )
        added[name] = make
    names = expanded_names(features, categories, vocabulary)
    if isinstance(X, csr_array):
        together = csr_array(hstack([X, *(csr_array(make()[:, None]) for make in added.values())], format="csr"))
        sorted_at = {name: position for position, name in enumerate(names)}
        moves = np.array([sorted_at[name] for name in (*features, *added)], dtype=together.indices.dtype)
        together.indices = moves[together.indices]
        together.has_sorted_indices = False
        return together, names
    dense = np.empty((X.shape[0], len(names)), order="F")
    for position, name in enumerate(names):
        dense[:, position] = X[:, position_of[name]] if name in position_of else added[name]()
    return dense, names


def _added(
    X: Matrix, position_of: Mapping[str, int], categories: Iterable[Category], vocabulary: Vocabulary
) -> Iterator[tuple[str, Callable[[], Array]]]:
    """The features that are new, each made when it is needed. A declared indicator takes the place of a new one."""
    for name, position in position_of.items():
        if name in vocabulary.indicators and missing_name(name) not in position_of:
            yield missing_name(name), partial(_gaps, X, position)
    for category in categories:
        column, told = category.column, vocabulary.values[category.column]
        code_of = {value: code for code, value in enumerate(category.values)}
        for value in told:
            yield value_name(column, value), partial(_flags, category, [code_of[value]] if value in code_of else [])
        if column in vocabulary.others:
            rest = [code_of[value] for value in code_of.keys() - set(told)]
            yield other_name(column), partial(_flags, category, rest)
        if column in vocabulary.indicators and missing_name(column) not in position_of:
            yield missing_name(column), partial(_missing, category)


def _flags(category: Category, codes: Sequence[int]) -> Array:
    """(rows,) 1 where the row has one of the codes, NaN where the run is to fill the cell in, 0 elsewhere."""
    # `MISSING` and `NONE` point to the last two.
    of_code = np.zeros(len(category.values) + 2)
    of_code[list(codes)] = 1.0
    of_code[MISSING] = np.nan
    return np.asarray(of_code[category.codes])


def _missing(category: Category) -> Array:
    return np.asarray(category.codes == MISSING, dtype=np.float64)


def _gaps(X: Matrix, position: int) -> Array:
    column: Array = X[:, [position]].toarray().reshape(-1) if isinstance(X, csr_array) else X[:, position]
    return np.isnan(column).astype(np.float64)
