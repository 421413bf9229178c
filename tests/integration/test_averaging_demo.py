"""An algorithm of the averaging rails as real processes with a real key."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fenchel_common.data.datasets import load_dataset
from fenchel_common.losses import loss_named
from fenchel_common.model import read_model
from fenchel_common.objectives import primal
from fenchel_common.runconfig import RunConfig
from fenchel_deploy.folders import whole_model
from fenchel_deploy.local import LocalFederation
from support.federation import calm_model
from support.kills import model_after_kills
from support.tables import named_shards, small_dataset

FENCHEL = str(Path(sys.executable).parent / "fenchel")


def demo(*arguments: str) -> dict[str, Any]:
    command = [FENCHEL, "demo", *arguments, "--rounds", "6", "--format", "json"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)
    assert result.returncode == 0, result.stderr
    report: dict[str, Any] = json.loads(result.stdout)
    return report


def test_an_encrypted_demo_gives_the_model_of_the_one_in_clear_and_no_gap(tmp_path: Path) -> None:
    common = ("--algorithm", "hyfem", "--grid", "1x2", "--set", "measure_every=3", "--keep")
    sealed = demo(*common, str(tmp_path / "sealed"), "--privacy", "sealed", "--key-bits", "2048")
    clear = demo(*common, str(tmp_path / "clear"), "--privacy", "plain")
    assert sealed["status"] == "completed"
    assert sealed["gap"] is None
    assert sealed["dual"] is None
    assert sealed["rtc_per_round"] == 1
    assert sealed["primal"] == clear["primal"]
    assert sealed["server_saw"]["the model"] == "ciphertext"
    measured = [entry["primal"] for entry in sealed["history"] if entry["primal"] is not None]
    assert len(measured) == 3
    assert measured == [entry["primal"] for entry in clear["history"] if entry["primal"] is not None]
    assert measured[-1] == pytest.approx(sealed["primal"], abs=1e-7)
    data = load_dataset("breast_cancer")
    parts = [read_model(path) for path in (tmp_path / "sealed").rglob("*.model")]
    assert {part.record.certificate.primal for part in parts} == {measured[-1]}
    w = whole_model(parts, data.features)
    assert primal(data.X, data.y, w, loss=loss_named("hinge"), lambda_=1e-2) == sealed["primal"]


def test_a_server_and_a_client_killed_in_mid_run_change_no_bit_of_the_model(tmp_path: Path) -> None:
    data = small_dataset(60, 6)
    values = {"settings": {"measure_every": 2}, "stop": {"rounds": 6}, "alignment": "hmac", "key": {"bits": 2048}}
    config = RunConfig.from_mapping({"name": "killed", "algorithm": "hyfem", "privacy": "sealed", "seed": 5, **values})

    shards = named_shards(data, grid=(1, 2))
    with LocalFederation(tmp_path / "killed", shards, config) as federation:
        killed = model_after_kills(federation, data.features)
    calm = calm_model(tmp_path / "calm", shards, config, data.features)
    np.testing.assert_array_equal(calm, killed)


def test_an_algorithm_that_is_unknown_is_refused_with_those_that_exist() -> None:
    result = subprocess.run(
        [FENCHEL, "demo", "--algorithm", "fedsomething"], capture_output=True, text=True, check=False, timeout=60
    )
    assert result.returncode == 2
    assert "--algorithm" in result.stderr
    assert "hyfem" in result.stderr
