"""Predictions for new rows, as files: the scores, and what each feature contributes to them."""

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fenchel_common.data.shard import Matrix
from fenchel_common.errors import InvalidInput
from fenchel_common.model.joining import described, joined, lacking
from fenchel_common.model.quality import Quality, quality
from fenchel_common.model.record import Array, Model
from fenchel_common.model.rows import NewRows, TableRules, read_rows
from fenchel_common.model.scoring import Predictions, contributions, predictions, prepared, scores

OTHERS = "(other features)"
INTERCEPT = "(intercept)"


def whole(parts: Sequence[Model], *, partial: bool) -> Model:
    """The parts joined; `InvalidInput` if parts are lacking, unless a `partial` model will do."""
    model = joined(parts)
    if (lack := lacking(model)) and not partial:
        raise InvalidInput(
            f"{described(model.record)}: lacks {lack}; the parties are {', '.join(model.record.parties)}: add --model "
            "with their parts, or --partial for what these parts alone add to the score, which is no prediction"
        )
    return model


def check_rows(model: Model) -> None:
    """Raises `InvalidInput` for parts that cannot be used alone: the lengths of rows follow from all features."""
    if model.record.unit_rows and lacking(model):
        raise InvalidInput(
            f"{described(model.record)}: whole rows are divided by their lengths, so that the parts of all parties are "
            "needed"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """Scored rows; without a whole model the scores are what its parts add to them."""

    model: Model
    rows: NewRows
    values: Matrix
    found: Predictions
    partial: bool

    @classmethod
    def of(cls, model: Model, tables: Sequence[Path], rules: TableRules) -> Self:
        check_rows(model)
        partial = bool(lacking(model))
        rows = read_rows(tables, model.record, rules)
        values = prepared(model, rows.X)
        return cls(model, rows, values, predictions(model.record, scores(model, values)), partial)

    def quality(self) -> Quality:
        """How well the rows with labels are predicted; nothing is known of a model whose parts are lacking."""
        y = None if self.partial else self.rows.y
        return quality(self.found, y, self.rows.weights)

    def scores_csv(self) -> str:
        return scores_csv(self.rows.ids, self.found, partial=self.partial)

    def explanation_csv(self, top: int) -> str:
        """For each sample a line for each feature, those that contribute most first, and what the others add up to.

        All contributions of a sample and score add up to the score or, in regression, to the prediction. Features
        beyond the `top` ones are one line; 0 stands for all features. Features that contribute nothing have no line.
        """
        head = ("id", *(("class",) if self.model.weights.ndim == 2 else ()), "feature", "value", "contribution")
        return _csv(head, self._lines(top))

    def _lines(self, top: int) -> Iterator[tuple[object, ...]]:
        target, classes = self.model.record.target, self.found.classes
        factor, start = (1.0, 0.0) if target is None or self.partial else (target.scale, target.shift)
        by_class = self.model.weights.ndim == 2
        for position in range(self.model.weights.shape[1] if by_class else 1):
            weights = self.model.weights[:, position] if by_class else self.model.weights
            named = (classes[position],) if by_class else ()
            given = contributions(weights, self.values)
            intercept = 0.0
            if self.model.intercept is not None:
                intercept = float(self.model.intercept[position] if by_class else self.model.intercept)
            for row, sample in enumerate(self.rows.ids):
                positions, parts = _of_row(given, row)
                order = np.argsort(-np.abs(parts), kind="stable")
                shown = order[:top] if top else order
                for at in shown.tolist():
                    feature = int(positions[at])
                    value = _cell(self.rows.X, row, feature)
                    yield sample, *named, self.model.names[feature], value, float(factor * parts[at])
                if len(rest := order[len(shown) :]):
                    yield sample, *named, OTHERS, "", float(factor * parts[rest].sum())
                if intercept or start:
                    yield sample, *named, INTERCEPT, "", factor * intercept + start


def scores_csv(ids: Sequence[str], found: Predictions, *, partial: bool = False) -> str:
    """A row for each sample: id, score or scores, and unless they are `partial` probabilities and the prediction."""
    classes = found.classes if found.scores.ndim == 2 else ()
    columns: list[tuple[str, Sequence[object]]] = [("id", ids), *_named("score", found.scores, classes)]
    if not partial:
        if found.probabilities is not None:
            columns += _named("probability", found.probabilities, classes)
        columns.append(("predicted", found.labels()))
    return _csv([name for name, _ in columns], zip(*(values for _, values in columns), strict=True))


def _named(name: str, values: Array, classes: Sequence[str]) -> list[tuple[str, Sequence[object]]]:
    """One column, or one for each class."""
    if not classes:
        return [(name, values.tolist())]
    return [(f"{name}:{label}", values[:, position].tolist()) for position, label in enumerate(classes)]


def _of_row(given: Matrix, row: int) -> tuple[NDArray[np.int64], Array]:
    """The positions of the features that contribute to a row, and their contributions."""
    if isinstance(given, csr_array):
        span = slice(given.indptr[row], given.indptr[row + 1])
        positions, parts = given.indices[span].astype(np.int64), given.data[span]
    else:
        positions, parts = np.arange(given.shape[1]), given[row]
    present = parts != 0.0
    return positions[present], parts[present]


def _cell(X: Matrix, row: int, position: int) -> float | str:
    """The raw value, empty where the cell is missing."""
    value = float(X[row, position])
    return "" if np.isnan(value) else value


def _csv(head: Sequence[str], lines: Iterator[tuple[object, ...]]) -> str:
    content = io.StringIO()
    rows = csv.writer(content, lineterminator="\n")
    rows.writerow(head)
    rows.writerows(lines)
    return content.getvalue()
