"""A roster that releases the model to the server, with real processes, TLS and 2048-bit keys."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fenchel_common.errors import InvalidConfig
from fenchel_common.identity import Address, Kit
from fenchel_common.runconfig import RunConfig
from fenchel_deploy.local import LocalFederation
from fenchel_server.app import serve
from fenchel_server.transport import listen
from support.kits import make_federation
from support.tables import named_shards, small_dataset

DATASET = small_dataset(40, 4)
NOISE = {"epsilon": 1.0, "delta": 1e-5, "row_bound": 1.0}


def run_config(**changes: Any) -> RunConfig:
    values: dict[str, object] = {
        "name": "test",
        "settings": {"lambda": 0.5, "local": "corrective"},
        "key": {"bits": 2048},
        "alignment": "hmac",
        "round": {"quorum": 1.0},
        "stop": {"gap": 1e-3, "rounds": 50},
    }
    return RunConfig.from_mapping(values | changes)


def test_the_model_stands_beside_the_run_s_result_exactly_as_the_parties_have_it(tmp_path: Path) -> None:
    results = tmp_path / "results"
    federation = LocalFederation(
        tmp_path,
        named_shards(DATASET, grid=(1, 2)),
        run_config(),
        server_options=["--results", str(results)],
        release_model_to_server=True,
    )
    with federation:
        (ended,) = [event for event in federation.events() if event["event"] == "ended"]
        assert set(federation.wait().values()) == {0}, federation.log("server")
    with np.load(results / f"{ended['run']}.model.npz") as model:
        assert set(model) == {"features", "weights", "primal", "dual", "gap"}
        names: dict[str, str] = {}
        for told in tmp_path.glob("clients/*/*.features.csv"):
            with told.open(newline="") as file:
                names |= {row["pseudonym"]: row["feature"] for row in csv.DictReader(file)}
        order = [names[pseudonym] for pseudonym in model["features"]]
        assert sorted(order) == sorted(DATASET.features)
        assert np.array_equal(model["weights"], federation.model(order))
        assert float(model["gap"]) == ended["outcome"]["certificate"]["gap"] <= 1e-3
    result = json.loads((results / f"{ended['run']}.json").read_text())
    assert result["release"] == {"whole": True, "reason": "", "noise": None}


def test_noise_on_a_model_that_the_roster_keeps_is_refused_before_anything_starts(tmp_path: Path) -> None:
    kit = Kit.load(make_federation(tmp_path / "kits")["server"])
    config, address = run_config(release=NOISE), Address.parse("localhost:0")
    with pytest.raises(InvalidConfig, match="the roster keeps the model from the server"):
        serve(kit, tmp_path / "state", configs=[config], address=address, listen=listen, stay=False, announce=print)
    assert not (tmp_path / "state").exists()
