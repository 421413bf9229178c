"""Labels that differ, or not, in a federation of real processes: mutual TLS, 2048-bit keys."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fenchel_common.runconfig import RunConfig
from fenchel_deploy.cli.exits import ExitCode
from fenchel_deploy.local import LocalFederation
from support.tables import named_shards, small_dataset

DATASET = small_dataset()
LABEL_TROUBLE = re.compile(r"\b(\d+) of the (\d+) labels of samples that other parties hold too differ")


def config() -> RunConfig:
    return RunConfig.from_mapping(
        {
            "name": "test",
            "settings": {"lambda": 0.05, "local": "corrective"},
            "key": {"bits": 2048},
            "stop": {"gap": None, "rounds": 3},
        }
    )


def phases_of(events: list[dict[str, Any]]) -> list[tuple[int, str]]:
    return [(event["round"], event["phase"]) for event in events if event["event"] == "phase"]


def test_three_labels_that_differ_end_the_run_before_round_1_and_only_the_parties_hear_how_many(
    tmp_path: Path,
) -> None:
    shards = named_shards(DATASET, grid=(1, 2))
    labels = np.asarray(shards["p2"].y).copy()
    labels[[7, 30, 111]] *= -1.0
    shards["p2"] = replace(shards["p2"], y=labels)
    with LocalFederation(tmp_path, shards, config()) as federation:
        events = list(federation.events())
        codes = federation.wait()
    assert codes == {"server": ExitCode.MISSED, "p1": ExitCode.DATA_UNFIT, "p2": ExitCode.DATA_UNFIT}
    assert phases_of(events)[-1] == (0, "labels")
    (ended,) = [event for event in events if event["event"] == "ended"]
    assert ended["status"] == "failed"
    assert ended["reason"].startswith("labels of shared samples differ between parties; the logs of p1, p2 say")
    for party in ("p1", "p2"):
        assert LABEL_TROUBLE.findall(federation.log(party)) == [("3", "120")]
        assert "correct them together with the other parties" in federation.log(party)
        assert "table-" not in federation.log(party), "no sample is named"
        (kept,) = (tmp_path / "clients" / party).glob("*.run")
        assert b"paillier private key" not in kept.read_bytes(), "the run's key is gone"
    assert not LABEL_TROUBLE.search(federation.log("server") + str(events))
    assert not re.search(r"\b3 of\b|\b120\b", ended["reason"])


def test_equal_labels_are_compared_once_and_the_run_trains(tmp_path: Path) -> None:
    with LocalFederation(tmp_path, named_shards(DATASET, grid=(2, 2)), config()) as federation:
        events = list(federation.events())
        assert set(federation.wait().values()) == {ExitCode.DONE}
        assert np.abs(federation.model(DATASET.features)).max() > 0
    assert phases_of(events).count((0, "labels")) == 1
    assert not LABEL_TROUBLE.search("".join(federation.log(party) for party in ("p1", "p2", "p3", "p4")))
