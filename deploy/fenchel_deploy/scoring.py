"""A party in a scoring run: its table of what each feature adds to the score of each row, and the scores it gets."""

import csv
import io
from typing import Final

import numpy as np
from scipy.sparse import csr_array, hstack

from fenchel_common.data.shard import Shard
from fenchel_common.errors import InvalidInput
from fenchel_common.model import Model
from fenchel_common.model.rows import NewRows
from fenchel_common.model.scoring import Predictions, contributions, predictions, prepared

INTERCEPT: Final = "(intercept)"
"""The feature that stands for the intercept; the first holder of a row that has it gives it."""


def scoring_shard(model: Model, rows: NewRows, *, asks: bool) -> Shard:
    """The terms of the scores of these rows; with labels, which mean nothing, at the party that asks.

    `InvalidInput` for a model that cannot be scored in parts.
    """
    record = model.record
    if record.unit_rows:
        raise InvalidInput(
            "the model divides whole rows by their lengths, which no party knows of a new row; bring the columns "
            "together and use `fenchel predict`"
        )
    if record.task == "classes":
        raise InvalidInput("scores by a model of several classes need `fenchel predict`, with all columns in one place")
    X = contributions(model.weights, prepared(model, rows.X))
    features = model.names
    if model.intercept is not None:
        column = np.full((len(rows.ids), 1), float(model.intercept))
        X = csr_array(hstack([X, csr_array(column)])) if isinstance(X, csr_array) else np.hstack([X, column])
        features = (*features, INTERCEPT)
    return Shard(rows.ids, features, X, np.ones(len(rows.ids)) if asks else None)


def predictions_of(model: Model, kept: str) -> tuple[list[str], Predictions]:
    """The ids and the predictions of the scores that the asking party has kept at the end of a scoring run."""
    rows = list(csv.reader(io.StringIO(kept, newline="")))[1:]
    return [sample for sample, _ in rows], predictions(model.record, np.array([float(score) for _, score in rows]))
