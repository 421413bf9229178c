"""The driver in a toy run over an in-process transport: its course, its records, its limits."""

import json

import numpy as np
import pytest

from fenchel_common.errors import InvalidInput, RecordConflict
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.metrics import LastCertificate
from fenchel_server.release import Release
from fenchel_server.rounds.driver import Driver
from fenchel_server.rounds.events import BeginAttempt, CommitRound, CommitSetup, Effect, Event, Gather, RoundReady
from fenchel_server.rounds.ledger import Kind
from fenchel_server.rounds.transport import PhaseId
from fenchel_server.store import Ending, RunStatus
from support.inprocess import InProcessTransport
from support.records import RUN
from support.toydrive import CONVERGED, drive, total_of, toy_store, toy_transport
from support.toyrun import NORTH, PARTIES, WEST, ToyParts, ToyParty, toy_config


def test_a_run_is_driven_to_its_end_and_every_party_gets_the_model() -> None:
    store, transport = toy_store(), toy_transport()
    assert drive(store, transport) == CONVERGED
    record = store.run(RUN)
    assert (record.status, record.reason, record.attempt) == (RunStatus.COMPLETED, "close enough", 1)
    assert (record.key_fingerprint, record.key_bits) == ("ab:cd", 2048)
    assert [committed.round_id for committed in store.rounds(RUN)] == [0, 1, 2, 3]
    assert {getattr(transport.handlers[name], "model", None) for name in PARTIES} == {total_of(store)}
    assert [phase.phase for phase in transport.phases] == [
        *("hello", "layout"),
        *("sync", "add", "apply"),
        *("add", "apply"),
        *("add", "apply"),
        "finish",
    ]
    assert {phase.attempt for phase in transport.phases} == {1}


def test_a_released_model_is_kept_before_the_run_is_on_record_as_ended() -> None:
    store, kept = toy_store(), list[tuple[Release, RunStatus]]()
    release = Release(("f",), np.array([1.5]), certificate=LastCertificate(gap=0.5))
    Driver(
        RUN,
        ToyParts(release=release),
        store=store,
        transport=toy_transport(),
        keep_model=lambda released: kept.append((released, store.run(RUN).status)),
    ).drive()
    assert kept == [(release, RunStatus.RUNNING)]
    assert json.loads(store.run(RUN).outcome or "")["release"] == {"whole": True, "reason": "", "noise": None}


def test_a_model_that_is_not_whole_is_not_kept_and_the_reason_is_on_record() -> None:
    store, kept = toy_store(), list[Release]()
    parts = ToyParts(release=Release(("f",), reason="nobody gave it"))
    Driver(RUN, parts, store=store, transport=toy_transport(), keep_model=kept.append).drive()
    assert kept == []
    outcome = json.loads(store.run(RUN).outcome or "")
    assert outcome["release"] == {"whole": False, "reason": "nobody gave it", "noise": None}


def test_traffic_and_seconds_are_kept_for_each_round_and_add_up() -> None:
    store, transport = toy_store(), toy_transport()
    drive(store, transport)
    outcome = json.loads(store.run(RUN).outcome or "")
    assert (outcome["bytes"]["up"], outcome["bytes"]["down"]) == (transport.bytes_up, transport.bytes_down)
    assert outcome["bytes"]["port_up"] is None, "the parties of this test have no port"
    assert outcome["cpu_seconds"]["server"] > 0
    assert outcome["rounds"] == 3
    for committed in store.rounds(RUN):
        assert committed.bytes_up > 0
        parts = [seconds for kind, seconds in committed.seconds.items() if kind != "total"]
        assert set(committed.seconds) == {"total", *Kind}
        assert committed.seconds["wait"] > 0
        assert committed.seconds["compute"] > 0
        assert sum(parts) == pytest.approx(committed.seconds["total"])


def test_the_driver_persists_before_it_sends() -> None:
    store, transport = toy_store(), toy_transport()
    seen: list[tuple[str, int, RoundId | None]] = []

    def look(phase: PhaseId) -> None:
        seen.append((phase.phase, phase.attempt, store.last_round(RUN)))
        assert store.run(RUN).attempt == phase.attempt
        assert store.run(RUN).status is RunStatus.RUNNING
        assert (store.last_round(RUN) is None) == (phase.round == 0)
        assert phase.round == 0 or store.last_round(RUN) == phase.round - 1

    transport.after_phase = look
    drive(store, transport)
    assert len(seen) == len(transport.phases)


