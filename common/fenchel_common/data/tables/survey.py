"""Profiles of Arrow columns, batch by batch."""

import math
from collections import Counter
from typing import Any, Literal

import numpy as np
import pyarrow.compute as pc

from fenchel_common.data.canonical import canonical
from fenchel_common.data.tables.cells import (
    Spot,
    decoded,
    is_numeric,
    is_text,
    number_fault,
    numbers,
    unreadable,
)
from fenchel_common.data.tables.declaration import CsvOptions
from fenchel_common.data.tables.profile import MAX_VALUES, BadCells, ColumnProfile
from fenchel_common.errors import InvalidInput

MOSTLY = 0.9
"""A column is of numbers if more than this fraction of its cells are: the others are mistakes."""


class ColumnSurvey:
    """The profile of one column in the making."""

    def __init__(self, name: str, options: CsvOptions) -> None:
        self._name = name
        self._options = options
        self._rows = self._missing = 0
        self._numbers = self._number_like = 0
        self._values: Counter[str] | None = Counter()
        self._low, self._high, self._whole = math.inf, -math.inf, True
        self._bad: BadCells | None = None
        self._usable = True
        self._first_missing: int | None = None

    def add(self, array: Any) -> None:
        """Takes the cells of the next batch."""
        array = decoded(array)
        first = self._rows + 1
        self._rows += len(array)
        self._missing += array.null_count
        if array.null_count and self._first_missing is None:
            self._first_missing = first + pc.index(pc.is_null(array), True).as_py()
        try:
            self._add_numbers(numbers(array, Spot("", self._name, first), self._options), nulls=array.null_count)
        except InvalidInput:
            if not is_text(array.type):
                self._usable = is_numeric(array.type)
                self._values = None
                return
            self._add_texts(array, first)
        self._count_values(array)

    def result(self) -> ColumnProfile:
        present = self._rows - self._missing
        like = self._numbers + self._number_like
        kind: Literal["number", "text", "other"] = "text"
        if not self._usable:
            kind = "other"
        elif present and like > MOSTLY * present:
            kind = "number"
        numeric = kind == "number" and self._numbers > 0
        return ColumnProfile(
            name=self._name,
            kind=kind,
            rows=self._rows,
            missing=self._missing,
            first_missing=self._first_missing,
            values=None if self._values is None else dict(self._values),
            low=self._low if numeric else None,
            high=self._high if numeric else None,
            whole=self._whole and numeric,
            bad=self._bad,
        )

    def _add_numbers(self, cells: Any, *, nulls: int) -> None:
        """Takes cells of which those without value, but for so many nulls, are NaN or words for it."""
        present = cells[~np.isnan(cells)]
        self._missing += len(cells) - len(present) - nulls
        self._numbers += len(present)
        if len(present):
            self._low, self._high = min(self._low, float(present.min())), max(self._high, float(present.max()))
            self._whole = self._whole and bool((present == np.rint(present)).all())

    def _add_texts(self, array: Any, first: int) -> None:
        """Takes a batch of which some cells are no numbers."""
        bad, separated = unreadable(array, self._options)
        self._number_like += int(separated.sum())
        index = int(bad.argmax())
        before = self._bad or BadCells(0, first + index, number_fault(array[index].as_py()))
        self._bad = BadCells(before.count + int(bad.sum()), before.first_row, before.fault)
        right = array.filter(~bad)
        self._add_numbers(numbers(right, Spot("", self._name, first), self._options), nulls=right.null_count)

    def _count_values(self, array: Any) -> None:
        if self._values is None:
            return
        counts = array.value_counts()
        if len(counts) > 4 * MAX_VALUES:
            self._values = None
            return
        for entry in counts.to_pylist():
            value = entry["values"]
            if value is None or value != value or (isinstance(value, str) and not value.strip()):
                continue
            try:
                self._values[canonical(value)] += entry["counts"]
            except ValueError:
                self._values[str(value)] += entry["counts"]
        if len(self._values) > MAX_VALUES:
            self._values = None
