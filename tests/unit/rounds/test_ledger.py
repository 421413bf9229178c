"""A round's costs: every second is counted once, whatever the parties say of theirs."""

import math
from dataclasses import replace
from typing import Any

import pytest

from fenchel_common.ids import ClientId, RoundId
from fenchel_common.metrics import RoundMetrics
from fenchel_common.setup import Spent
from fenchel_server.rounds.ledger import RoundLedger, Traffic, cpu_seconds_of, progress_of, traffic_of
from fenchel_server.rounds.stopping import Progress
from fenchel_server.rounds.transport import Absence, Exchange, Gathered, PortBytes
from support.records import Clock, round_record

NORTH, SOUTH = ClientId("north"), ClientId("south")


def gathered(spent: dict[ClientId, Spent]) -> Gathered:
    return Gathered(dict.fromkeys(spent, b""), {}, bytes_up=10, bytes_down=20, seconds=8.0, spent=spent)


def seconds_of(spent: dict[ClientId, Spent]) -> dict[str, float]:
    ledger = RoundLedger(Clock())
    ledger.add_phase("primal", gathered(spent), seconds=8.0)
    return {kind: spent_s for kind, spent_s in ledger.record(RoundId(1)).seconds.items() if spent_s}


def test_a_phase_is_split_by_the_work_of_its_slowest_party() -> None:
    fast, slow = Spent(0.5, 0.5, 0.5), Spent(encrypt_s=3.0, decrypt_s=2.0, compute_s=1.0)
    assert seconds_of({NORTH: fast, SOUTH: slow}) == {
        "total": 1.0,
        "encrypt": 3.0,
        "decrypt": 2.0,
        "parties": 1.0,
        "wait": 2.0,
    }


def test_without_word_from_the_parties_all_of_a_phase_is_waiting() -> None:
    assert seconds_of({}) == {"total": 1.0, "wait": 8.0}


def test_a_party_cannot_claim_more_time_than_the_phase_took() -> None:
    claimed = seconds_of({NORTH: Spent(encrypt_s=300.0, decrypt_s=100.0)})
    assert claimed == {"total": 1.0, "encrypt": 6.0, "decrypt": 2.0}


@pytest.mark.parametrize("claim", [math.nan, math.inf, -5.0])
def test_a_claim_that_is_no_time_is_ignored(claim: float) -> None:
    assert seconds_of({NORTH: Spent(encrypt_s=claim)}) == {"total": 1.0, "wait": 8.0}
    assert seconds_of({NORTH: Spent(encrypt_s=claim, compute_s=10.0)}) == {"total": 1.0, "parties": 8.0}


def exchanged(spent: dict[ClientId, Spent], exchanges: dict[ClientId, Exchange], **changes: Any) -> Gathered:
    return replace(gathered(spent), exchanges=exchanges, **changes)


def test_a_phase_is_split_by_the_party_that_answered_last_and_its_wire() -> None:
    ledger = RoundLedger(Clock())
    spent = {NORTH: Spent(encrypt_s=4.0), SOUTH: Spent(decrypt_s=1.0, serialise_s=0.5)}
    exchanges = {NORTH: Exchange(5.0, 1, 2), SOUTH: Exchange(7.0, 3, 4)}
    ledger.add_phase("primal", exchanged(spent, exchanges), seconds=8.0)
    seconds = ledger.record(RoundId(1)).seconds
    assert {kind: value for kind, value in seconds.items() if value and kind != "total"} == {
        "decrypt": 1.0,
        "serialise": 0.5,
        "wire": 5.5,
        "wait": 1.0,
    }