def test_watchers_are_told_of_effects_before_and_events_after() -> None:
    store, told = toy_store(), list[Event | Effect]()
    drive(store, toy_transport(), watch=told.append)
    assert [type(item) for item in told].count(RoundReady) == 3
    assert told.index(BeginAttempt()) < told.index(Gather(RoundId(0), "hello")) < told.index(CommitSetup())
    assert told.index(CommitSetup()) < told.index(CommitRound(RoundId(1)))


def test_watchers_hear_of_a_round_once_it_is_committed() -> None:
    store, committed = toy_store(), list[tuple[RoundId, RoundId | None]]()

    def watch(moment: Event | Effect) -> None:
        if isinstance(moment, RoundReady):
            committed.append((moment.metrics.round, store.last_round(RUN)))

    drive(store, toy_transport(), watch=watch)
    assert committed == [(1, 1), (2, 2), (3, 3)]


def test_a_stop_request_is_seen_at_the_next_phase_boundary() -> None:
    store, transport = toy_store(), toy_transport()

    def stop(phase: PhaseId) -> None:
        if (phase.round, phase.phase) == (2, "add"):
            store.request_stop(RUN, reason="maintenance")

    transport.after_phase = stop
    assert drive(store, transport) == Ending(RunStatus.STOPPED, "maintenance")
    assert transport.phases[-1].phase == "add"
    assert (store.last_round(RUN), store.stop_request(RUN)) == (1, None)


def test_a_stop_request_is_seen_while_waiting_for_clients() -> None:
    store, transport = toy_store(toy_config(wait_s=500_000.0)), toy_transport()
    transport.leave(WEST)
    waits = 0

    class Impatient(InProcessTransport):
        def wait_for(self, clients: frozenset[ClientId], *, timeout_s: float) -> frozenset[ClientId]:
            nonlocal waits
            waits += 1
            assert timeout_s <= 1.0
            if waits == 3:
                store.request_stop(RUN, reason="maintenance")
            return super().wait_for(clients, timeout_s=timeout_s)

    impatient = Impatient({NORTH: ToyParty(NORTH)})
    assert drive(store, impatient) == Ending(RunStatus.STOPPED, "maintenance")
    assert waits == 3


def test_rounds_are_limited_by_the_configuration_whatever_the_algorithm_says() -> None:
    store = toy_store(toy_config(rounds=2))
    ending = drive(store, toy_transport(), parts=ToyParts(last_round=100))
    assert ending.status is RunStatus.EXHAUSTED
    assert ending.reason.startswith("all 2 rounds are done, but the ")
    assert "take a larger lambda" in ending.reason
    rounds = store.rounds(RUN)
    assert rounds[3].ending == ending
    assert [json.loads(one.metrics)["closing"] for one in rounds[1:]] == [False, False, True]
    outcome = store.run(RUN).outcome
    assert outcome is not None
    assert json.loads(outcome)["rounds"] == 2, "the closing round does not count, as it does not for the limit"
    assert json.loads(rounds[3].metrics)["primal"] == json.loads(rounds[2].metrics)["primal"]


def test_seconds_are_limited_by_the_configuration() -> None:
    store = toy_store(toy_config(seconds=30.0))
    ending = drive(store, toy_transport(), parts=ToyParts(last_round=100))
    assert ending.status is RunStatus.EXHAUSTED
    assert ending.reason.startswith("30 seconds of training are over, but ")
    assert len(store.rounds(RUN)) < 20


def test_metrics_that_are_no_numbers_are_recorded_as_divergence() -> None:
    store = toy_store()
    assert drive(store, toy_transport(), parts=ToyParts(poison=float("nan"))).status is RunStatus.DIVERGED
    assert json.loads(store.rounds(RUN)[1].metrics)["primal"] == "nan"
    assert store.run(RUN).status is RunStatus.DIVERGED


def test_an_error_of_the_algorithm_fails_the_run_in_words() -> None:
    parts = ToyParts(restore_error=InvalidInput("label_holders: no party holds labels"))
    assert drive(toy_store(), toy_transport(), parts=parts) == Ending(
        RunStatus.FAILED, "label_holders: no party holds labels"
    )


@pytest.mark.parametrize("status", [RunStatus.COMPLETED, RunStatus.STOPPED])
def test_a_run_that_is_not_open_is_not_driven(status: RunStatus) -> None:
    store, transport = toy_store(), toy_transport()
    store.begin_attempt(RUN)
    store.close_run(RUN, status, reason="over")
    with pytest.raises(RecordConflict, match=f"is {status}"):
        drive(store, transport)
    assert transport.phases == []
    assert store.run(RUN).status is status
