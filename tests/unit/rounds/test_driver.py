"""The driver: a toy run over an in-process transport, with a clock that moves a second at each look."""

import json
import sqlite3
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from fenchel_common.errors import InvalidInput, RecordConflict, StoreError
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.metrics import LastCertificate
from fenchel_server.release import Release
from fenchel_server.rounds.driver import Driver, Watcher
from fenchel_server.rounds.events import CommitRound, CommitSetup, Effect, Event, Gather, OpenAttempt, RoundReady
from fenchel_server.rounds.ledger import Kind
from fenchel_server.rounds.transport import PhaseId
from fenchel_server.store import Ending, MemoryStore, RunStatus, SqliteStore, Store
from support.inprocess import InProcessTransport
from support.records import RUN, Clock
from support.toyrun import NORTH, PARTIES, SOUTH, WEST, ToyParts, ToyParty, toy_config

CONVERGED = Ending(RunStatus.COMPLETED, "close enough")


def toy_transport() -> InProcessTransport:
    return InProcessTransport({name: ToyParty(name) for name in PARTIES})


def toy_store(config: str | None = None) -> MemoryStore:
    store = MemoryStore()
    store.create_run(RUN, name="toy", config=config or toy_config())
    return store


def drive(
    store: Store, transport: InProcessTransport, *, parts: ToyParts | None = None, watch: Watcher = lambda _: None
) -> Ending:
    return Driver(RUN, parts or ToyParts(), store=store, transport=transport, clock=Clock(), watch=watch).drive()


def total_of(store: Store) -> float:
    snapshot = store.snapshot(RUN)
    assert snapshot is not None
    return float(json.loads(snapshot.state)["total"])


def undisturbed_total() -> float:
    store = toy_store()
    assert drive(store, toy_transport()) == CONVERGED
    return total_of(store)


def test_a_run_is_driven_to_its_end_and_every_party_gets_the_model() -> None:
    store, transport = toy_store(), toy_transport()
    assert drive(store, transport) == CONVERGED
    record = store.run(RUN)
    assert (record.status, record.reason, record.attempt) == (RunStatus.COMPLETED, "close enough", 1)
    assert (record.key_fingerprint, record.key_bits) == ("ab:cd", 2048)
    assert [held.round_id for held in store.rounds(RUN)] == [0, 1, 2, 3]
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
        keep_model=lambda held: kept.append((held, store.run(RUN).status)),
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
    assert outcome["bytes"] == {"up": transport.bytes_up, "down": transport.bytes_down}
    assert outcome["rounds"] == 3
    for held in store.rounds(RUN):
        assert held.bytes_up > 0
        parts = [seconds for kind, seconds in held.seconds.items() if kind != "total"]
        assert set(held.seconds) == {"total", *Kind}
        assert held.seconds["wait"] > 0
        assert held.seconds["compute"] > 0
        assert sum(parts) <= held.seconds["total"]


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
    assert told.index(OpenAttempt()) < told.index(Gather(RoundId(0), "hello")) < told.index(CommitSetup())
    assert told.index(CommitSetup()) < told.index(CommitRound(RoundId(1)))


def test_a_client_that_never_comes_back_is_left_out_with_its_reason_on_record() -> None:
    store, transport = toy_store(), toy_transport()
    transport.after_phase = lambda phase: transport.leave(WEST) if (phase.round, phase.phase) == (1, "add") else None
    assert drive(store, transport).status is RunStatus.COMPLETED
    first, second = store.rounds(RUN)[1:3]
    assert [(absence.client, absence.phase) for absence in first.absences] == [(WEST, "apply")]
    assert first.absences[0].reason == "no result within 5 s (not connected)"
    assert [(absence.client, absence.phase, absence.reason) for absence in second.absences] == [
        (WEST, "round", "not attached")
    ]
    assert set(json.loads(store.run(RUN).outcome or "")["undelivered"]) == {WEST}


def test_a_restarted_client_is_synced_and_the_run_goes_on() -> None:
    store, transport = toy_store(), toy_transport()

    def restart(phase: PhaseId) -> None:
        if (phase.round, phase.phase) == (1, "apply"):
            transport.restart(WEST, ToyParty(WEST))

    transport.after_phase = restart
    drive(store, transport)
    assert [phase.phase for phase in transport.phases if phase.round == 2] == ["sync", "add", "apply"]
    assert total_of(store) == undisturbed_total()


def test_a_client_may_restart_after_any_phase() -> None:
    undisturbed = toy_transport()
    drive(toy_store(), undisturbed)
    for point in undisturbed.phases[:-1]:
        store, transport = toy_store(), toy_transport()

        def restart(phase: PhaseId, point: PhaseId = point, transport: InProcessTransport = transport) -> None:
            if phase == point:
                transport.restart(WEST, ToyParty(WEST))

        transport.after_phase = restart
        assert drive(store, transport) == CONVERGED, f"restarted after {point}"
        lost = [absence.reason for held in store.rounds(RUN) for absence in held.absences]
        assert set(lost) <= {"refused: the total is lost"}
        assert len(lost) <= 1


def test_a_round_below_the_quorum_is_repeated_under_a_new_attempt_with_the_same_result() -> None:
    store, transport = toy_store(), toy_transport()
    transport.absent = lambda phase, client: (
        "asleep" if (phase.round, phase.phase, phase.attempt) == (2, "apply", 1) and client != NORTH else None
    )
    assert drive(store, transport) == CONVERGED
    assert [(phase.phase, phase.attempt) for phase in transport.phases if phase.round == 2] == [
        ("add", 1),
        ("apply", 1),
        ("sync", 2),
        ("add", 2),
        ("apply", 2),
    ]
    assert total_of(store) == undisturbed_total()
    assert [absence.client for absence in store.rounds(RUN)[2].absences] == [SOUTH, WEST]


