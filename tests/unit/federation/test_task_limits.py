"""How long a task a party takes: from the roster and its shard, from its layout, or not at all."""

from pathlib import Path

import pytest

from fenchel_client.party import Party
from fenchel_common.errors import Refusal
from fenchel_common.identity import Kit
from fenchel_common.ids import ClientId, RoundId, RunId
from fenchel_common.runconfig import RunConfig
from fenchel_common.wire.frames import TaskKey
from fenchel_common.wire.limits import finish_task_limit, layout_task_limit, setup_limits
from fenchel_server.rounds.transport import PhaseId
from support.federation import InProcessFederation
from support.records import RUN
from support.tables import named_shards, small_dataset

SHARDS = named_shards(small_dataset(40, 4), grid=(1, 2))
NAME = ClientId("p2")
CONFIG = RunConfig.from_mapping(
    {
        "name": "limits",
        "settings": {"lambda": 0.1, "local": "corrective"},
        "privacy": "plain",
        "benchmark": True,
        "alignment": "hmac",
        "stop": {"rounds": 2},
    }
)


def key(phase: str, round_id: int, run: str = RUN) -> TaskKey:
    return TaskKey(RunId(run), RoundId(round_id), phase)


@pytest.fixture
def federation(tmp_path: Path) -> InProcessFederation:
    return InProcessFederation(tmp_path, SHARDS, CONFIG, release_model_to_server=False)


def test_before_the_layout_roster_and_shard_decide(federation: InProcessFederation) -> None:
    party = federation.parties[NAME]
    assert party.task_limit(key("introduce", 0)) == setup_limits("introduce", parties=2).task
    assert party.task_limit(key("align_1", 0)) == setup_limits("align_1", parties=2).task
    expected = layout_task_limit(samples=40, features=2, parties=2, overlapping=True)
    assert party.task_limit(key("layout", 0)) == expected


def test_in_the_rounds_the_layout_decides_also_after_a_restart(federation: InProcessFederation) -> None:
    limits: dict[str, tuple[int, int]] = {}

    def look(phase: PhaseId) -> None:
        if phase.round > 0 and phase.phase != "finish":
            asked = key(phase.phase, phase.round)
            kit = Kit.load(federation.directory / "kits" / NAME)
            again = Party(kit, SHARDS[NAME], state=federation.directory / NAME)
            limits[phase.phase] = federation.parties[NAME].task_limit(asked), again.task_limit(asked)

    federation.transport.after_phase = look
    federation.drive()
    assert limits.keys() == {"inner_product", "local_dual", "primal", "measured"}
    assert all(first == again < 2**20 for first, again in limits.values())
    assert limits["local_dual"] > limits["primal"]


def test_asking_for_a_limit_makes_no_run_active(federation: InProcessFederation) -> None:
    """The connection's thread asks. If it brought a run back, a run that is being locked could go on."""
    seen: list[object] = []

    def look(phase: PhaseId) -> None:
        if phase.phase == "local_dual":
            kit = Kit.load(federation.directory / "kits" / NAME)
            again = Party(kit, SHARDS[NAME], state=federation.directory / NAME)
            again.task_limit(key("local_dual", 1))
            seen.append(again._current.active)

    federation.transport.after_phase = look
    federation.drive()
    assert set(seen) == {None}


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (key("local_dual", 1), "it does not have the key of this run"),
        (key("local_dual", 1, "../elsewhere"), "it does not have the key of this run"),
        (key("tell_all", 0), "this task belongs to no phase of a run"),
    ],
    ids=["unknown run", "no name of a file", "unknown phase"],
)
def test_a_task_of_nothing_that_the_party_knows_is_refused_before_it_is_taken(
    federation: InProcessFederation, asked: TaskKey, reason: str
) -> None:
    with pytest.raises(Refusal) as caught:
        federation.parties[NAME].task_limit(asked)
    assert caught.value.public_reason == reason


def test_the_end_of_a_run_that_is_over_is_still_heard(federation: InProcessFederation) -> None:
    """The party knows the terms of the run no more, but has written down its two features."""
    federation.drive()
    assert federation.parties[NAME].task_limit(key("finish", 3)) == finish_task_limit(
        features=2, parties=len(federation.parties), round_id=3
    )
