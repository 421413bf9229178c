"""Real processes with corrective steps, encrypted, whose parties are killed, paused and cut off in turn."""

from pathlib import Path

import pytest

from fenchel_common.losses import LOSSES
from fenchel_common.objectives import primal
from fenchel_deploy.cli.exits import ExitCode
from fenchel_deploy.experiments.centralized import solve_centralized
from support.chaos import KINDS, ShakenFederation, chaos_config, disturbances, shaken_run
from support.tables import named_shards, small_dataset

DATASET = small_dataset()
GAP = 1e-6


@pytest.mark.parametrize(("grid", "seed"), [((2, 2), 1)], ids=["hybrid"])
def test_a_run_whose_parties_all_fail_in_turn_reaches_the_certified_optimum(
    tmp_path: Path, grid: tuple[int, int], seed: int
) -> None:
    """`python -m support.chaos` does this for as long as one likes, and for tables split by rows or columns."""
    shards, config = named_shards(DATASET, grid=grid), chaos_config(GAP)
    due = disturbances(sorted(shards), seed, 3)
    assert {kind for kind, _ in due} == set(KINDS)
    with ShakenFederation(tmp_path, shards, config) as federation:
        done, ended = shaken_run(federation, due)
        codes = federation.wait()
        weights = federation.model(DATASET.features)
    assert [(kind, name) for _, kind, name in done] == due
    assert set(codes.values()) == {ExitCode.DONE}
    lambda_ = config.algorithm_settings().lambda_
    optimum = solve_centralized(DATASET.X, DATASET.y, loss=LOSSES["hinge"], lambda_=lambda_).primal
    error = primal(DATASET.X, DATASET.y, weights, loss=LOSSES["hinge"], lambda_=lambda_) - optimum
    assert -1e-9 <= error <= ended["outcome"]["certificate"]["gap"] <= GAP
