"""Real tables of several parties, from CSV files to a model, beside scikit-learn's pipeline on the pooled table.

Two clinics have the rows of their own patients, some columns and the labels; a registry has the other columns of all
patients. Categories are texts. A fifth of the rows is kept out. On it the areas under the ROC curve are compared: of
the model that a federation of real processes has made of the other rows, and of scikit-learn with `StandardScaler`,
`OneHotEncoder` and `LogisticRegression` of the same regulariser on the table in one place, both with an intercept.

The folder of archives must have `credit_default.npz` (X, y, feature_names) and `diabetes130.npz` (the same, with
is_categorical and categories__COLUMN).
"""

import csv
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fenchel_common.data.shard import Shard, float_array, load_arrays
from fenchel_common.data.tables.source import load_shard
from fenchel_common.errors import FederationFailed, InvalidInput
from fenchel_common.model import read_model
from fenchel_common.runconfig import RunConfig
from fenchel_deploy.local import LocalFederation
from fenchel_deploy.tablefolder import agreed, read_tables

Array = NDArray[np.float64]
Cells = Mapping[str, NDArray[np.str_]]

HELD_OUT: Final = 0.2
LAMBDA: Final = 1e-3
GAP: Final = 1e-3
TOLERANCE: Final = 0.005
"""The most by which the areas under the ROC curve should differ."""
CODES: Final = {
    "credit_default": ("SEX", "EDUCATION", "MARRIAGE"),
    "diabetes130": ("admission_type_id", "discharge_disposition_id", "admission_source_id"),
}
"""Columns of whole numbers that are codes of categories, by data set."""
LEFT_OUT: Final = ("encounter_id", "patient_nbr")
DEADLINE_S: Final = 3600.0
"""A phase is bounded by the work, not by a party that is gone: all processes are on this machine."""
DATASETS: Final = tuple(CODES)


