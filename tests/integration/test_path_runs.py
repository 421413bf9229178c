"""A run with a path of regularisations, by real processes: kills, and the command that tunes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fenchel_common.data.datasets import Dataset
from fenchel_common.losses import LOSSES
from fenchel_common.runconfig import RunConfig
from fenchel_deploy.cli.exits import ExitCode
from fenchel_deploy.experiments.centralized import solve_centralized
from fenchel_deploy.local import LocalFederation
from support.commands import run_fenchel
from support.tables import named_shards, small_dataset

PATH = {"lambdas": [0.3, 0.03, 0.01], "folds": 2, "metric": "log_loss"}


@pytest.fixture(scope="module")
def data() -> Dataset:
    return small_dataset(80)


def rounds_until(events: Iterator[dict[str, Any]], leg: int) -> None:
    """Waits for the first committed round of a leg."""
    next(event for event in events if event["event"] == "round" and event["leg"] >= leg)


def test_a_path_survives_kills_of_server_and_party_in_different_legs(tmp_path: Path, data: Dataset) -> None:
    config = RunConfig.from_mapping(
        {
            "name": "path",
            "settings": {"loss": "logistic"},
            "key": {"bits": 2048},
            "cipher": "masks",
            "alignment": "hmac",
            "stop": {"gap": 1e-3},
            "seed": 0,
            "path": PATH,
        }
    )
    with LocalFederation(tmp_path, named_shards(data, grid=(1, 2)), config) as federation:
        rounds_until(federation.events(), leg=0)
        assert federation.server is not None
        assert federation.server.stdout is not None
        federation.server.kill()
        federation.server.wait()
        federation.server.stdout.close()
        federation.start_server()
        events = federation.events()
        rounds_until(events, leg=2)
        federation.clients["p2"].kill()
        federation.clients["p2"].wait()
        federation.start_client("p2")
        (ended,) = [event for event in events if event["event"] == "ended"]
        assert set(federation.wait().values()) == {ExitCode.DONE}, federation.log("server")
        weights = federation.model(data.features)
    assert ended["status"] == "completed"
    (taken,) = [row for row in ended["outcome"]["path"] if row["taken"]]
    assert "best" in taken["chosen"]
    loss, lambda_ = LOSSES["logistic"], taken["lambda_"]
    best = solve_centralized(data.X, data.y, loss=loss, lambda_=lambda_).primal
    reached = lambda_ / 2.0 * weights @ weights + loss.value(data.X @ weights, data.y).mean()
    assert reached - best <= taken["gap"] <= 1e-3
    shown = run_fenchel("runs", "show", "path", "--state", federation.state).stdout
    assert "log-loss" in shown
    assert "0.01 *" in shown


def test_tune_prints_the_table_and_the_chosen_lambda(tmp_path: Path, data: Dataset) -> None:
    np.savez(tmp_path / "small.npz", X=np.asarray(data.X), y=data.y)
    words = ["tune", "--dataset", tmp_path / "small.npz", "--grid", "1x2", "--lambdas", 2, "--smallest", 0.01]
    tuned = run_fenchel(*words, "--held-out", 0.4, "--metric", "log_loss", "--cipher", "masks", "--format", "json")
    assert tuned.exit_code == ExitCode.DONE, tuned.stderr
    report = json.loads(tuned.stdout)
    assert [row["lambda_"] for row in report["path"]] == [1.0, 0.01]
    assert [row["chosen"] for row in report["path"] if row["taken"]] == [["best"]]
    assert report["rounds"] == sum(row["rounds"] for row in report["path"])


def test_tune_refuses_what_no_path_has_before_anything_starts(tmp_path: Path) -> None:
    refused = run_fenchel("tune", "--folds", 1)
    assert (refused.exit_code, refused.stdout) == (ExitCode.REFUSED, "")
    assert "use at least 2" in refused.stderr
