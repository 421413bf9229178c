"""Feature names do not reach the server: a real run over processes whose feature names are marked words."""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

from fenchel_common.runconfig import RunConfig
from fenchel_deploy.cli import app, load_verbs
from fenchel_deploy.local import LocalFederation
from support.tables import named_shards, small_dataset

DATASET = small_dataset(40, 6)
MARK = "markedword"


def marked(feature: str) -> str:
    return f"{MARK}-{feature}"


def test_no_file_log_or_command_of_the_server_has_a_feature_name(tmp_path: Path) -> None:
    shards = {
        name: replace(shard, features=tuple(marked(feature) for feature in shard.features))
        for name, shard in named_shards(DATASET, grid=(2, 2)).items()
    }
    config = RunConfig.from_mapping(
        {
            "name": "names",
            "settings": {"lambda": 0.5, "local": "corrective"},
            "key": {"bits": 2048},
            "stop": {"gap": 1e-3, "rounds": 40},
        }
    )
    results = tmp_path / "results"
    federation = LocalFederation(
        tmp_path, shards, config, server_options=["--results", str(results)], release_model_to_server=True
    )
    with federation:
        events = list(federation.events())
        assert set(federation.wait().values()) == {0}, federation.log("server")
        model = federation.model([marked(feature) for feature in DATASET.features])
    (ended,) = [event for event in events if event["event"] == "ended"]
    server = tmp_path / "server"
    served = [path for folder in (server, results) for path in folder.rglob("*") if path.is_file()]
    assert {path.suffix for path in served} >= {".npz", ".json", ".db"}
    load_verbs(["runs"])
    shown = CliRunner().invoke(app, ["runs", "show", "--state", str(server), "--format", "json", ended["run"]])
    assert shown.exit_code == 0
    texts = [federation.log("server"), repr(events), shown.output]
    assert not any(MARK in text for text in texts)
    assert [path for path in served if MARK.encode() in path.read_bytes()] == []
    names: dict[str, str] = {}
    for party in shards:
        (told,) = (tmp_path / "clients" / party).glob("*.features.csv")
        with told.open(newline="") as file:
            names |= {row["pseudonym"]: row["feature"] for row in csv.DictReader(file)}
    with np.load(results / f"{ended['run']}.model.npz") as released:
        by_name = dict(zip((names[mark] for mark in released["features"]), released["weights"], strict=True))
    assert [by_name[marked(feature)] for feature in DATASET.features] == model.tolist()
