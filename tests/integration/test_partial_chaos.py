"""Parties of real processes that are killed and paused at random throughout a run: it reaches the certified optimum."""

import signal
from pathlib import Path

import numpy as np
import pytest

from fenchel_common.losses import LOSSES
from fenchel_common.objectives import primal
from fenchel_common.runconfig import RunConfig
from fenchel_deploy.experiments.centralized import solve_centralized
from fenchel_deploy.local import LocalFederation
from support.kills import kill_client
from support.tables import named_shards, small_dataset

LAMBDA = 0.05
GAP = 1e-3
DATASET = small_dataset()
DISTURBANCES = 10


@pytest.mark.parametrize("grid", [(2, 2), (4, 1), (1, 3)], ids=["hybrid", "horizontal", "vertical"])
def test_killed_and_paused_parties_do_not_keep_a_run_from_the_optimum(tmp_path: Path, grid: tuple[int, int]) -> None:
    """Every disturbance begins with a phase of a round, and a paused party goes on when the next round has ended."""
    config = RunConfig.from_mapping(
        {
            "name": "chaos",
            "settings": {"loss": "hinge", "lambda": LAMBDA, "participation": "fraction:1.0", "certificate_every": 4},
            "key": {"bits": 2048},
            "alignment": "hmac",
            "round": {"deadline_s": 3.0, "quorum": 0.25, "wait_s": 60.0},
            "stop": {"gap": GAP, "rounds": 200},
            "seed": 1,
        }
    )
    rng = np.random.default_rng(grid[0])
    disturbed, paused = 0, ""
    with LocalFederation(tmp_path, named_shards(DATASET, grid=grid), config) as federation:
        for event in federation.events():
            if event["event"] == "ended":
                ended = event
            if event["event"] == "round" and paused:
                federation.clients[paused].send_signal(signal.SIGCONT)
                paused = ""
            if event["event"] != "phase" or not event["round"] or disturbed == DISTURBANCES or rng.random() < 0.6:
                continue
            name = sorted(federation.clients)[int(rng.integers(len(federation.clients)))]
            disturbed += 1
            if rng.random() < 0.5 and not paused:
                paused = name
                federation.clients[name].send_signal(signal.SIGSTOP)
            elif name != paused:
                kill_client(federation, name)
                federation.start_client(name)
        codes = federation.wait()
        weights = federation.model(DATASET.features)
    assert set(codes.values()) == {0}
    assert ended["status"] == "completed"
    assert disturbed >= 3
    optimum = solve_centralized(DATASET.X, DATASET.y, loss=LOSSES["hinge"], lambda_=LAMBDA).primal
    reached = primal(DATASET.X, DATASET.y, weights, loss=LOSSES["hinge"], lambda_=LAMBDA)
    assert reached - optimum <= ended["outcome"]["certificate"]["gap"] <= GAP
