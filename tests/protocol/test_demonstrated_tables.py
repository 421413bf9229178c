"""However a run prepares tables, a demonstration reaches the optimum of the table prepared in one place.

Two clinics with labels and a lab that knows most of their patients, with missing cells and categories.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from fenchel_common.errors import InvalidConfig, InvalidInput
from fenchel_common.intercept import INTERCEPT
from fenchel_common.model import read_model
from fenchel_common.privacy import Privacy
from fenchel_deploy.demonstration import Demonstration, DemonstrationOptions
from fenchel_deploy.folders import whole_model
from fenchel_server.store import RunStatus
from support.clinictables import whole_table, write_tables
from support.federation import InProcessFederation

CELLS = whole_table()


def options_of(tables: Mapping[str, Path], **changes: object) -> DemonstrationOptions:
    return DemonstrationOptions(dataset="tables", tables=tables, privacy=Privacy.PLAIN, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("label", "features", "changes"),
    [
        ("outcome", {"intercept": True, "indicators": True}, {"loss": "logistic"}),
        ("outcome", {"scale": "minmax", "rows": "unit"}, {"loss": "squared_hinge"}),
        ("outcome", {"scale": "minmax", "intercept": True}, {"samples": "complete"}),
        ("outcome", {"rows": "unit", "intercept": True}, {"parameters": {"class_weight": "balanced"}}),
        ("outcome", {"scale": "none", "indicators": True, "rows": "unit"}, {"loss": "smoothed_hinge"}),
        ("cost", {"scale": "quantile", "intercept": True}, {"loss": "huber"}),
        ("cost", {"indicators": True}, {"loss": "squared", "samples": "impute"}),
        ("kind", {"scale": "minmax", "intercept": True}, {"classes": ("a", "b", "c"), "loss": "logistic"}),
        (
            "kind",
            {"scale": "rms", "rows": "unit"},
            {"classes": ("a", "b", "c"), "parameters": {"class_weight": {"c": 3.0}}},
        ),
    ],
    ids=lambda value: " ".join(map(str, value.values())) if isinstance(value, dict) else value,
)
def test_a_run_reaches_the_optimum_of_the_table_prepared_in_one_place(
    tmp_path: Path,
    label: str,
    features: Mapping[str, object],
    changes: Mapping[str, object],
) -> None:
    check(tmp_path, options_of(write_tables(tmp_path / "tables", CELLS, label), features=features, **changes))


@pytest.mark.parametrize("rows", ["none", "unit"])
def test_sparse_tables_too(tmp_path: Path, rows: str) -> None:
    tables = write_tables(tmp_path / "tables", CELLS, "outcome", sparse=True)
    check(tmp_path, options_of(tables, features={"rows": rows, "intercept": True}, loss="logistic"))


def check(directory: Path, options: DemonstrationOptions) -> None:
    demonstration = Demonstration.prepare(options)
    run = InProcessFederation(
        directory, demonstration.shards, demonstration.config("test"), release_model_to_server=False
    )
    assert run.drive().status is RunStatus.COMPLETED
    weights = whole_model(map(read_model, directory.glob("*/*.model")), demonstration.dataset.features)
    best = demonstration.problems.solved().primal
    assert best * (1.0 - 1e-5) <= demonstration.problems.objective(weights) <= best * (1.0 + 1e-3)
    constant = INTERCEPT in demonstration.dataset.features
    assert constant == bool(options.features.get("intercept"))
    assert not constant or np.abs(weights[-1]).max() > 0.01


def test_settings_that_no_run_has_are_refused(
    tmp_path: Path,
) -> None:
    tables = write_tables(tmp_path / "tables", CELLS, "outcome")
    with pytest.raises(InvalidConfig, match=r"unknown key features\.scaling; did you mean scale"):
        Demonstration.prepare(options_of(tables, features={"scaling": "minmax"}))
    with pytest.raises(InvalidConfig, match="samples = 'impute' needs features of mean 0"):
        Demonstration.prepare(options_of(tables, features={"scale": "minmax"}, samples="impute"))
    (tables["lab"] / "shard.toml").unlink()
    (tables["lab"] / "table.csv").write_text("patient,iron\n900,1\n901,2\n")
    with pytest.raises(InvalidInput, match="of no sample with a label the tables have every feature"):
        Demonstration.prepare(options_of(tables, samples="complete"))
