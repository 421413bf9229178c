"""FedSGM and SCAFF-PD as real processes with a real key, a server and a client of which are killed in mid run."""

from pathlib import Path

import numpy as np
import pytest

from fenchel_common.runconfig import RunConfig
from fenchel_deploy.local import LocalFederation
from support.federation import calm_model
from support.kills import model_after_kills
from support.tables import named_shards, small_dataset

SETTINGS: dict[str, dict[str, object]] = {
    # With top_k, ties between votes fall by the order of the pseudonyms, which is another one in each set-up.
    "fedsgm": {"compression": "rand_k", "k": 3, "tolerance": 0.5},
    "scaffpd": {"local_steps": 5, "batch": 8},
}


@pytest.mark.parametrize("algorithm", SETTINGS)
def test_an_encrypted_run_with_kills_ends_with_the_model_of_a_calm_run_in_clear(algorithm: str, tmp_path: Path) -> None:
    data = small_dataset(60, 6)
    shards = named_shards(data, grid=(2, 1))

    def config(privacy: str) -> RunConfig:
        return RunConfig.from_mapping(
            {
                "name": "killed",
                "algorithm": algorithm,
                "settings": SETTINGS[algorithm],
                "privacy": privacy,
                "benchmark": privacy == "plain",
                "stop": {"rounds": 6},
                "alignment": "hmac",
                "key": {"bits": 2048},
                "seed": 3,
            }
        )

    with LocalFederation(tmp_path / "killed", shards, config("sealed")) as federation:
        killed = model_after_kills(federation, data.features)
    calm = calm_model(tmp_path / "calm", shards, config("plain"), data.features)
    assert calm.any()
    np.testing.assert_array_equal(calm, killed)
