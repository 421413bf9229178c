"""Exported models give the scores of `fenchel predict`: scikit-learn and ONNX to 1e-6, ONNX of 32 bits to 1e-4."""

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from numpy.typing import NDArray

from fenchel_common.data.canonical import canonical
from fenchel_common.errors import InvalidInput
from fenchel_common.model import Feature, Model, Standardised
from fenchel_common.model.rows import TableRules
from fenchel_deploy.export.columns import MAX_COLUMNS, ColumnModel
from fenchel_deploy.export.onnxgraph import onnx_bytes
from fenchel_deploy.export.pipeline import pipeline_bytes
from fenchel_deploy.prediction import Prediction
from support.models import NUMBERS, PAINS, small_model

Array = NDArray[np.float64]

CODES: Final = (
    Feature("code=1", "category", "code", "1", 0.4, 1.0, 0.4),
    Feature("code=2", "category", "code", "2", 0.5, 1.0, 0.5),
)
GAPS: Final = (Feature("height is missing", "missing", "height", None, 0.2, 0.5),)
UNFILLED: Final = Feature("dose", "number", "dose", None, 1.0, 4.0)
FEATURES: Final = (*CODES, UNFILLED, *NUMBERS, *GAPS, *PAINS)
ROWS: Final = """id,age,height,dose,pain,code
a,60,1.8,1,dull,1
b,50,,2.5,,2
c,,1.6,-3, sharp,
d,71.5,1.7,0,burning,3
e,50,1.6,1,,1
"""
ZEROS: Final = tuple(Feature(one.name, one.kind, one.column, one.value, 0.0, 1.0, 0.0) for one in (*NUMBERS, *CODES))
SEVERAL: Final[dict[str, Any]] = {"task": "classes", "classes": ("mild", "grave", "absent"), "intercept": "held"}
MODELS: Final[Mapping[str, Model]] = {
    "logistic": small_model(FEATURES),
    "hinge": small_model(FEATURES, loss="hinge", intercept="held", classes=()),
    "unit rows": small_model(FEATURES, unit_rows=True, intercept="held"),
    "rows of zeros": small_model(ZEROS, unit_rows=True),
    "one against rest": small_model(FEATURES, **SEVERAL),
    "one against rest, hinge": small_model(FEATURES, **SEVERAL, loss="squared_hinge"),
    "multinomial": small_model(FEATURES, **SEVERAL, loss="multinomial", unit_rows=True),
    "regression": small_model(
        FEATURES,
        task="regression",
        loss="squared",
        classes=(),
        standardised=True,
        target=Standardised(300.0, 20.0),
    ),
    "huber": small_model((*NUMBERS, UNFILLED), task="regression", loss="huber", classes=(), unit_rows=True),
    "categories alone": small_model(CODES),
    "a part": small_model(FEATURES, all_features=20),
}
LOAD: Final = """
import sys, json, pathlib

class NoFenchel:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("fenchel"):
            raise ImportError(name)

sys.meta_path.insert(0, NoFenchel())
import joblib, numpy, pandas
folder = pathlib.Path(sys.argv[1])
frame = pandas.read_csv(folder / "rows.csv")
found = {}
for path in folder.glob("*.joblib"):
    model = joblib.load(path)
    for name in ("decision_function", "predict_proba", "predict"):
        if hasattr(model, name):
            found[f"{path.stem}/{name}"] = getattr(model, name)(frame)
    if hasattr(model, "classes_"):
        found[f"{path.stem}/classes"] = model.classes_
numpy.savez(folder / "found.npz", **found)
"""


@dataclass(frozen=True)
class Expected:
    prediction: Prediction

    @property
    def scores(self) -> Array:
        return self.prediction.found.scores

    @property
    def probabilities(self) -> Array | None:
        return None if self.prediction.partial else self.prediction.found.probabilities


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("exports")
    (made / "rows.csv").write_text(ROWS)
    return made