def test_each_clients_seconds_add_up_to_the_round() -> None:
    ledger = RoundLedger(Clock(step=20.0))
    spent = {NORTH: Spent(4.0, compute_s=0.5, peak_memory_bytes=100, cpu_s=0.75), SOUTH: Spent(decrypt_s=9.0)}
    exchanges = {NORTH: Exchange(5.0, 1, 2), SOUTH: Exchange(7.0, 3, 4)}
    ledger.add_phase("primal", exchanged(spent, exchanges), seconds=8.0)
    ledger.add_phase("finish", exchanged({NORTH: Spent(peak_memory_bytes=90)}, exchanges), seconds=8.0)
    record = ledger.record(RoundId(1))
    assert record.seconds["total"] == 20.0
    assert record.clients[NORTH] == {
        "encrypt_s": 4.0,
        "decrypt_s": 0.0,
        "serialise_s": 0.0,
        "compute_s": 0.5,
        "wire_s": 0.5 + 5.0,
        "wait_s": 10.0,
        "bytes_up": 2,
        "bytes_down": 4,
        "ciphertext_up": 0,
        "ciphertext_down": 0,
        "cpu_seconds": 0.75,
        "peak_memory_bytes": 100,
    }
    assert record.clients[SOUTH]["decrypt_s"] == 7.0, "cut to the time in which its task was out"
    assert record.clients[SOUTH]["wait_s"] == 13.0, "a phase that it did not answer is no work of its own"


def test_the_rest_of_the_wall_clock_is_on_record_as_other() -> None:
    ledger = RoundLedger(Clock(step=20.0))
    ledger.add_phase("primal", gathered({}), seconds=8.0)
    assert ledger.record(RoundId(1)).seconds["other"] == 12.0


def test_after_the_last_result_the_server_works_and_does_not_wait() -> None:
    ledger = RoundLedger(Clock(step=20.0))
    ledger.add_phase("primal", gathered({NORTH: Spent(compute_s=8.0)}), seconds=11.0)
    seconds = ledger.record(RoundId(1)).seconds
    assert (seconds["parties"], seconds["wait"], seconds["compute"]) == (8.0, 0.0, 3.0)


def test_the_server_has_its_own_cpu_seconds_and_bytes_at_its_port() -> None:
    port = iter((PortBytes(100, 200), PortBytes(130, 260)))
    ledger = RoundLedger(Clock(), cpu=Clock(step=0.5), port=lambda: next(port))
    exchanges = {NORTH: Exchange(5.0, 10, 20, ciphertext_up=4, ciphertext_down=8)}
    ledger.add_phase("primal", exchanged({NORTH: Spent(cpu_s=2.0)}, exchanges), seconds=8.0)
    record = ledger.record(RoundId(1))
    assert traffic_of(record) == Traffic(10, 20, ciphertext_up=4, ciphertext_down=8, port_up=30, port_down=60)
    assert cpu_seconds_of([record]) == {"server": 0.5, "parties": 2.0}


def test_bytes_at_the_port_are_unknown_as_soon_as_those_of_one_round_are() -> None:
    assert Traffic(1, 2, 3, 4, 5, 6) + Traffic(1, 2, 3, 4) == Traffic(2, 4, 6, 8)
    assert Traffic(1, 2, 3, 4, 5, 6) + Traffic(1, 2, 3, 4, 5, 6) == Traffic(2, 4, 6, 8, 10, 12)


def test_a_record_has_the_metrics_of_its_round_and_the_phases_of_its_last_try() -> None:
    ledger = RoundLedger(Clock())
    ledger.add_phase("local_dual", gathered({}), seconds=8.0)
    ledger.begin_try()
    for phase in ("local_dual", "primal"):
        ledger.add_phase(phase, gathered({}), seconds=8.0)
    metrics = RoundMetrics(round=RoundId(1), primal=0.5)
    assert RoundMetrics.from_json(ledger.record(RoundId(1), metrics).metrics) == replace(
        metrics, phases=("local_dual", "primal")
    )


def test_a_set_up_is_on_record_without_metrics() -> None:
    assert RoundLedger(Clock()).record(RoundId(0)).metrics == "{}"


def test_absences_are_kept_by_client_and_phase() -> None:
    ledger = RoundLedger(Clock())
    absent = {SOUTH: Absence(SOUTH, "late"), NORTH: Absence(NORTH, "gone")}
    ledger.add_phase("primal", Gathered({}, absent, 0, 0, 1.0), seconds=1.0)
    record = ledger.record(RoundId(1))
    assert [(absence.client, absence.reason) for absence in record.absences] == [(NORTH, "gone"), (SOUTH, "late")]
    assert ledger.knows_absence_of(NORTH)


def test_progress_counts_training_and_not_the_set_up() -> None:
    assert progress_of((round_record(0), round_record(1), round_record(2))) == Progress(rounds=2, seconds=3.0)
    assert progress_of(()) == Progress()
