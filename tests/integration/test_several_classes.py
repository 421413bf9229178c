"""Runs of several classes as real processes: mutual TLS, 2048-bit keys or masks, kills, tables with class names."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fenchel_common.data.tables.source import load_shard
from fenchel_common.model import find_model, read_model
from fenchel_common.runconfig import RunConfig
from fenchel_deploy.check import Status
from fenchel_deploy.cli.exits import ExitCode
from fenchel_deploy.datachecks import data_checks
from fenchel_deploy.local import LocalFederation
from support.classes import NAMES, coloured, objective, optimum
from support.commands import run_fenchel
from support.federation import calm_model
from support.kills import kill_server, model_after_kills
from support.tables import named_shards

DATA = coloured(40, 6)
LAMBDA, GAP = 0.05, 1e-3


def run_config(**changes: Any) -> RunConfig:
    values: dict[str, object] = {
        "name": "colours",
        "settings": {"lambda": LAMBDA, "classes": NAMES},
        "key": {"bits": 2048},
        "alignment": "hmac",
        "round": {"deadline_s": 60.0, "wait_s": 60.0},
        "stop": {"gap": GAP, "rounds": 40},
        "seed": 3,
    }
    return RunConfig.from_mapping(values | changes)


def test_a_killed_server_goes_on_to_the_same_models_and_gets_them_where_the_roster_says(tmp_path: Path) -> None:
    shards = named_shards(DATA, grid=(2, 2))
    results = tmp_path / "results"
    plain = run_config(privacy="plain", benchmark=True)
    expected = calm_model(tmp_path / "undisturbed", shards, plain, DATA.features)
    federation = LocalFederation(
        tmp_path / "killed",
        shards,
        run_config(),
        server_options=["--results", str(results)],
        release_model_to_server=True,
    )
    with federation:
        for round_id, phase in ((2, "local_dual"), (3, "primal")):
            next(
                event
                for event in federation.events()
                if (event["event"], event.get("round"), event.get("phase")) == ("phase", round_id, phase)
            )
            kill_server(federation)
            federation.start_server()
        (ended,) = [event for event in federation.events() if event["event"] == "ended"]
        assert set(federation.wait().values()) == {0}, federation.log("server")
        model = federation.model(DATA.features)
    assert ended["status"] == "completed"
    assert (model == expected).all()
    for name, w in zip(NAMES, model.T, strict=True):
        assert objective(DATA, name, w, loss="hinge") <= optimum(DATA, name, loss="hinge") + GAP
    assert {read_model(path).record.classes for path in federation.models()} == {NAMES}
    with np.load(results / f"{ended['run']}.model.npz") as released:
        assert released["classes"].tolist() == list(NAMES)
        np.testing.assert_array_equal(np.sort(released["weights"], axis=0), np.sort(model, axis=0))


def test_a_run_with_masks_survives_the_kill_of_its_server_and_of_a_party(tmp_path: Path) -> None:
    config = run_config(cipher="masks", stop={"gap": 1e-4, "rounds": 40})
    with LocalFederation(tmp_path, named_shards(DATA, grid=(1, 3)), config) as federation:
        model = model_after_kills(federation, DATA.features)
    for name, w in zip(NAMES, model.T, strict=True):
        assert objective(DATA, name, w, loss="hinge") <= optimum(DATA, name, loss="hinge") + 1e-4


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two parties that share their samples, and write the names of the classes in different ways."""
    X, classes = np.asarray(DATA.X), np.arange(40) % 3
    spellings = {"field": ("red", "green", "7"), "lab": (" red", "green", "007")}
    for name, columns in (("field", slice(3)), ("lab", slice(3, 6))):
        rows = [
            ",".join([str(row), *(f"{value:.6g}" for value in X[row, columns]), spellings[name][classes[row]]])
            for row in range(40)
        ]
        (tmp_path / "tables" / name).mkdir(parents=True)
        header = ",".join(["id", *DATA.features[columns], "class"])
        (tmp_path / "tables" / name / "plants.csv").write_text("\n".join([header, *rows]) + "\n")
    return tmp_path / "tables"


def test_tables_with_names_of_classes_become_a_model_for_each(folder: Path, tmp_path: Path) -> None:
    for name in ("field", "lab"):
        made = run_fenchel("data", "init", str(folder / name / "plants.csv"))
        assert made.exit_code == ExitCode.DONE
        assert "the names of 3 classes, which run.toml must list" in made.stdout + made.stderr
    inspected = run_fenchel("data", "inspect", str(folder / "lab"), "--format", "json")
    assert json.loads(inspected.stdout)["shard"]["labels"] == {"7": 13, "red": 14, "green": 13}
    arguments = ["--classes", "7,red,green", "--lambda", "0.5", "--cipher", "masks", "--format", "json"]
    result = run_fenchel("demo", "--table", str(folder), "--keep", str(tmp_path / "kept"), *arguments)
    assert result.exit_code == ExitCode.DONE, result.stderr
    report = json.loads(result.stdout)
    assert report["relative_error"] <= 1e-3
    assert abs(report["accuracy"] - report["centralized_accuracy"]) <= 0.05
    assert report["figures"]["gap of red"] <= report["gap"]
    shown = run_fenchel("runs", "show", "demo", "--state", str(tmp_path / "kept" / "server"), "--format", "json")
    assert json.loads(shown.stdout)["outcome"]["certificate"]["accuracy"] == pytest.approx(
        report["accuracy"], abs=1e-12
    )
    model = find_model(tmp_path / "kept" / "clients" / "lab")
    assert model.record.classes == ("7", "red", "green")
    assert model.weights.shape == (3, 3)


def test_preflight_compares_the_names_with_those_of_the_run(folder: Path, tmp_path: Path) -> None:
    for name in ("field", "lab"):
        run_fenchel("data", "init", str(folder / name / "plants.csv"))
    field, lab = (load_shard(folder / name).shard.y for name in ("field", "lab"))
    assert field is not None
    assert lab is not None
    np.testing.assert_array_equal(field, lab)
    run = tmp_path / "run.toml"
    for classes, status in (("'red', 'green', 7", Status.OK), ("'red', 'green', 'blue'", Status.FAIL)):
        run.write_text(f"name = 'colours'\n[settings]\nclasses = [{classes}]\n")
        *_, check = data_checks(folder / "lab", None, run)
        assert check.status is status
        assert status is Status.OK or "13 of 40 labels are none of the 3 names in settings.classes" in check.detail
    run.write_text("name = 'colours'\n")
    *_, check = data_checks(folder / "lab", None, run)
    assert "settings.classes" in check.detail
