"""A model as a pipeline of scikit-learn, made of its own transformers: loading it needs no Fenchel.

The pipeline takes a frame with the model's columns: numbers, with NaN where a cell is missing, and categories as texts.
"""

import io
from collections.abc import Sequence
from typing import Any, Final

import joblib
import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

from fenchel_common.model.joining import lacking
from fenchel_common.model.record import Array, Feature
from fenchel_common.model.scoring import LOG_ODDS, NO_NAMES
from fenchel_deploy.export.columns import MISSING, CategoryTable, ColumnModel, figures

CANONICAL: Final = {
    r"^\s+|\s+$": "",
    r"^(?:nan|None|NaT|<NA>)$": MISSING,
    r"^\+?0*([0-9]+)(?:\.0*)?$": r"\1",
    r"^-0*([0-9]+)(?:\.0*)?$": r"-\1",
    r"^-0$": "0",
}
"""What makes the text of a cell the one by which values of categories are compared; applied in this order."""
UNKNOWN: Final = "\0"
"""The value that stands for all values that the model does not know; no table has it."""


def pipeline_bytes(by_columns: ColumnModel) -> bytes:
    """The pipeline as `joblib.load` reads it."""
    content = io.BytesIO()
    joblib.dump(pipeline(by_columns), content)
    return content.getvalue()


def pipeline(by_columns: ColumnModel) -> Pipeline:
    """Values prepared by the rules of the run, then an estimator with the weights of the run."""
    steps: list[tuple[str, Any]] = [("prepare", _prepare(by_columns))]
    if by_columns.model.record.unit_rows:
        steps.append(("unit rows", Normalizer()))
    return Pipeline([*steps, ("model", _estimator(by_columns))])


def _prepare(by_columns: ColumnModel) -> ColumnTransformer:
    """Fitted to made-up rows, and then given the figures of the run."""
    filled = [one for one in by_columns.numbers if one.missing is not None]
    unfilled = [one for one in by_columns.numbers if one.missing is None]
    parts: list[tuple[str, Any, Sequence[str]]] = []
    if filled:
        parts.append(("filled", Pipeline([("fill", SimpleImputer()), ("scale", StandardScaler())]), _columns(filled)))
    if unfilled:
        parts.append(("numbers", Pipeline([("scale", StandardScaler())]), _columns(unfilled)))
    if by_columns.gaps:
        flags = Pipeline([("missing", MissingIndicator(features="all")), ("scale", StandardScaler())])
        parts.append(("missing", flags, _columns(by_columns.gaps)))
    parts += [(f"category {table.column}", _category(table), [table.column]) for table in by_columns.categories]
    found = ColumnTransformer(parts, sparse_threshold=0.0).fit(_made_up(by_columns))
    fitted = found.named_transformers_
    for name, features in (("filled", filled), ("numbers", unfilled), ("missing", by_columns.gaps)):
        if features:
            scaler = fitted[name].named_steps["scale"]
            scaler.mean_, scaler.scale_ = figures(features, "shift"), figures(features, "scale")
            scaler.var_ = scaler.scale_**2
    if filled:
        fitted["filled"].named_steps["fill"].statistics_ = figures(filled, "missing")
    return found


def _columns(features: Sequence[Feature]) -> list[str]:
    return [one.column for one in features]


def _category(table: CategoryTable) -> Pipeline:
    """One flag for each value, one for a missing cell and one for all other values; then their prepared values."""
    texts = sorted((*table.values, MISSING))
    rows = [len(table.values) if text == MISSING else table.values.index(text) for text in texts]
    values = table.table[[*rows, len(table.values) + 1]]
    frame = pd.DataFrame
    return Pipeline(
        [
            ("text", FunctionTransformer(frame.astype, kw_args={"dtype": str})),
            ("no text", FunctionTransformer(frame.fillna, kw_args={"value": MISSING})),
            ("canonical", FunctionTransformer(frame.replace, kw_args={"to_replace": CANONICAL, "regex": True})),
            ("flags", OneHotEncoder(min_frequency=2, handle_unknown="infrequent_if_exist", sparse_output=False)),
            ("values", FunctionTransformer(np.dot, kw_args={"b": values})),
        ]
    )


def _made_up(by_columns: ColumnModel) -> pd.DataFrame:
    """Rows with every value of every category twice or more, and one unknown value, which so becomes the rare one."""
    texts = {table.column: [*table.values, MISSING, *table.values, MISSING] for table in by_columns.categories}
    count = max((len(values) for values in texts.values()), default=1)
    columns: dict[str, list[Any]] = {name: [0.0] * (count + 1) for name in by_columns.number_columns}
    for column, values in texts.items():
        columns[column] = [*values, *[MISSING] * (count - len(values)), UNKNOWN]
    return pd.DataFrame(columns)


def _estimator(by_columns: ColumnModel) -> Any:
    record = by_columns.model.record
    partial = bool(lacking(by_columns.model))
    if record.task == "regression" or partial:
        weights, intercept = by_columns.predicted_numbers(partial=partial)
        found = LinearRegression()
        single = weights.shape[1] == 1
        found.coef_, found.intercept_ = (weights[:, 0], float(intercept[0])) if single else (weights.T, intercept)
        found.n_features_in_ = len(weights)
        return found
    if record.task == "binary":
        return _classifier(record.loss, by_columns.weights, by_columns.intercept, record.classes or NO_NAMES)
    if record.loss == "multinomial":
        return _classifier(record.loss, by_columns.weights, by_columns.intercept, record.classes)
    return _one_against_rest(by_columns)


def _one_against_rest(by_columns: ColumnModel) -> OneVsRestClassifier:
    """Fitted to made-up rows, and then given the weights of the run."""
    record, features = by_columns.model.record, len(by_columns.weights)
    found = OneVsRestClassifier(LogisticRegression() if record.loss in LOG_ODDS else LinearSVC())
    found.fit(np.zeros((len(record.classes), features)), np.array(record.classes))
    # scikit-learn has classes in alphabetical order.
    positions = [record.classes.index(name) for name in found.classes_.tolist()]
    found.estimators_ = [
        _classifier(record.loss, by_columns.weights[:, [at]], by_columns.intercept[[at]], ("0", "1"), numbers=True)
        for at in positions
    ]
    return found


def _classifier(
    loss: str, weights: Array, intercept: Array, classes: Sequence[str], *, numbers: bool = False
) -> LogisticRegression | LinearSVC:
    found = LogisticRegression() if loss in LOG_ODDS else LinearSVC()
    found.coef_, found.intercept_ = weights.T.copy(), intercept.copy()
    found.classes_ = np.array([0, 1]) if numbers else np.array(classes)
    found.n_features_in_, found.n_iter_ = len(weights), np.array([0])
    return found
