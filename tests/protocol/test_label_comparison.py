"""Parties whose labels of shared samples differ find out before the first round; equal labels cost one round trip."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fenchel.v1 import labels_pb2
from fenchel_client.concessions import Concession
from fenchel_client.consent import Consent
from fenchel_client.party import Party
from fenchel_client.task import Task
from fenchel_common.data.shard import Shard
from fenchel_common.errors import Refusal
from fenchel_common.identity import Kit
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.leakage import Direction, Ledger, Sight, Visibility
from fenchel_common.model import find_model
from fenchel_common.runconfig import RunConfig
from fenchel_common.setup import LABELS, LAYOUT
from fenchel_common.wire.labels import labels_compared_from_bytes
from fenchel_common.wire.setup import phase_result_from_bytes
from fenchel_server.rounds.transport import PhaseId
from fenchel_server.store import Ending, RunStatus
from support.federation import InProcessFederation
from support.records import RUN
from support.tables import named_shards, small_dataset

DATASET = small_dataset(90, 4)
LEVELS = ("plain", "paper", "sealed")
ALGORITHMS: dict[str, dict[str, object]] = {
    "paper steps": {"algorithm": "hyfdca", "settings": {"lambda": 0.1, "local": "paper"}},
    "theory steps": {"algorithm": "hyfdca", "settings": {"lambda": 0.1, "local": "theory"}},
    "corrective steps": {"algorithm": "hyfdca", "settings": {"lambda": 0.1, "local": "corrective"}},
    "fedavg": {"algorithm": "fedavg", "settings": {"lambda": 0.1}},
}


def federation(
    directory: Path, shards: Mapping[str, Shard], *, algorithm: str = "corrective steps", **changes: Any
) -> InProcessFederation:
    values: dict[str, object] = {
        "name": "test",
        "key": {"bits": 2048},
        "alignment": "hmac",
        "stop": {"rounds": 2, "gap": None},
        "acknowledge_row_leak": changes.get("privacy") == "paper",
        "benchmark": changes.get("privacy") == "plain",
    }
    config = RunConfig.from_mapping(values | ALGORITHMS[algorithm] | changes)
    return InProcessFederation(directory, shards, config, release_model_to_server=False)


def with_wrong_labels(shards: Mapping[str, Shard], party: str, rows: list[int]) -> dict[str, Shard]:
    labels = shards[party].y
    assert labels is not None
    wrong = labels.copy()
    wrong[rows] *= -1.0
    return {**shards, party: replace(shards[party], y=wrong)}


def phases(run: InProcessFederation) -> list[tuple[int, str]]:
    return [(phase.round, phase.phase) for phase in run.transport.phases]


def errors_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_run_whose_labels_differ_ends_before_its_first_round(
    tmp_path: Path, algorithm: str, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    shards = with_wrong_labels(named_shards(DATASET, grid=(1, 2)), "p2", [4, 5, 80])
    run = federation(tmp_path, shards, algorithm=algorithm, privacy=level)
    ending = run.drive()
    assert ending == Ending(
        RunStatus.FAILED,
        "labels of shared samples differ between parties; the logs of p1, p2 say how many do; the parties must correct "
        "them and start the run anew",
    )
    assert phases(run)[-2:] == [(0, LAYOUT), (0, LABELS)]
    assert [name for _, name in phases(run)].count(LABELS) == 1, "the set-up is not tried again"
    own = errors_of(caplog)
    assert len(own) == 2
    assert all(
        "3 of the 90 labels of samples that other parties hold too differ from another party's" in it for it in own
    )
    _assert_that_training_is_refused(run)


def _assert_that_training_is_refused(run: InProcessFederation) -> None:
    for party in run.parties.values():
        with pytest.raises(Refusal) as caught:
            party.handle(Task(RUN, RoundId(1), "local_dual", b""))
        assert caught.value.public_reason == "it does not have the key of this run"


def test_only_the_holders_of_the_samples_hear_of_it_and_the_server_gets_no_number(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shards = with_wrong_labels(named_shards(DATASET, grid=(2, 2)), "p4", [0])
    run = federation(tmp_path, shards)
    assert "the logs of p3, p4 say" in run.drive().reason
    assert all("1 of the 45 labels" in text for text in errors_of(caplog))
    record = run.store.run(RUN)
    seen = Ledger.from_json(record.seen)
    answer = Sight("LabelsCompared.differ", Visibility.AGGREGATE, Visibility.AGGREGATE)
    for party in run.parties:
        assert seen.tally(party, Direction.UP)[answer] == 1
        assert Visibility.INDIVIDUAL not in {sight.visibility for sight in seen.tally(party, Direction.UP)}


@pytest.mark.parametrize("algorithm", ["paper steps", "corrective steps", "fedavg"])
def test_equal_labels_take_one_round_trip_and_ciphertext_and_the_run_goes_on(tmp_path: Path, algorithm: str) -> None:
    run = federation(tmp_path, named_shards(DATASET, grid=(2, 2)), algorithm=algorithm)
    assert run.drive().status is RunStatus.COMPLETED
    assert [name for round_id, name in phases(run) if round_id == 0][-2:] == [LAYOUT, LABELS]
    seen = Ledger.from_json(run.store.rounds(RUN)[0].seen)
    marks = Sight("LayoutResult.marks", Visibility.CIPHERTEXT, Visibility.INDIVIDUAL)
    sums = Sight("LabelSums.sums", Visibility.CIPHERTEXT, Visibility.INDIVIDUAL)
    for party in run.parties:
        up, down = (seen.tally(party, direction) for direction in (Direction.UP, Direction.DOWN))
        assert up[marks] == down[sums] == 2 * 30, "45 samples take two blocks"


@pytest.mark.parametrize(
    ("grid", "unlabelled"), [((2, 1), None), ((1, 2), "p2")], ids=["whole rows", "one label holder"]
)
def test_where_no_sample_has_two_label_holders_there_is_nothing_to_compare(
    tmp_path: Path, grid: tuple[int, int], unlabelled: str | None
) -> None:
    shards = named_shards(DATASET, grid=grid)
    if unlabelled is not None:
        shards[unlabelled] = replace(shards[unlabelled], y=None)
    run = federation(tmp_path, shards)
    assert run.drive().status is RunStatus.COMPLETED
    assert (0, LABELS) not in phases(run)


def test_labels_are_compared_where_parties_overlap_and_one_has_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Three parties with the same rows; p1 and p3 also have the same columns, of which p1 gives the values."""
    shards = named_shards(DATASET, grid=(1, 2))
    shards["p2"] = replace(shards["p2"], y=None)
    shards["p3"] = shards["p1"]
    equal = federation(tmp_path / "equal", shards, overlap="first")
    assert equal.drive().status is RunStatus.COMPLETED
    differing = federation(tmp_path / "differing", with_wrong_labels(shards, "p3", [1, 2]), overlap="first")
    assert "the logs of p1, p3 say" in differing.drive().reason
    assert all("2 of the 90 labels" in text for text in errors_of(caplog))


