"""A model as a function of the columns of a table: what each cell adds to the prepared values.

Both exports are made of this. The prepared values come in the order of `names`: those of numbers, then of indicators of
missing numbers, then those of each category, which follow from a lookup table.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Self

import numpy as np

from fenchel_common.errors import InvalidInput
from fenchel_common.model.joining import described
from fenchel_common.model.record import Array, Feature, Model

MAX_COLUMNS: Final = 5000
"""The most columns of a table that an export takes by their names."""
MISSING: Final = ""
"""The text of a missing category; no value is empty."""


@dataclass(frozen=True, slots=True, eq=False)
class CategoryTable:
    """The prepared values of one column of categories.

    Attributes
    ----------
    values
        The values that the model knows.
    table
        (len(values) + 2, len(features)) the prepared values for each value, for a missing cell, and for all other
        values. NaN where the model refuses missing cells.
    """

    column: str
    values: tuple[str, ...]
    features: tuple[Feature, ...]
    table: Array = field(repr=False)

    @classmethod
    def of(cls, column: str, features: Sequence[Feature]) -> Self:
        values = tuple(one.value for one in features if one.value is not None)
        rows = []
        for state in (*values, None, MISSING):
            raw = [_raw(one, state) for one in features]
            rows.append([(value - one.shift) / one.scale for value, one in zip(raw, features, strict=True)])
        return cls(column, values, tuple(features), np.array(rows).reshape(len(values) + 2, len(features)))


@dataclass(frozen=True, slots=True, eq=False)
class ColumnModel:
    """A model by the columns of a table.

    Attributes
    ----------
    numbers, gaps
        The features of numbers, those with a value for missing cells first; and those that say whether a number is
        missing.
    categories
        Each column of categories with its features.
    weights
        (m, scores) the weights of `names`, for one score or one for each class.
    intercept
        (scores,)
    """

    model: Model
    numbers: tuple[Feature, ...]
    gaps: tuple[Feature, ...]
    categories: tuple[CategoryTable, ...]
    weights: Array = field(repr=False)
    intercept: Array = field(repr=False)

    @classmethod
    def of(cls, model: Model) -> Self:
        """`InvalidInput` for a model with too many columns."""
        features = model.record.features
        of_categories = dict.fromkeys(one.column for one in features if one.kind in ("category", "other"))
        numbers = tuple(sorted((one for one in features if one.kind == "number"), key=lambda one: one.missing is None))
        gaps = tuple(one for one in features if one.kind == "missing" and one.column not in of_categories)
        if len(numbers) + len(of_categories) > MAX_COLUMNS:
            raise InvalidInput(
                f"{described(model.record)}: has {len(numbers)} columns of numbers, and an export takes at most "
                f"{MAX_COLUMNS} columns by name; use weights.npz as a matrix, as docs/model.md says"
            )
        tables = tuple(
            CategoryTable.of(column, [one for one in features if one.column == column]) for column in of_categories
        )
        ordered = (*numbers, *gaps, *(one for table in tables for one in table.features))
        position_of = {name: position for position, name in enumerate(model.names)}
        order = np.array([position_of[one.name] for one in ordered], dtype=np.int64)
        weights = model.weights[order].reshape(len(order), -1)
        intercept = np.zeros(weights.shape[1]) if model.intercept is None else model.intercept.reshape(-1)
        return cls(model, numbers, gaps, tables, weights, intercept)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features in the order of the prepared values."""
        ordered = (*self.numbers, *self.gaps, *(one for table in self.categories for one in table.features))
        return tuple(one.name for one in ordered)

    @property
    def number_columns(self) -> list[str]:
        """The columns of numbers, each once."""
        return list(dict.fromkeys(one.column for one in (*self.numbers, *self.gaps)))

    def predicted_numbers(self, *, partial: bool) -> tuple[Array, Array]:
        """Weights and intercept of the predicted number; those of the score if parts of the model are lacking."""
        target = self.model.record.target
        if target is None or partial:
            return self.weights, self.intercept
        return target.scale * self.weights, target.shift + target.scale * self.intercept


def figures(features: Sequence[Feature], name: str) -> Array:
    """(m,) the shift, scale or value for missing cells of each feature; NaN where there is none."""
    return np.array([np.nan if (value := getattr(one, name)) is None else value for one in features], dtype=np.float64)


def _raw(feature: Feature, state: str | None) -> float:
    """The raw value of a feature where the cell has a value, is missing (None), or has one that is not known."""
    if feature.kind == "missing":
        return float(state is None)
    if state is None:
        return np.nan if feature.missing is None else feature.missing
    return float(state == feature.value if feature.kind == "category" else state == MISSING)
