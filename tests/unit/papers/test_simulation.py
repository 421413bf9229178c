"""The simulated rounds are those of the real halves."""

from typing import Any

import numpy as np
import pytest

from fenchel_client.algorithms import ALGORITHMS as CLIENT_HALVES
from fenchel_common.algorithms import SETTINGS
from fenchel_common.algorithms.averaging.fedavg import LocalSgdSettings
from fenchel_common.algorithms.hyfdca.settings import HyfdcaSettings
from fenchel_common.data.partition import partition
from fenchel_common.data.shard import Shard
from fenchel_common.objectives import primal_point
from fenchel_deploy.inprocess.halves import Halves, hyfdca_halves
from fenchel_deploy.papers.simulation import SimulatedAveraging, SimulatedHyfdca
from fenchel_deploy.papers.splits import nonzeros
from fenchel_server.algorithms import ALGORITHMS as SERVER_HALVES
from fenchel_server.cohorts import OverlapRule
from support.problems import Problem, problem

STOP = {"gap": None}


def case_and_shards(split: str) -> tuple[Problem, list[Shard], OverlapRule]:
    case = problem(rows=60, columns=6, lambda_=0.05)
    if split == "nonzeros":
        return case, nonzeros(case.data, (2, 2), seed=0), OverlapRule.SUM
    return case, partition(case.data, grid=(2, 2)), OverlapRule.ERROR


@pytest.mark.parametrize("split", ["grid", "nonzeros"])
@pytest.mark.parametrize(
    ("participation", "row_norm"), [("all", "unit"), ("fraction:0.5", "unit"), ("fraction:0.5", "measured")]
)
def test_hyfdca_is_that_of_the_halves_where_every_party_draws_all_its_samples(
    split: str, participation: str, row_norm: str
) -> None:
    case, shards, overlap = case_and_shards(split)
    settings = HyfdcaSettings.parse(
        {
            "lambda": 0.05, "local": "paper", "h": 60, "row_norm": row_norm, "gamma": 1.0, "seed": 3, "stop": STOP,
            "participation": participation, "second_inner_product": False, "certificate_every": 0,
        }
    )  # fmt: skip
    real, fast = hyfdca_halves(shards, settings, overlap=overlap), SimulatedHyfdca(case.data, shards, settings)
    for _ in range(12):
        real.round()
        fast.round()
    # A closing round makes the model of all dual variables, with the contributions of parties that were away.
    real.round(closing=True)
    whole = primal_point(case.data.X, fast._alpha, lambda_=0.05)
    np.testing.assert_allclose(whole, real.weights(case.data.features), atol=1e-6)
    assert np.allclose(fast.model(), whole, atol=1e-9) == (participation == "all")


@pytest.mark.parametrize("split", ["grid", "nonzeros"])
@pytest.mark.parametrize("values", [{}, {"participation": "fraction:0.5"}], ids=["all", "some"])
@pytest.mark.parametrize("algorithm", ["fedavg", "hyfem"])
def test_averaging_is_that_of_the_halves(algorithm: str, values: dict[str, Any], split: str) -> None:
    case, shards, overlap = case_and_shards(split)
    own = {"lambda": 0.05, "seed": 2, "measure_every": 0, "local_steps": 9, "stop": STOP, **values}
    settings = SETTINGS[algorithm].parse({**own, **({"mu": 0.7} if algorithm == "hyfem" else {})})
    assert isinstance(settings, LocalSgdSettings)
    real: Halves[Any, Any] = Halves(
        shards,
        settings,
        client_half=CLIENT_HALVES["averaging"][algorithm],
        server_half=SERVER_HALVES["averaging"][algorithm],
        overlap=overlap,
    )
    ordered = [in_order_of_blocks(real.shards[client], real.alignment.clients[client].rows) for client in real.shards]
    fast = SimulatedAveraging(case.data, ordered, settings)
    for _ in range(6):
        real.round()
        fast.round()
    real.round(closing=True)
    np.testing.assert_allclose(fast.model(), real.weights(case.data.features), atol=1e-6)


def in_order_of_blocks(shard: Shard, rows: np.ndarray) -> Shard:
    assert shard.y is not None
    columns = np.argsort(np.array(shard.features))
    features = tuple(shard.features[column] for column in columns)
    return Shard(tuple(shard.ids[row] for row in rows), features, shard.X[rows][:, columns], shard.y[rows])
