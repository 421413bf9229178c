"""Runs with masks as real processes: the model of Paillier to the last bit, whoever is killed (kill -9)."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fenchel_common.losses import LOSSES
from fenchel_common.objectives import primal
from fenchel_common.runconfig import RunConfig
from fenchel_deploy.experiments.centralized import solve_centralized
from fenchel_deploy.local import LocalFederation
from support.federation import calm_model
from support.kills import model_after_kills
from support.tables import named_shards, small_dataset

DATASET = small_dataset(60, 6)
LAMBDA = 0.05
CORRECTIVE = "corrective, samples of three"
PAPER = "paper, samples of three"
RUNS: dict[str, tuple[str, tuple[int, int], dict[str, Any]]] = {
    CORRECTIVE: ("hyfdca", (1, 3), {"lambda": LAMBDA, "local": "corrective"}),
    "paper, hybrid": ("hyfdca", (2, 2), {"lambda": LAMBDA, "local": "paper", "certificate_every": 3}),
    PAPER: (
        "hyfdca",
        (1, 3),
        {"lambda": LAMBDA, "local": "paper", "certificate_every": 3, "participation": "fraction:0.7"},
    ),
    "hyfem, features of three": ("hyfem", (3, 1), {"measure_every": 2}),
}


def config(name: str, cipher: str, **changes: Any) -> RunConfig:
    algorithm, _, settings = RUNS[name]
    values = {
        "name": "masked",
        "algorithm": algorithm,
        "settings": settings,
        "cipher": cipher,
        "key": {"bits": 2048},
        "alignment": "hmac",
        "seed": 5,
        "stop": {"gap": 1e-9, "rounds": 6} if algorithm == "hyfdca" else {"rounds": 6},
    }
    return RunConfig.from_mapping(values | changes)


@pytest.mark.parametrize("name", RUNS)
def test_masks_give_the_model_of_paillier_whoever_is_killed(tmp_path: Path, name: str) -> None:
    """Corrective steps of a party that restarts begin anew with every cipher: there the server alone is killed."""
    shards = named_shards(DATASET, grid=RUNS[name][1])
    with LocalFederation(tmp_path / "killed", shards, config(name, "masks")) as federation:
        masked = model_after_kills(federation, DATASET.features, party=name != CORRECTIVE)
        for party in shards:
            kept = {path.suffix for path in (tmp_path / "killed" / "clients" / party).iterdir()}
            assert ".run" not in kept, "the keys are gone when the run is over"
    paillier = calm_model(tmp_path / "calm", shards, config(name, "paillier"), DATASET.features)
    assert np.abs(paillier).max() > 0.0
    np.testing.assert_array_equal(masked, paillier)


@pytest.mark.parametrize(("name", "gap", "server"), [(CORRECTIVE, 1e-4, True), (PAPER, 1e-3, False)])
def test_a_run_with_masks_reaches_the_certified_optimum_though_a_party_is_killed(
    tmp_path: Path, name: str, gap: float, server: bool
) -> None:
    """Also if the server lives on, and the round goes on without the party."""
    loss = LOSSES["hinge"]
    shards = named_shards(DATASET, grid=RUNS[name][1])
    with LocalFederation(tmp_path, shards, config(name, "masks", stop={"gap": gap, "rounds": 200})) as federation:
        model = model_after_kills(federation, DATASET.features, server=server)
    optimum = solve_centralized(DATASET.X, DATASET.y, loss=loss, lambda_=LAMBDA).primal
    reached = primal(DATASET.X, DATASET.y, model, loss=loss, lambda_=LAMBDA)
    assert -1e-9 <= reached - optimum <= gap
