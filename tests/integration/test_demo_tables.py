"""From CSV files to the certified model: `fenchel data init`, then a federation of real processes over the tables."""

import json
from pathlib import Path

import numpy as np
import pytest

from fenchel_deploy.cli.exits import ExitCode
from support.commands import run_fenchel
from support.tables import small_dataset


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A clinic with labels, and a lab that has measured some of its patients and others; cells are missing."""
    data, rng = small_dataset(60, 4), np.random.default_rng(0)
    X = np.asarray(data.X) * [1.0, 5000.0, 10.0, 0.1] + [50.0, 200.0, 0.0, 1.0]
    cells = np.where(rng.random(X.shape) < 0.1, "", np.char.mod("%.6g", X))
    pains = rng.choice(["dull", "sharp", "seldom"], p=[0.55, 0.35, 0.1], size=60)
    clinic = [
        f"{row},{cells[row, 0]},{cells[row, 1]},{pains[row]},{'yes' if data.y[row] > 0 else 'no'}" for row in range(50)
    ]
    lab = [f"{row:03d},{cells[row, 2]},{cells[row, 3]}" for row in range(10, 60)]
    for name, header, rows in (
        ("clinic", "patient,age,chol,pain,outcome", clinic),
        ("lab", "patient,sugar,cholesterol", lab),
    ):
        (tmp_path / "tables" / name).mkdir(parents=True)
        (tmp_path / "tables" / name / "patients.csv").write_text("\n".join([header, *rows]) + "\n")
    return tmp_path / "tables"


def test_tables_become_a_model_that_is_certified_against_the_pooled_and_prepared_table(
    folder: Path, tmp_path: Path
) -> None:
    for name in ("clinic", "lab"):
        assert run_fenchel("data", "init", str(folder / name / "patients.csv")).exit_code == ExitCode.DONE
    kept = tmp_path / "kept"
    result = run_fenchel(*("demo", "--table", str(folder), "--lambda", "0.5", "--keep", str(kept), "--format", "json"))
    assert result.exit_code == ExitCode.DONE, result.stderr
    report = json.loads(result.stdout)
    assert report["dataset"] == "tables"
    assert report["clients"] == 2
    assert report["relative_error"] <= 1e-3
    assert report["warnings"] == ["10 samples are left out because no party with labels holds them (10 held by lab)"]
    log = (kept / "logs" / "lab.log").read_text()
    assert "the run uses 40 of this party's 50 samples; not used: 10 that no party with labels holds" in log
    assert "this party's feature 'cholesterol' is close to 'chol' of clinic" in log
    with np.load(next((kept / "clients" / "lab").glob("*.model.npz"))) as model:
        assert {"features", "weights", "shift", "scale", "missing"} <= set(model.files)
    with np.load(next((kept / "clients" / "clinic").glob("*.model.npz"))) as model:
        assert model["features"].tolist() == ["age", "chol", "pain is other", "pain=dull", "pain=sharp"]


def test_tables_are_not_split_anew(folder: Path) -> None:
    result = run_fenchel("demo", "--table", str(folder), "--grid", "2x2")
    assert result.exit_code == ExitCode.REFUSED
    assert "leave out --grid and --split" in result.stderr
