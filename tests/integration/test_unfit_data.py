"""Parties whose data do not fit the run or each other, and a locked run, in federations of real processes.

Each client that can mend it exits with an error and says in its own log what to mend; the operator hears it in general
words.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fenchel_client.runrecords import MAX_REFUSALS
from fenchel_client.statefolder import StateFolder
from fenchel_common.data.shard import Shard
from fenchel_common.ids import RunId
from fenchel_common.runconfig import RunConfig
from fenchel_deploy.cli.exits import ExitCode
from fenchel_deploy.local import LocalFederation
from support.tables import named_shards, small_dataset

CONFIG = RunConfig.from_mapping(
    {"name": "test", "key": {"bits": 2048}, "stop": {"gap": None, "rounds": 3}, "round": {"attempts": 1}}
)


def ended_of(events: list[dict[str, Any]]) -> dict[str, Any]:
    (ended,) = [event for event in events if event["event"] == "ended"]
    return ended


def test_a_client_with_labels_0_and_1_says_so_and_fails_before_any_key_is_made(tmp_path: Path) -> None:
    shards = named_shards(small_dataset(), grid=(2, 1))
    shards["p2"] = replace(shards["p2"], y=np.where(np.asarray(shards["p2"].y) > 0.0, 1.0, 0.0))
    with LocalFederation(tmp_path, shards, CONFIG) as federation:
        events = list(federation.events())
        codes = federation.wait()
    assert codes == {"server": ExitCode.MISSED, "p1": ExitCode.DONE, "p2": ExitCode.DATA_UNFIT}
    assert "error: y: the hinge loss takes the labels -1 and +1 only" in federation.log("p2")
    assert "its data do not fit this run" in ended_of(events)["reason"]
    assert {event["phase"] for event in events if event["event"] == "phase"} <= {"introduce"}


def with_other_ids() -> dict[str, Shard]:
    """Numbers at one party, the same numbers with a letter at the other."""
    shards = named_shards(small_dataset(), grid=(1, 2))
    numbers = range(len(shards["p1"].ids))
    shards["p1"] = replace(shards["p1"], ids=tuple(str(number) for number in numbers))
    shards["p2"] = replace(shards["p2"], ids=tuple(f"P{number}" for number in numbers), y=None)
    return shards


def with_a_feature_twice() -> dict[str, Shard]:
    shards = named_shards(small_dataset(), grid=(1, 2))
    return {
        "p1": replace(shards["p1"], features=("age", "chol", "pulse")),
        "p2": replace(shards["p2"], features=("sugar", "iron", "chol")),
    }


@pytest.mark.parametrize(
    ("shards", "said", "operator"),
    [
        (
            with_other_ids(),
            {
                "p1": "no other party has any of the 120 samples of this party (all its ids are whole numbers)",
                "p2": "no other party has any of the 120 samples of this party (none of its ids is a whole number)",
            },
            "no two parties hold a common sample, yet they hold different features",
        ),
        (
            with_a_feature_twice(),
            dict.fromkeys(
                ("p1", "p2"), "another party has 'chol' of the same samples too, and a value must count once"
            ),
            "features would be counted twice: p1 and p2 both hold",
        ),
    ],
    ids=["ids", "overlap"],
)
def test_clients_whose_data_do_not_fit_each_other_fail_and_say_what_to_mend(
    tmp_path: Path, shards: Mapping[str, Shard], said: Mapping[str, str], operator: str
) -> None:
    with LocalFederation(tmp_path, shards, CONFIG) as federation:
        events = list(federation.events())
        codes = federation.wait()
    assert codes == {"server": ExitCode.MISSED, "p1": ExitCode.DATA_UNFIT, "p2": ExitCode.DATA_UNFIT}
    assert operator in ended_of(events)["reason"]
    for party, words in said.items():
        log = federation.log(party)
        assert words in log
        assert "shard.toml" in log, "the cure"
        assert "P117" not in log, "no sample is named"
    assert "chol" not in federation.log("server")
    if "different features" in operator:
        assert "some parties lack 'f0', 'f1', 'f2'" in federation.log("p1")


def test_a_client_of_a_locked_run_fails_and_says_so(tmp_path: Path) -> None:
    shards = named_shards(small_dataset(), grid=(1, 2))
    config = CONFIG.model_copy(
        update={
            "stop": CONFIG.stop.model_copy(update={"rounds": 500}),
            "round": CONFIG.round.model_copy(update={"quorum": 1.0, "attempts": 3}),
        }
    )
    with LocalFederation(tmp_path, shards, config) as federation:
        events = federation.events()
        run = next(RunId(event["run"]) for event in events if event["event"] == "round")
        federation.clients["p2"].kill()
        federation.clients["p2"].wait()
        folder = StateFolder(tmp_path / "clients" / "p2")
        kept = folder.run(run)
        assert kept is not None
        folder.keep_run(run, replace(kept, refusals=MAX_REFUSALS))
        federation.start_client("p2")
        ended = ended_of(list(events))
        codes = federation.wait()
    assert codes["p2"] == ExitCode.MISSED
    assert f"error: run {run} is locked here: 3 tasks had values that no honest run has" in federation.log("p2")
    assert "it takes no further part in this run" in ended["reason"]
