"""Processes that are killed in the set-up of a run: who restarts goes on, and nobody else does anything again."""

from pathlib import Path
from typing import Any

import pytest

from fenchel_common.runconfig import RunConfig
from fenchel_deploy.local import LocalFederation
from support.kills import kill_client
from support.tables import named_shards, small_dataset

SHARDS = named_shards(small_dataset(), grid=(2, 2))
CONFIG = RunConfig.from_mapping(
    {"name": "killed", "cipher": "masks", "settings": {"loss": "hinge", "lambda": 0.1}, "stop": {"rounds": 2}}
)


@pytest.mark.parametrize(
    ("name", "phase"), [("p1", "blind_1"), ("p4", "blind_3")], ids=["blinding party", "owner of a list"]
)
def test_a_party_killed_in_the_alignment_costs_its_own_part_alone(tmp_path: Path, name: str, phase: str) -> None:
    with LocalFederation(tmp_path, SHARDS, CONFIG) as federation:
        phases: list[str] = []
        ended: dict[str, Any] = {}
        for event in federation.events():
            if event["event"] == "phase" and event["round"] == 0:
                phases.append(event["phase"])
                if event["phase"] == phase:
                    kill_client(federation, name)
                    federation.start_client(name)
            ended = event if event["event"] == "ended" else ended
        codes = federation.wait()
    assert phases.count("introduce") == phases.count("align_0") == phases.count(phase) == 1
    assert ended["outcome"]["rounds"] == 2
    assert codes.keys() == {"server", *SHARDS}