def test_a_party_that_restarts_before_the_comparison_has_the_set_up_begin_anew(tmp_path: Path) -> None:
    shards = named_shards(DATASET, grid=(1, 2))
    run = federation(tmp_path, shards)
    kit = Kit.load(next((tmp_path / "kits").glob("**/p2")))
    consent = Consent(kit.roster.fingerprint(), accepts=frozenset(Concession))

    def restart(phase: PhaseId) -> None:
        if phase.phase == LAYOUT and phase.attempt == 1:
            anew = Party(kit, shards["p2"], state=tmp_path / "p2", consent=consent)
            run.transport.restart(ClientId("p2"), anew.handle)

    run.transport.after_phase = restart
    assert run.drive().status is RunStatus.COMPLETED
    assert [phase.attempt for phase in run.transport.phases if phase.phase == LABELS] == [1, 2]


def test_a_server_that_asks_again_gets_no_second_comparison_and_no_second_set_of_marks(tmp_path: Path) -> None:
    run = federation(tmp_path, named_shards(DATASET, grid=(1, 2)))
    given: dict[str, Task] = {}
    party = run.parties[ClientId("p2")]

    def listen(task: Task) -> bytes:
        given[task.phase] = task
        return party.handle(task)

    def ask_again(phase: PhaseId) -> None:
        if phase.phase != LABELS:
            return
        asked = given[LABELS]
        compared = phase_result_from_bytes(party.handle(asked))[0]
        assert not labels_compared_from_bytes(compared), "the same sums get the same answer"
        sums = labels_pb2.LabelSums.FromString(asked.body)
        sums.sums.vector.encrypted.ciphertexts = sums.sums.vector.encrypted.ciphertexts[::-1]
        for task in (given[LAYOUT], replace(asked, body=sums.SerializeToString())):
            with pytest.raises(Refusal) as caught:
                party.handle(task)
            reasons.append(caught.value.public_reason)

    reasons: list[str] = []
    run.transport.handlers[ClientId("p2")] = listen
    run.transport.after_phase = ask_again
    assert run.drive().status is RunStatus.COMPLETED
    assert reasons == [
        "it has answered to its layout in this set-up already",
        "it has compared its labels in this set-up already",
    ]


def test_labels_compared_in_clear_and_encrypted_give_the_same_model(tmp_path: Path) -> None:
    models = []
    for level in LEVELS:
        run = federation(tmp_path / level, named_shards(DATASET, grid=(1, 2)), privacy=level)
        assert run.drive().status is RunStatus.COMPLETED
        models.append(find_model(tmp_path / level / "p1").weights)
    assert np.abs(models[0]).max() > 0
    assert all((model == models[0]).all() for model in models)
