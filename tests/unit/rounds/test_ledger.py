"""A round's costs: every second is counted once, whatever the parties say of theirs."""

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from fenchel_common.ids import ClientId, RoundId
from fenchel_common.metrics import RoundMetrics
from fenchel_common.setup import Spent
from fenchel_server.rounds.ledger import Kind, RoundLedger, metrics_to_json, outcome_to_json, progress_of
from fenchel_server.rounds.stopping import Progress
from fenchel_server.rounds.transport import Absence, Exchange, Gathered
from fenchel_server.store import RoundRecord
from support.records import Clock, round_record

NORTH, SOUTH = ClientId("north"), ClientId("south")


def gathered(spent: dict[ClientId, Spent]) -> Gathered:
    return Gathered(dict.fromkeys(spent, b""), {}, bytes_up=10, bytes_down=20, seconds=8.0, spent=spent)


def seconds_of(spent: dict[ClientId, Spent]) -> dict[str, float]:
    ledger = RoundLedger(Clock())
    ledger.add_phase("primal", gathered(spent), seconds=8.0)
    return {kind: spent_s for kind, spent_s in ledger.record(RoundId(1), "{}").seconds.items() if spent_s}


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
    seconds = ledger.record(RoundId(1), "{}").seconds
    assert {kind: value for kind, value in seconds.items() if value and kind != "total"} == {
        "decrypt": 1.0,
        "serialise": 0.5,
        "wire": 5.5,
        "wait": 1.0,
    }


def test_each_clients_seconds_add_up_to_the_round() -> None:
    ledger = RoundLedger(Clock(step=20.0))
    spent = {NORTH: Spent(encrypt_s=4.0, compute_s=0.5, peak_memory_bytes=100), SOUTH: Spent(decrypt_s=9.0)}
    exchanges = {NORTH: Exchange(5.0, 1, 2), SOUTH: Exchange(7.0, 3, 4)}
    ledger.add_phase("primal", exchanged(spent, exchanges), seconds=8.0)
    ledger.add_phase("finish", exchanged({NORTH: Spent(peak_memory_bytes=90)}, exchanges), seconds=8.0)
    record = ledger.record(RoundId(1), "{}")
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
        "peak_memory_bytes": 100,
    }
    assert record.clients[SOUTH]["decrypt_s"] == 7.0, "cut to the time in which its task was out"
    assert record.clients[SOUTH]["wait_s"] == 13.0, "a phase that it did not answer is no work of its own"


def test_a_client_that_was_not_asked_in_a_round_waited_for_all_of_it() -> None:
    ledger = RoundLedger(Clock(step=10.0))
    ledger.add_phase("primal", exchanged({NORTH: Spent(encrypt_s=2.0)}, {NORTH: Exchange(3.0, 5, 6)}), seconds=8.0)
    first = ledger.record(RoundId(0), "{}")
    idle = replace(first, round_id=RoundId(1), metrics='{"phases": ["primal"]}', clients={})
    detail = json.loads(outcome_to_json((first, idle), idle, {}))["clients_detail"]
    assert detail["north"]["wait_s"] == 7.0 + 10.0 + 10.0
    assert (detail["north"]["encrypt_s"], detail["north"]["wire_s"], detail["north"]["bytes_up"]) == (2.0, 1.0, 5)
    assert detail["north"]["rss_mib"] == 0.0


def test_the_usual_round_is_the_median_over_rounds_with_the_usual_round_trips() -> None:
    def record(number: int, total_s: float, trips: int) -> RoundRecord:
        phases = json.dumps({"phases": ["phase"] * trips})
        seconds = {"total": total_s, "wire": total_s / 2}
        return replace(round_record(number), metrics=phases, seconds=seconds, clients={})

    rounds = (record(0, 50.0, 9), record(1, 1.0, 3), record(2, 9.0, 2), record(3, 2.0, 3), record(4, 4.0, 3))
    usual = json.loads(outcome_to_json(rounds, record(5, 9.0, 1), {}))["round_seconds"]
    assert (usual["total"], usual["wire"], usual["encrypt"]) == (2.0, 1.0, 0.0)


def test_absences_are_kept_by_client_and_phase() -> None:
    ledger = RoundLedger(Clock())
    absent = {SOUTH: Absence(SOUTH, "late"), NORTH: Absence(NORTH, "gone")}
    ledger.add_phase("primal", Gathered({}, absent, 0, 0, 1.0), seconds=1.0)
    record = ledger.record(RoundId(1), "{}")
    assert [(absence.client, absence.reason) for absence in record.absences] == [(NORTH, "gone"), (SOUTH, "late")]
    assert ledger.knows_absence_of(NORTH)


def test_metrics_that_are_not_finite_still_make_valid_json() -> None:
    text = metrics_to_json(RoundMetrics(round=RoundId(2), primal=math.inf, dual=math.nan, gap=0.5), ["local_dual"])
    held = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert (held["primal"], held["dual"], held["gap"]) == ("inf", "nan", 0.5)


def test_progress_counts_training_and_not_the_set_up() -> None:
    assert progress_of((round_record(0), round_record(1), round_record(2))) == Progress(rounds=2, seconds=3.0)
    assert progress_of(()) == Progress()


def test_an_outcome_adds_up_costs_and_keeps_the_last_certificate() -> None:
    ledger = RoundLedger(Clock())
    records = [
        ledger.record(
            RoundId(round_id), metrics_to_json(RoundMetrics(round=RoundId(round_id), gap=gap), ["local_dual", "primal"])
        )
        for round_id, gap in enumerate([None, 0.5, 0.25, None])
    ]
    outcome = json.loads(outcome_to_json(tuple(records[:3]), records[3], {NORTH: "gone"}))
    assert outcome["rtc_per_round"] == 2
    assert (outcome["rounds"], outcome["certificate"]["round"], outcome["certificate"]["gap"]) == (2, 2, 0.25)
    assert outcome["undelivered"] == {"north": "gone"}
    assert set(outcome["seconds"]) == {"total", *Kind}
