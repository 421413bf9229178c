"""The driver when something fails: clients that leave or restart, a store that cannot commit, a killed server."""

import json
import sqlite3
from dataclasses import dataclass
from pathlib import Path

import pytest

from fenchel_common.errors import InvalidInput, StateDamaged, StoreError
from fenchel_common.ids import ClientId
from fenchel_server.rounds.events import Effect, Event
from fenchel_server.rounds.transport import PhaseId
from fenchel_server.store import Ending, RunStatus, SetupRecord, SqliteStore
from support.inprocess import InProcessTransport
from support.records import RUN, round_record
from support.toydrive import CONVERGED, drive, total_of, toy_store, toy_transport, undisturbed_total
from support.toyrun import NORTH, SOUTH, WEST, ToyAlgorithm, ToyParts, ToyParty, toy_config


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
        lost = [absence.reason for committed in store.rounds(RUN) for absence in committed.absences]
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


def test_a_run_whose_results_contradict_each_other_as_they_come_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def contradicting(_self: ToyAlgorithm, phase: str, client: ClientId, _result: bytes) -> None:
        raise InvalidInput(f"{client} contradicts the others in {phase}")

    monkeypatch.setattr(ToyAlgorithm, "receive", contradicting)
    store = toy_store()
    assert drive(store, toy_transport()) == Ending(RunStatus.FAILED, "north contradicts the others in sync")
    assert len(store.rounds(RUN)) == 1


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
            assert [committed.round_id for committed in store.rounds(RUN)] == [0, 1, 2, 3]
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


def test_a_run_of_which_an_older_server_kept_no_records_is_not_continued() -> None:
    store = toy_store()
    store.begin_attempt(RUN)
    setup = SetupRecord(public_key=b"n", layout=b"[]", key_fingerprint="ab:cd", key_bits=2048)
    store.commit_setup(RUN, setup, round_record(0), b'{"round": 0, "total": 0.0}')
    with pytest.raises(StateDamaged, match="an older Fenchel began this run"):
        drive(store, toy_transport())
