"""What a client says of its work: in its log, and to the live view."""

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fenchel_client.crypto.timed import Stopwatch
from fenchel_client.party import Party
from fenchel_client.task import Task
from fenchel_common.ids import RoundId, RunId
from fenchel_common.runconfig import RunConfig
from fenchel_deploy.cli.partylog import Progress, WatchedParty
from fenchel_deploy.cli.story import RunStory
from fenchel_deploy.logs import Place

CONFIG = RunConfig.from_mapping({"name": "trial", "cipher": "masks", "stop": {"gap": 1e-3, "rounds": 50}})


def task(round_id: int) -> Task:
    return Task(RunId("run-1"), RoundId(round_id), "primal", b"")


def test_the_log_has_the_round_and_the_gap_as_far_as_it_is_known(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fenchel_deploy.cli.partylog.ROUND_EVERY_S", 0.0)
    gaps = iter((None, 0.125))
    progress = Progress(tmp_path, lambda: next(gaps))
    with caplog.at_level(logging.INFO):
        for round_id in (0, 1, 2):
            with progress.on(task(round_id)):
                pass
    assert caplog.messages == [
        "run run-1: the set-up begins",
        "run run-1: round 1",
        "run run-1: round 2, gap 1.250e-01 so far",
    ]


def test_the_view_of_a_party_has_its_run_its_cipher_the_gap_and_where_its_time_went(tmp_path: Path) -> None:
    party = SimpleNamespace(
        handle=lambda _: b"",
        kept=SimpleNamespace(config=CONFIG),
        spent=Stopwatch(encrypt_s=0.25, decrypt_s=0.5),
        last_gap=0.5,
    )
    story, events = RunStory("north", "waiting for a task"), list[Any]()

    def tell(event: Any) -> None:
        events.append(event)
        story.tell(event)

    watched = WatchedParty(cast(Party, party), Place(), Progress(tmp_path), tell)
    for round_id in (1, 2):
        watched.handle(task(round_id))
    assert [event["event"] for event in events] == ["phase", "begins", "worked", "phase", "worked"]
    assert (story.title, story.run, story.cipher, story.gap_target) == ("north", "run-1, hyfdca", "masks", 1e-3)
    assert (story.round, story.gap, story.state) == (2, 0.5, "waiting for the next task")
    assert (story.seconds["encrypt"], story.seconds["decrypt"]) == (0.25, 0.5)
