"""A party whose labels do not fit the run, in a federation of real processes."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from fenchel_common.runconfig import RunConfig
from fenchel_deploy.cli.exits import ExitCode
from fenchel_deploy.local import LocalFederation
from support.tables import named_shards, small_dataset


def test_a_client_with_labels_0_and_1_says_so_and_fails_before_any_key_is_made(tmp_path: Path) -> None:
    shards = named_shards(small_dataset(), grid=(2, 1))
    shards["p2"] = replace(shards["p2"], y=np.where(np.asarray(shards["p2"].y) > 0.0, 1.0, 0.0))
    config = RunConfig.from_mapping(
        {"name": "test", "key": {"bits": 2048}, "stop": {"rounds": 3}, "round": {"attempts": 1}}
    )
    with LocalFederation(tmp_path, shards, config) as federation:
        events = list(federation.events())
        codes = federation.wait()
    assert codes == {"server": ExitCode.MISSED, "p1": ExitCode.DONE, "p2": ExitCode.DATA_UNFIT}
    assert "error: y: the hinge loss takes the labels -1 and +1 only" in federation.log("p2")
    (ended,) = [event for event in events if event["event"] == "ended"]
    assert "its data do not fit this run" in ended["reason"]
    assert {event["phase"] for event in events if event["event"] == "phase"} <= {"introduce"}
