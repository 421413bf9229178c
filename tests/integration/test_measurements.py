"""What a run says that it cost, beside the clock on the wall."""

import time
from pathlib import Path

import pytest

from fenchel_common.runconfig import RunConfig
from fenchel_deploy.local import LocalFederation
from support.tables import named_shards, small_dataset

pytestmark = pytest.mark.alone

CONFIG = RunConfig.from_mapping(
    {
        "name": "test",
        "settings": {"loss": "hinge", "lambda": 0.05, "local": "paper"},
        "key": {"bits": 2048},
        "stop": {"gap": 1e-9, "rounds": 20},
    }
)


def test_the_parts_add_up_to_the_wall_clock_for_the_run_each_round_and_each_party(tmp_path: Path) -> None:
    shards = named_shards(small_dataset(), grid=(2, 2))
    federation = LocalFederation(tmp_path, shards, CONFIG)
    federation.start_server()
    began = time.monotonic()
    events = []
    try:
        for name in shards:
            federation.start_client(name)
        for event in federation.events():
            events.append(event)
            if event["event"] == "ended":
                wall_clock_s = time.monotonic() - began
        federation.wait()
    finally:
        federation.__exit__(None, None, None)
    (outcome,) = [event["outcome"] for event in events if event["event"] == "ended"]
    seconds = dict(outcome["seconds"])
    total_s = seconds.pop("total")
    assert total_s == pytest.approx(wall_clock_s, rel=0.02, abs=0.5)
    assert sum(seconds.values()) == pytest.approx(total_s, rel=0.02)
    for name in shards:
        detail = outcome["clients_detail"][name]
        assert sum(spent for kind, spent in detail.items() if kind.endswith("_s")) == pytest.approx(total_s, rel=0.001)
        assert min(detail[f"{kind}_s"] for kind in ("decrypt", "compute", "wire")) > 0
        assert detail["rss_mib"] > 40
    costs = [event["costs"] for event in events if event["event"] == "round"]
    assert len(costs) == outcome["rounds"] + 1, "the closing round has costs too"
    for way in ("up", "down"):
        for spent in costs:
            assert sum(party[f"bytes_{way}"] for party in spent["clients"].values()) == spent["bytes"][way]
        assert sum(party[f"bytes_{way}"] for party in outcome["clients_detail"].values()) == outcome["bytes"][way]
    trained_s = sum(spent["seconds"]["total"] for spent in costs)
    parts_s = sum(value for spent in costs for kind, value in spent["seconds"].items() if kind != "total")
    assert parts_s == pytest.approx(trained_s, rel=0.02)
