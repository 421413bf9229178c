"""Real processes, killed, paused and cut off at random, the server too: the run reaches the certified optimum."""

from pathlib import Path

import pytest

from fenchel_common.losses import LOSSES
from fenchel_common.objectives import primal
from fenchel_common.runconfig import RunConfig
from fenchel_deploy.experiments.centralized import solve_centralized
from fenchel_deploy.local import LocalFederation
from support.chaos import ShakenFederation, stormy_run
from support.kills import kill_client
from support.tables import named_shards, small_dataset

LAMBDA = 0.05
GAP = 1e-3
DATASET = small_dataset()
DISTURBANCES = 10
CASES = [((2, 2), "all"), ((4, 1), "fraction:1.0"), ((1, 3), "all")]


@pytest.mark.parametrize(("grid", "participation"), CASES, ids=["hybrid", "horizontal", "vertical"])
def test_whatever_is_killed_paused_and_cut_off_the_optimum_is_certified(
    tmp_path: Path, grid: tuple[int, int], participation: str
) -> None:
    config = RunConfig.from_mapping(
        {
            "name": "chaos",
            "settings": {"loss": "hinge", "lambda": LAMBDA, "participation": participation, "certificate_every": 4},
            "key": {"bits": 2048},
            "alignment": "hmac",
            "round": {"deadline_s": 5.0, "quorum": 0.25, "wait_s": 60.0},
            "stop": {"gap": GAP, "rounds": 200},
            "seed": 1,
        }
    )
    with ShakenFederation(tmp_path, named_shards(DATASET, grid=grid), config) as federation:
        done, ended = stormy_run(federation, grid[0], DISTURBANCES)
        codes = federation.wait()
        weights = federation.model(DATASET.features)
    assert set(codes.values()) == {0}
    assert ended["status"] == "completed"
    assert len(done) >= 3
    optimum = solve_centralized(DATASET.X, DATASET.y, loss=LOSSES["hinge"], lambda_=LAMBDA).primal
    reached = primal(DATASET.X, DATASET.y, weights, loss=LOSSES["hinge"], lambda_=LAMBDA)
    assert reached - optimum <= ended["outcome"]["certificate"]["gap"] <= GAP


def test_a_cyclic_run_whose_parties_are_never_all_there_ends_with_a_model_and_says_that_it_is_uncertified(
    tmp_path: Path,
) -> None:
    """One party is gone for good; the samples that it held together with others no longer improve."""
    config = RunConfig.from_mapping(
        {
            "name": "turns",
            "settings": {"loss": "hinge", "lambda": LAMBDA, "participation": "cyclic:2", "certificate_every": 5},
            "key": {"bits": 2048},
            "alignment": "hmac",
            "round": {"deadline_s": 10.0, "quorum": 0.25, "wait_s": 60.0},
            "stop": {"gap": GAP, "rounds": 12},
            "seed": 1,
        }
    )
    rounds = []
    with LocalFederation(tmp_path, named_shards(DATASET, grid=(2, 2)), config) as federation:
        gone = max(federation.clients)
        for event in federation.events():
            if event["event"] == "round":
                rounds.append(event)
            if event["event"] == "round" and event["round"] == 4:
                kill_client(federation, gone)
            if event["event"] == "ended":
                ended = event
        federation.wait()
        weights = federation.model(DATASET.features)
    assert ended["status"] == "exhausted"
    assert "all 12 rounds are done, but the model has no certificate" in ended["reason"]
    assert ended["outcome"]["certificate"]["gap"] is None
    assert gone in rounds[-1]["absences"]
    optimum = solve_centralized(DATASET.X, DATASET.y, loss=LOSSES["hinge"], lambda_=LAMBDA).primal
    reached = primal(DATASET.X, DATASET.y, weights, loss=LOSSES["hinge"], lambda_=LAMBDA)
    assert reached - optimum < (1.0 - optimum) / 2.0