@dataclass(frozen=True, slots=True)
class Table:
    """The pooled table as texts: each column, which of them are categories, and the labels."""

    name: str
    cells: Cells
    categories: frozenset[str]
    y: Array

    @classmethod
    def load(cls, name: str, folder: Path, *, rows: int | None, seed: int) -> "Table":
        """The table of a data set, or at most `rows` rows of it, drawn at random."""
        if name not in CODES:
            raise InvalidInput(f"--dataset: {name!r} is not one of {', '.join(DATASETS)}")
        arrays = load_arrays(folder / f"{name}.npz")
        count = len(arrays["y"])
        chosen = np.sort(np.random.default_rng(seed).permutation(count)[: rows or count])
        cells: dict[str, NDArray[np.str_]] = {}
        categories = set(CODES[name])
        for column, numbers in zip(arrays["feature_names"].tolist(), arrays["X"][chosen].T, strict=True):
            texts = arrays.get(f"categories__{column}")
            if texts is not None:
                categories.add(column)
            if column not in LEFT_OUT:
                cells[column] = numbers.astype(np.str_) if texts is None else texts[numbers].astype(np.str_)
        y = np.where(float_array(arrays["y"], "y")[chosen] > 0.0, 1.0, -1.0)
        return cls(name, cells, frozenset(categories), y)

    def write(self, folder: Path, rows: NDArray[np.int64], columns: Sequence[str], *, labels: bool) -> None:
        """Writes some rows and columns as CSV, with its declaration; categories have no values there."""
        folder.mkdir(parents=True)
        header = ["id", *columns, *(["label"] if labels else [])]
        with (folder / "table.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(header)
            cells = [self.cells[column][rows] for column in columns]
            named = np.where(self.y[rows] > 0, "yes", "no")
            writer.writerows(zip(rows.tolist(), *cells, *([named] if labels else []), strict=True))
        declared = ['file = "table.csv"', 'id = "id"', 'missing = "impute"']
        if labels:
            declared += ["[label]", 'column = "label"', 'positive = "yes"', 'negative = "no"']
        for column in columns:
            kind = "category" if column in self.categories else "number"
            declared += [f'[features."{column}"]', f'type = "{kind}"']
        (folder / "shard.toml").write_text("\n".join(declared) + "\n", encoding="utf-8")

    def deal_out(self, folder: Path, rows: NDArray[np.int64]) -> dict[str, Path]:
        """Writes the tables of two clinics and a registry; returns the folder of each."""
        columns = list(self.cells)
        own, other = columns[: len(columns) // 2], columns[len(columns) // 2 :]
        north, south = rows[: len(rows) // 2], rows[len(rows) // 2 :]
        self.write(folder / "north", north, own, labels=True)
        self.write(folder / "south", south, own, labels=True)
        self.write(folder / "registry", rows, other, labels=False)
        return {name: folder / name for name in ("north", "south", "registry")}


@dataclass(frozen=True, slots=True)
class ModelBench:
    """One comparison. `rows` limits the table; `category_samples` is the run's and scikit-learn's least number."""

    dataset: str
    folder: Path
    rows: int | None = None
    lambda_: float = LAMBDA
    gap: float = GAP
    category_samples: int = 50
    seed: int = 0

    def config(self) -> RunConfig:
        return RunConfig.from_mapping(
            {
                "name": self.dataset,
                "settings": {"loss": "logistic", "lambda": self.lambda_},
                "cipher": "masks",
                "key": {"bits": 2048},
                "round": {"deadline_s": DEADLINE_S},
                "stop": {"gap": self.gap},
                "features": {"indicators": True, "intercept": True, "category_samples": self.category_samples},
                "seed": self.seed,
            }
        )

    def run(self, tell: Callable[[str], None]) -> dict[str, Any]:
        table = Table.load(self.dataset, self.folder, rows=self.rows, seed=self.seed)
        shuffled = np.random.default_rng(self.seed).permutation(len(table.y))
        cut = int(HELD_OUT * len(shuffled))
        held_out, used = np.sort(shuffled[:cut]), shuffled[cut:]
        tell(f"{self.dataset}: {len(used)} rows of {len(table.cells)} columns, {len(held_out)} more kept out")
        reference = pipeline_auc(table, used, held_out, bench=self)
        tell(f"scikit-learn on the pooled table: {reference:.4f}")
        with tempfile.TemporaryDirectory(prefix="fenchel-models-") as scratch:
            tables = table.deal_out(Path(scratch) / "tables", used)
            table.write(Path(scratch) / "new", held_out, list(table.cells), labels=True)
            shards = read_tables(tables)
            config = self.config()
            assert config.features is not None, "the bench prepares features"
            new = load_shard(Path(scratch) / "new").shard.expanded(agreed(shards.values(), config.features))
            with LocalFederation(Path(scratch) / "run", shards, config, tables=tables) as federation:
                ended = _followed(federation, tell)
                margins = _margins(Path(scratch) / "run", new)
        assert new.y is not None, "the table has labels"
        auc = _auc(new.y, margins)
        outcome = ended["outcome"]
        return {
            "dataset": self.dataset,
            "rows": len(used),
            "columns": len(table.cells),
            "features": len(new.features),
            "auc": auc,
            "reference_auc": reference,
            "difference": auc - reference,
            "rounds": outcome["rounds"],
            "gap": outcome["certificate"]["gap"],
            "seconds": outcome["seconds"]["total"],
            "peak_memory_mib": {name: peak / 2**20 for name, peak in ended["peaks"].items()},
        }


def pipeline_auc(table: Table, used: NDArray[np.int64], held_out: NDArray[np.int64], *, bench: ModelBench) -> float:
    """The area under the ROC curve of scikit-learn's pipeline, fitted to the rows in one place."""
    from sklearn.compose import ColumnTransformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    names = list(table.cells)
    numbers = [position for position, name in enumerate(names) if name not in table.categories]
    texts = [position for position, name in enumerate(names) if name in table.categories]
    cells = np.column_stack([table.cells[name].astype(object) for name in names])
    encoder = OneHotEncoder(
        min_frequency=bench.category_samples, handle_unknown="infrequent_if_exist", sparse_output=False
    )
    centred = make_pipeline(encoder, StandardScaler(with_std=False))
    pipeline = make_pipeline(
        ColumnTransformer([("numbers", StandardScaler(), numbers), ("categories", centred, texts)]),
        # The objectives are the same up to a factor: λ/2 ‖w‖² + 1/N Σ l = λ (1/2 ‖w‖² + C Σ l).
        LogisticRegression(C=1.0 / (bench.lambda_ * len(used)), max_iter=2000),
    )
    pipeline.fit(cells[used], table.y[used])
    return _auc(table.y[held_out], pipeline.decision_function(cells[held_out]))


def _followed(federation: LocalFederation, tell: Callable[[str], None]) -> dict[str, Any]:
    """The last event of the run, with the most memory of each party; `FederationFailed` if it has no model."""
    peaks: dict[str, int] = {}
    ended: dict[str, Any] = {}
    for event in federation.events():
        if event["event"] == "round":
            tell(f"round {event['round']}: gap {event['gap']}")
            for name, spent in event["costs"]["clients"].items():
                peaks[name] = max(peaks.get(name, 0), spent["peak_memory_bytes"])
        elif event["event"] == "ended":
            ended = event
    federation.wait()
    if ended.get("status") != "completed":
        raise FederationFailed(f"the federation did not finish: {ended.get('reason')}\n{federation.log('server')}")
    return ended | {"peaks": peaks}


def _margins(directory: Path, new: Shard) -> Array:
    """(rows,) x·w + b of new rows, prepared by what is in the parties' models."""
    margins, done, intercepts = np.zeros(len(new.ids)), set[str](), set[float]()
    position_of = {name: position for position, name in enumerate(new.features)}
    X = np.asarray(new.X)
    for path in sorted((directory / "clients").glob("*/*.model")):
        model = read_model(path)
        for feature, weight in zip(model.record.features, model.weights.tolist(), strict=True):
            if feature.name not in done:
                column = X[:, position_of[feature.name]]
                filled = np.where(np.isnan(column), feature.missing, column) if feature.missing is not None else column
                margins += weight * (filled - feature.shift) / feature.scale
                done.add(feature.name)
        intercepts |= set() if model.intercept is None else {float(model.intercept)}
    (intercept,) = intercepts
    return margins + intercept


def _auc(y: Array, margins: Array) -> float:
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(y, margins))