def test_a_run_that_lacks_clients_is_paused_and_can_be_resumed() -> None:
    store, transport = toy_store(), toy_transport()

    def leave(phase: PhaseId) -> None:
        if (phase.round, phase.phase) == (2, "add"):
            transport.leave(SOUTH)
            transport.leave(WEST)

    transport.after_phase = leave
    ending = drive(store, transport)
    assert ending == Ending(RunStatus.STOPPED, "paused: waiting for south (not attached), west (not attached)")
    assert store.last_round(RUN) == 1
    transport.after_phase = lambda _: None
    for name in (SOUTH, WEST):
        transport.come_back(name)
    store.requeue(RUN)
    assert drive(store, transport) == CONVERGED
    assert total_of(store) == undisturbed_total()


def test_a_result_that_is_rejected_costs_its_client_the_round() -> None:
    store, transport = toy_store(), toy_transport()
    honest = transport.handlers[WEST]
    transport.handlers[WEST] = lambda task: b"null" if (task.round, task.phase) == (2, "add") else honest(task)
    assert drive(store, transport) == CONVERGED
    absences = [(absence.client, absence.phase, absence.reason) for absence in store.rounds(RUN)[2].absences]
    assert absences == [(WEST, "add", "rejected: not a number")]
    assert store.rounds(RUN)[3].absences == ()


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
    assert drive(store, toy_transport(), parts=ToyParts(last_round=100)) == Ending(
        RunStatus.COMPLETED, "all 2 rounds are done"
    )
    held = store.rounds(RUN)
    assert held[3].ending == Ending(RunStatus.COMPLETED, "all 2 rounds are done")
    assert json.loads(held[3].metrics)["primal"] == json.loads(held[2].metrics)["primal"]


def test_seconds_are_limited_by_the_configuration() -> None:
    store = toy_store(toy_config(seconds=30.0))
    ending = drive(store, toy_transport(), parts=ToyParts(last_round=100))
    assert ending == Ending(RunStatus.COMPLETED, "30 seconds of training are over")
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


def test_a_bug_fails_the_run_without_details_and_is_raised() -> None:
    store = toy_store()
    with pytest.raises(KeyError):
        drive(store, toy_transport(), parts=ToyParts(finish_error=KeyError("secret")))
    record = store.run(RUN)
    assert record.status is RunStatus.FAILED
    assert "KeyError" in record.reason
    assert "secret" not in record.reason
    store.requeue(RUN)
    assert drive(store, toy_transport()) == CONVERGED


def test_a_store_that_cannot_commit_stops_the_driver_and_the_run_is_as_last_committed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise StoreError("the disk is full")

    store, transport = toy_store(), toy_transport()
    monkeypatch.setattr(store, "commit_round", refuse)
    with pytest.raises(StoreError, match="full"):
        drive(store, transport)
    assert (store.run(RUN).status, store.last_round(RUN)) == (RunStatus.RUNNING, 0)
    assert transport.phases[-1].round == 1


@pytest.mark.parametrize("status", [RunStatus.COMPLETED, RunStatus.STOPPED])
def test_a_run_that_is_not_open_is_not_driven(status: RunStatus) -> None:
    store, transport = toy_store(), toy_transport()
    store.open_attempt(RUN)
    store.close_run(RUN, status, reason="over")
    with pytest.raises(RecordConflict, match=f"is {status}"):
        drive(store, transport)
    assert transport.phases == []
    assert store.run(RUN).status is status


class Killed(BaseException):
    """Stands for a server that ends at once while its clients live on."""


@dataclass
class KillAt:
    """A watcher that kills the server at one point, once."""

    point: int
    told: int = 0

    def __call__(self, _: Event | Effect) -> None:
        self.told += 1
        if self.told == self.point + 1:
            raise Killed


def test_a_server_killed_at_any_point_resumes_with_the_same_result_while_its_clients_live_on(tmp_path: Path) -> None:
    expected, told = undisturbed_total(), list[Event | Effect]()
    drive(toy_store(), toy_transport(), watch=told.append)
    for point in range(len(told)):
        transport, state = toy_transport(), tmp_path / str(point)
        with SqliteStore.serve(state) as store:
            store.create_run(RUN, name="toy", config=toy_config())
            with pytest.raises(Killed):
                drive(store, transport, watch=KillAt(point))
        with SqliteStore.serve(state) as store:
            assert drive(store, transport) == CONVERGED, f"killed at {told[point]}"
            assert total_of(store) == expected, f"killed at {told[point]}"
            assert [held.round_id for held in store.rounds(RUN)] == [0, 1, 2, 3]
        tasks = [(phase.round, phase.phase, phase.attempt) for phase in transport.phases]
        assert len(set(tasks)) == len(tasks), "a task id is never used twice"


def test_foreign_errors_of_the_database_reach_the_caller_as_store_errors(tmp_path: Path) -> None:
    with SqliteStore.serve(tmp_path) as store:
        store.create_run(RUN, name="toy", config=toy_config())
        connection = sqlite3.connect(tmp_path / "state.db")
        connection.execute("DROP TABLE rounds")
        connection.commit()
        connection.close()
        with pytest.raises(StoreError, match="no such table"):
            drive(store, toy_transport())