@pytest.fixture(scope="module")
def loaded(folder: Path) -> Mapping[str, Any]:
    """What the pipelines say, in a process that can import no Fenchel."""
    for name, model in MODELS.items():
        (folder / f"{name}.joblib").write_bytes(pipeline_bytes(ColumnModel.of(model)))
    words = [sys.executable, "-W", "error", "-c", LOAD, str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with np.load(folder / "found.npz", allow_pickle=False) as found:
        return {name: found[name] for name in found.files}


def expected(folder: Path, name: str) -> Expected:
    return Expected(Prediction.of(MODELS[name], [folder / "rows.csv"], TableRules()))


def in_order(model: Model, values: Array, classes: Array) -> Array:
    """Columns in the order of the model's classes."""
    if model.record.task != "classes":
        return values
    return values[:, [classes.tolist().index(name) for name in model.record.classes]]


@pytest.mark.parametrize("name", MODELS)
def test_scikit_learn_alone_gives_the_same_scores(folder: Path, loaded: Mapping[str, Any], name: str) -> None:
    model, known = MODELS[name], expected(folder, name)
    if model.record.task == "regression" or known.prediction.partial:
        numbers = known.scores if known.prediction.partial else known.prediction.found.predicted
        np.testing.assert_allclose(loaded[f"{name}/predict"], numbers, atol=1e-6)
        assert f"{name}/decision_function" not in loaded
        return
    classes = loaded[f"{name}/classes"]
    given = in_order(model, loaded[f"{name}/decision_function"], classes)
    np.testing.assert_allclose(given, known.scores, atol=1e-6)
    # At a score of exactly 0 scikit-learn predicts the negative class, Fenchel the positive one.
    clear = np.abs(known.scores) > 1e-9 if known.scores.ndim == 1 else np.ones(len(known.scores), dtype=bool)
    labels = np.array(known.prediction.found.labels())
    assert loaded[f"{name}/predict"][clear].tolist() == labels[clear].tolist()
    probabilities = known.probabilities
    assert (probabilities is None) == (f"{name}/predict_proba" not in loaded)
    if probabilities is not None:
        p = loaded[f"{name}/predict_proba"]
        own = p[:, 1] if model.record.task == "binary" else in_order(model, p, classes)
        np.testing.assert_allclose(own, probabilities, atol=1e-6)


@pytest.mark.parametrize(("single", "close"), [(False, 1e-6), (True, 1e-4)], ids=["64 bits", "32 bits"])
@pytest.mark.parametrize("name", MODELS)
def test_an_onnx_runtime_gives_the_same_scores(folder: Path, name: str, single: bool, close: float) -> None:
    model, known = MODELS[name], expected(folder, name)
    session = onnxruntime.InferenceSession(onnx_bytes(ColumnModel.of(model), single=single))
    texts = pd.read_csv(folder / "rows.csv", dtype=str, keep_default_na=False)
    cells = {}
    for one in session.get_inputs():
        column = texts[one.name]
        if one.type == "tensor(string)":
            words = [canonical(text) if text.strip() else "" for text in column]
            cells[one.name] = np.array(words, dtype=object)[:, np.newaxis]
        else:
            kind = np.float32 if single else np.float64
            cells[one.name] = pd.to_numeric(column).to_numpy(dtype=kind)[:, np.newaxis]
    names = [one.name for one in session.get_outputs()]
    found = dict(zip(names, session.run(None, cells), strict=True))
    if model.record.task == "regression" and not known.prediction.partial:
        numbers = known.prediction.found.predicted
        np.testing.assert_allclose(found["prediction"].reshape(-1), numbers, rtol=close, atol=close)
        return
    np.testing.assert_allclose(found["score"].reshape(known.scores.shape), known.scores, rtol=close, atol=close)
    if known.prediction.partial:
        assert names == ["score"]
        return
    assert found["label"].tolist() == known.prediction.found.labels()
    assert (known.probabilities is None) == ("probability" not in found)
    if known.probabilities is not None:
        p = found["probability"].reshape(known.probabilities.shape)
        np.testing.assert_allclose(p, known.probabilities, atol=close)


def test_a_column_with_the_name_of_an_output_keeps_its_name() -> None:
    column = Feature("score", "number", "score", None, 0.0, 1.0, 0.0)
    session = onnxruntime.InferenceSession(onnx_bytes(ColumnModel.of(small_model([column])), single=False))
    assert [one.name for one in session.get_inputs()] == ["score"]
    assert [one.name for one in session.get_outputs()] == ["score_", "probability", "label"]


def test_a_model_of_very_many_columns_is_not_exported_by_their_names() -> None:
    many = [Feature(f"x{number}", "number", f"x{number}") for number in range(MAX_COLUMNS + 1)]
    with pytest.raises(InvalidInput, match="an export takes at most 5000 columns by name; use weights"):
        ColumnModel.of(small_model(many))
