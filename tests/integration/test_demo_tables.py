"""From CSV files to the certified model: `fenchel data init`, then a federation of real processes over the tables."""

import json
from pathlib import Path

import numpy as np
import pytest

from fenchel_common.model import find_model
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
    chosen = [
        *("--set", "class_weight=balanced", "--features", "scale=minmax", "--features", "rows=unit"),
        *("--features", "intercept=true", "--features", "indicators=true"),
    ]
    result = run_fenchel("demo", "--table", str(folder), *chosen, "--keep", str(kept), "--format", "json")
    assert result.exit_code == ExitCode.DONE, result.stderr
    report = json.loads(result.stdout)
    assert report["dataset"] == "tables"
    assert report["clients"] == 2
    assert report["lambda"] == 0.01
    assert report["rounds"] <= 30
    assert report["relative_error"] <= 1e-3
    assert report["warnings"] == ["10 samples are left out because no party with labels holds them (10 held by lab)"]
    log = (kept / "logs" / "lab.log").read_text()
    assert "the run uses 40 of this party's 50 samples; not used: 10 that no party with labels holds" in log
    assert "this party's feature 'cholesterol' is close to 'chol' of clinic" in log
    assert "is missing' is close" not in log, "the run made these names"
    gathered = run_fenchel("doctor", "--state", str(kept / "clients" / "lab"), "--format", "json").stdout
    assert "last errors" in gathered
    assert "chol" not in gathered, "a report to be sent to others has no feature name"
    clinic = find_model(kept / "clients" / "clinic")
    given = ("age", "age is missing", "chol", "chol is missing")
    assert clinic.names == (*given, "pain=dull", "pain=sharp", "pain is other")


def test_numbers_and_weights_of_tables_become_a_model_in_the_unit_of_the_numbers(tmp_path: Path) -> None:
    """Prices about 250,000, with a column of weights; they are standardised over both parties."""
    data, folder, kept = small_dataset(60, 4), tmp_path / "homes", tmp_path / "kept"
    X = np.asarray(data.X)
    prices = 250_000.0 + 40_000.0 * X[:, 0] - 20_000.0 * X[:, 3] + 4_000.0 * np.random.default_rng(1).normal(size=60)
    weights = np.random.default_rng(2).integers(1, 4, size=60)
    for name, rows in (("east", range(35)), ("west", range(35, 60))):
        (folder / name).mkdir(parents=True)
        lines = [
            ",".join([f"h{row}", *(f"{value:.6g}" for value in X[row]), f"{prices[row]:.2f}", str(weights[row])])
            for row in rows
        ]
        (folder / name / "homes.csv").write_text("\n".join(["id,a,b,c,d,price,sold", *lines]) + "\n")
        (folder / name / "shard.toml").write_text(
            'file = "homes.csv"\nid = "id"\n[label]\ncolumn = "price"\ntype = "number"\nweight = "sold"\n'
        )
    result = run_fenchel(
        *("demo", "--table", str(folder), "--loss", "squared", "--lambda", "0.1", "--keep", str(kept)),
        *("--features", "scale=quantile", "--features", "intercept=true", "--cipher", "masks", "--format", "json"),
    )
    assert result.exit_code == ExitCode.DONE, result.stderr
    report = json.loads(result.stdout)
    assert report["relative_error"] <= 1e-3
    assert report["accuracy"] is None
    assert report["rmse"] == pytest.approx(report["figures"]["rmse"] * prices.std(), rel=1e-4)
    assert report["r2"] == pytest.approx(report["figures"]["r2"], abs=1e-6)
    model = find_model(kept / "clients" / "east")
    target, intercept = model.record.target, model.intercept
    assert target is not None
    assert intercept is not None
    assert target.shift == pytest.approx(prices.mean(), rel=1e-6)
    shift, scale = np.array([(one.shift, one.scale) for one in model.record.features]).T
    predicted = target.shift + target.scale * ((X - shift) / scale @ model.weights + intercept)
    assert float(np.sqrt(((predicted - prices) ** 2).mean())) == pytest.approx(report["rmse"], rel=1e-4)


def test_tables_are_not_split_anew(folder: Path) -> None:
    result = run_fenchel("demo", "--table", str(folder), "--grid", "2x2")
    assert result.exit_code == ExitCode.REFUSED
    assert "leave out --grid and --split" in result.stderr
