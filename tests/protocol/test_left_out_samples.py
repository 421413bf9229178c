"""Samples that a run cannot use are left out, everybody is told how many, and the model is that of the others."""

import logging
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from fenchel_common.data.shard import Shard
from fenchel_common.losses import LOSSES
from fenchel_common.model import read_model
from fenchel_common.objectives import primal
from fenchel_common.runconfig import RunConfig
from fenchel_deploy.experiments.centralized import solve_centralized
from fenchel_deploy.folders import whole_model
from fenchel_server.store import RunStatus
from support.federation import InProcessFederation
from support.tables import small_dataset

LAMBDA = 0.1
DATASET = small_dataset(90, 4)
CLINIC, LAB = "p1", "p2"


def held(rows: range, columns: slice, *, labels: bool) -> Shard:
    own = list(rows)
    X = np.asarray(DATASET.X)[own][:, columns]
    return Shard(tuple(f"s{row}" for row in own), DATASET.features[columns], X, DATASET.y[own] if labels else None)


def trained(directory: Path, shards: Mapping[str, Shard], **changes: object) -> NDArray[np.float64]:
    """The whole model, in the order of the data set's features."""
    config = RunConfig.from_mapping(
        {
            "name": "test",
            "privacy": "plain",
            "benchmark": True,
            "key": {"bits": 2048},
            "alignment": "hmac",
            "settings": {"lambda": LAMBDA},
            "stop": {"gap": 1e-5},
            **changes,
        }
    )
    run = InProcessFederation(directory, shards, config, release_model_to_server=False)
    assert run.drive().status is RunStatus.COMPLETED
    return whole_model(map(read_model, directory.glob("*/*.model")), DATASET.features)


def check_optimal(w: NDArray[np.float64], X: NDArray[np.float64], y: NDArray[np.float64]) -> None:
    best = solve_centralized(X, y, loss=LOSSES["hinge"], lambda_=LAMBDA)
    reached = primal(X, y, w, loss=LOSSES["hinge"], lambda_=LAMBDA)
    assert best.primal <= reached + 1e-9
    assert reached <= best.primal + 2e-5


def test_a_lab_with_patients_of_no_clinic_trains_on_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The clinic has rows 0 to 60 with labels, the lab rows 30 to 90 without."""
    caplog.set_level(logging.INFO)
    shards = {
        CLINIC: held(range(60), slice(0, 2), labels=True),
        LAB: held(range(30, 90), slice(2, 4), labels=False),
    }
    w = trained(tmp_path, shards)
    X = np.asarray(DATASET.X)[:60].copy()
    X[:30, 2:] = 0.0
    check_optimal(w, X, DATASET.y[:60])
    assert "the run uses 30 of this party's 60 samples; not used: 30 that no party with labels holds" in caplog.text
    assert "the run uses 60 of this party's 60 samples" in caplog.text
    assert "in all there are 60 samples (30 held by 1 party, 30 held by 2 parties), and 4 features" in caplog.text
    assert "30 samples are left out because no party with labels holds them (30 held by p2)" in caplog.text


def test_a_run_of_complete_samples_leaves_out_those_that_lack_features(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The clinic alone has rows 0 to 30, the lab alone rows 60 to 90; both have labels."""
    caplog.set_level(logging.INFO)
    shards = {
        CLINIC: held(range(60), slice(0, 2), labels=True),
        LAB: held(range(30, 90), slice(2, 4), labels=True),
    }
    w = trained(tmp_path, shards, samples="complete")
    check_optimal(w, np.asarray(DATASET.X)[30:60], DATASET.y[30:60])
    assert caplog.text.count("not used: 30 of which some feature is held by nobody") == 2


def test_a_party_is_told_who_else_holds_its_features(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    shards = {
        CLINIC: held(range(30), slice(0, 4), labels=True),
        LAB: held(range(30, 60), slice(0, 4), labels=True),
    }
    trained(tmp_path, shards)
    assert f"others hold 0 of these samples and 4 of this party's 4 features too ({LAB} 4)" in caplog.text
    assert f"others hold 0 of these samples and 4 of this party's 4 features too ({CLINIC} 4)" in caplog.text
