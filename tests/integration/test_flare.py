"""Fenchel inside NVIDIA FLARE: a provisioned deployment gives the same model as our own transport."""

from pathlib import Path

import pytest

from fenchel_common.data.shard import Shard
from fenchel_common.model import read_model
from fenchel_common.runconfig import RunConfig
from fenchel_deploy.folders import whole_model
from fenchel_deploy.local import LocalFederation
from support.network import free_port
from support.tables import named_shards, small_dataset

pytest.importorskip("nvflare", reason="the extra fenchel[nvflare] is not installed")

from support.flare import FlareDeployment

DATASET = small_dataset(120, 6)
CONFIG = RunConfig.from_mapping(
    {
        "name": "flare",
        "settings": {"lambda": 0.05, "local": "corrective"},
        "key": {"bits": 2048},
        "alignment": "hmac",
        "round": {"quorum": 1.0},
        "stop": {"gap": 1e-4, "rounds": 60},
    }
)


@pytest.fixture(scope="module")
def shards() -> dict[str, Shard]:
    return named_shards(DATASET, grid=(1, 2))


def test_a_job_of_a_provisioned_deployment_ends_with_the_model_of_our_own_transport(
    tmp_path: Path, shards: dict[str, Shard]
) -> None:
    deployment = FlareDeployment(tmp_path / "flare", shards, CONFIG, port=free_port())
    assert deployment.run() == "FINISHED:COMPLETED", deployment.outputs()
    (ended,) = [event for event in deployment.events() if event["event"] == "ended"]
    assert ended["outcome"]["certificate"]["gap"] <= 1e-4
    models = [read_model(deployment.state(name) / f"{ended['run']}.model") for name in shards]

    with LocalFederation(tmp_path / "own", shards, CONFIG) as federation:
        list(federation.events())
        federation.wait()
        expected = federation.model(DATASET.features)
    assert whole_model(models, DATASET.features).tobytes() == expected.tobytes()

    # FLARE can send its logs to its server; those of a party have names of columns and counts.
    assert "samples" in deployment.log("p1")
    assert "of this party's" not in deployment.outputs()
