"""From raw values to prepared values, scores and predictions."""

from dataclasses import dataclass, field
from typing import Final

import numpy as np
from scipy.sparse import csr_array

from fenchel_common.data.shard import Matrix
from fenchel_common.errors import InvalidInput
from fenchel_common.model.record import Array, Model, ModelRecord
from fenchel_common.objectives import squared_row_norms

LOG_ODDS: Final = ("logistic", "multinomial")
"""The losses whose scores are logarithms of odds."""
NO_NAMES: Final = ("-1", "1")


@dataclass(frozen=True, slots=True, eq=False)
class Predictions:
    """What a model says of some rows.

    Attributes
    ----------
    scores
        (n,), or (n, classes).
    probabilities
        (n,) of the positive class, or (n, classes); None for a loss whose scores are no log-odds.
    predicted
        (n,) the position of the predicted class in `classes`, or in regression the predicted number.
    classes
        The names of the classes, of two the negative one first; none in regression.
    """

    scores: Array = field(repr=False)
    probabilities: Array | None = field(repr=False)
    predicted: Array = field(repr=False)
    classes: tuple[str, ...] = ()

    def labels(self) -> list[str | float]:
        """(n,) the name of the predicted class, or the predicted number, of each row."""
        if not self.classes:
            return list(self.predicted.tolist())
        return [self.classes[position] for position in self.predicted.astype(np.int64).tolist()]


def prepared(model: Model, X: Matrix) -> Matrix:
    """(n, m) prepared values; a new matrix.

    X has raw values in the order of the model's features, NaN where a cell is missing. `InvalidInput` names row and
    column of a missing cell that the model refuses.
    """
    features = model.record.features
    shift, scale = (np.array([getattr(one, name) for one in features]) for name in ("shift", "scale"))
    missing = np.array([np.nan if (value := one.prepared_missing) is None else value for one in features])
    if isinstance(X, csr_array) and not shift.any():
        sparse = X.copy()
        sparse.data /= scale[sparse.indices]
        gaps = np.isnan(sparse.data)
        sparse.data[gaps] = missing[sparse.indices[gaps]]
        found: Matrix = sparse
    else:
        dense = X.toarray() if isinstance(X, csr_array) else X
        values = (dense - shift) / scale
        found = np.where(np.isnan(values), missing, values)
    _check_known(model.record, found)
    if not model.record.unit_rows:
        return found
    lengths = np.sqrt(squared_row_norms(found))
    divisors = np.where(lengths > 0.0, lengths, 1.0)
    if isinstance(found, csr_array):
        found.data /= np.repeat(divisors, np.diff(found.indptr))
        return found
    return np.asarray(found / divisors[:, np.newaxis])


def scores(model: Model, values: Matrix) -> Array:
    """(n,) or (n, classes) the scores of rows of prepared values."""
    found = np.asarray(values @ model.weights, dtype=np.float64)
    return found if model.intercept is None else found + model.intercept


def predictions(record: ModelRecord, of_rows: Array) -> Predictions:
    """What follows from scores."""
    if record.task == "regression":
        target = record.target
        numbers = of_rows if target is None else target.shift + target.scale * of_rows
        return Predictions(of_rows, None, numbers)
    probabilities = _probabilities(record, of_rows) if record.loss in LOG_ODDS else None
    if record.task == "binary":
        return Predictions(of_rows, probabilities, (of_rows >= 0.0).astype(np.float64), record.classes or NO_NAMES)
    return Predictions(of_rows, probabilities, of_rows.argmax(axis=1).astype(np.float64), record.classes)


def contributions(weights: Array, values: Matrix) -> Matrix:
    """(n, m) prepared value times weight; with the intercept those of a row sum up to its score.

    `weights` (m,) are those of one score.
    """
    if isinstance(values, csr_array):
        found = values.copy()
        found.data *= weights[found.indices]
        return found
    return np.asarray(values * weights)


def _probabilities(record: ModelRecord, of_rows: Array) -> Array:
    if record.loss == "multinomial":
        odds = np.exp(of_rows - of_rows.max(axis=1, keepdims=True))
        return np.asarray(odds / odds.sum(axis=1, keepdims=True))
    single = np.asarray(0.5 * (1.0 + np.tanh(0.5 * of_rows)))
    if record.task == "binary":
        return single
    # One model for each class, which tells it from the rest: brought to the sum 1, as scikit-learn does.
    total = single.sum(axis=1, keepdims=True)
    return np.where(total > 0.0, single / np.where(total > 0.0, total, 1.0), 1.0 / single.shape[1])


def _check_known(record: ModelRecord, found: Matrix) -> None:
    if isinstance(found, csr_array):
        entries = np.flatnonzero(np.isnan(found.data))
        rows = np.searchsorted(found.indptr, entries, side="right") - 1
        places = np.column_stack([rows, found.indices[entries]])
    else:
        places = np.argwhere(np.isnan(found))
    if len(places):
        row, position = places[0].tolist()
        raise InvalidInput(
            f"row {row + 1}, column {record.features[position].column!r}: the cell is missing, and the model has no "
            f'value for it (cells without a value: {len(places)}); fill it in, or write missing = "fill" in '
            "shard.toml"
        )
