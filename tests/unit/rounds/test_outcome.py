"""What a run amounts to: its costs added up, its last certificate, and the record of both."""

import json
import math
from dataclasses import replace

from fenchel_common.ids import ClientId, RoundId
from fenchel_common.metrics import LastCertificate, RoundMetrics
from fenchel_common.release import ReleaseNoise
from fenchel_common.setup import Spent
from fenchel_server.release import ReleaseSummary
from fenchel_server.results import result_of
from fenchel_server.rounds.ledger import Kind, RoundLedger, Traffic
from fenchel_server.rounds.outcome import RunOutcome, certificate_of, outcome_of
from fenchel_server.rounds.transport import Exchange, Gathered
from fenchel_server.store import RoundRecord, RunRecord, RunStatus
from support.records import RUN, Clock, round_record
from support.toyrun import toy_config

NORTH, SOUTH = ClientId("north"), ClientId("south")

NOISE = ReleaseNoise(epsilon=1.0, delta=1e-6, row_bound=1.0, gap=1e-3, sensitivity=0.25, sigma=0.5)

OUTCOME_JSON = (
    '{"rounds": 3, "rtc_per_round": 1,'
    ' "certificate": {"round": 2, "primal": "inf", "dual": "nan", "gap": "inf", "accuracy": 0.3333333333333333,'
    ' "rmse": null, "r2": null, "scores": null},'
    ' "seconds": {"total": 50.0, "encrypt": 0.0, "decrypt": 5.0, "serialise": 0.0, "parties": 0.0, "wire": 30.0,'
    ' "wait": 5.0, "compute": 0.0, "clients": 0.0, "store": 0.0, "other": 10.0},'
    ' "round_seconds": {"total": 10.0, "encrypt": 0.0, "decrypt": 1.0, "serialise": 0.0, "parties": 0.0, "wire": 6.0,'
    ' "wait": 1.0, "compute": 0.0, "clients": 0.0, "store": 0.0, "other": 2.0},'
    ' "cpu_seconds": {"server": 5.0, "parties": 10.0},'
    ' "bytes": {"up": 50, "down": 100, "ciphertext_up": 5, "ciphertext_down": 0, "port_up": null, "port_down": null},'
    ' "clients_detail": {"north": {"encrypt_s": 20.0, "decrypt_s": 0.0, "serialise_s": 0.0, "compute_s": 2.5,'
    ' "wire_s": 2.5, "wait_s": 25.0, "bytes_up": 5, "bytes_down": 10, "rss_mib": 1.0,'
    ' "ciphertext_up": 5, "ciphertext_down": 0, "cpu_seconds": 10.0},'
    ' "south": {"encrypt_s": 0.0, "decrypt_s": 5.0, "serialise_s": 0.0, "compute_s": 0.0, "wire_s": 30.0,'
    ' "wait_s": 15.0, "bytes_up": 15, "bytes_down": 20, "rss_mib": 0.0, "ciphertext_up": 0, "ciphertext_down": 0,'
    ' "cpu_seconds": 0.0}},'
    ' "undelivered": {"south": "gone"},'
    ' "release": {"whole": false, "reason": "why", "noise": {"epsilon": 1.0, "delta": 1e-06, "row_bound": 1.0,'
    ' "gap": 0.001, "sensitivity": 0.25, "sigma": 0.5}}, "path": []}'
)


def recorded(round_id: int, metrics: RoundMetrics | None = None) -> RoundRecord:
    """A round of ten seconds with one phase, which south answers last."""
    ledger = RoundLedger(Clock(step=10.0), cpu=Clock())
    spent = {NORTH: Spent(4.0, compute_s=0.5, peak_memory_bytes=2**20, cpu_s=2.0), SOUTH: Spent(decrypt_s=1.0)}
    exchanges = {NORTH: Exchange(5.0, 1, 2, ciphertext_up=1), SOUTH: Exchange(7.0, 3, 4)}
    answered = Gathered(dict.fromkeys(spent, b""), {}, 10, 20, seconds=8.0, spent=spent, exchanges=exchanges)
    ledger.add_phase("primal", answered, seconds=8.0)
    return ledger.record(RoundId(round_id), metrics)


def three_rounds() -> tuple[RoundRecord, ...]:
    """The second of them, which diverged, is the last that measured its model."""
    metrics = [
        RoundMetrics(RoundId(1), primal=0.75, dual=0.1, gap=0.65, gap_error=1e-12, accuracy=0.5),
        RoundMetrics(RoundId(2), primal=math.inf, dual=math.nan, gap=math.inf, accuracy=1 / 3),
        RoundMetrics(RoundId(3)),
    ]
    return (recorded(0), *(recorded(measured.round, measured) for measured in metrics))


def whole_outcome() -> RunOutcome:
    release = ReleaseSummary(whole=False, reason="why", noise=NOISE)
    return outcome_of(three_rounds(), recorded(4), {SOUTH: "gone"}, release=release)


def test_an_outcome_is_written_as_the_records_on_disk_have_it() -> None:
    assert whole_outcome().to_json() == OUTCOME_JSON


def test_an_outcome_is_read_back_as_it_was_written() -> None:
    read = RunOutcome.from_json(OUTCOME_JSON)
    assert replace(read, certificate=LastCertificate()) == replace(whole_outcome(), certificate=LastCertificate())
    assert read.certificate.gap == math.inf
    assert read.to_json() == OUTCOME_JSON


def test_an_outcome_of_the_first_versions_is_read() -> None:
    content = json.loads(OUTCOME_JSON)
    for name in ("round_seconds", "cpu_seconds", "clients_detail", "release"):
        del content[name]
    content["bytes"] = {"up": 50, "down": 100}
    read = RunOutcome.from_mapping(content)
    assert (read.cpu_seconds, read.bytes) == ({}, Traffic(50, 100))
    assert (read.round_seconds, read.clients_detail, read.release) == ({}, {}, None)


def test_an_outcome_before_any_round_has_the_costs_of_the_set_up_and_no_certificate() -> None:
    outcome = outcome_of((), recorded(0), {})
    assert (outcome.rounds, outcome.rtc_per_round, outcome.round_seconds) == (0, None, {})
    assert outcome.certificate == LastCertificate()
    assert outcome.seconds["total"] == 10.0
    assert set(outcome.seconds) == {"total", *Kind}


def test_parties_and_outcome_get_the_same_last_certificate() -> None:
    committed = (recorded(0), *(recorded(number, RoundMetrics(RoundId(number), primal=0.5)) for number in (1, 2)))
    assert certificate_of(committed) == outcome_of(committed, recorded(3), {}).certificate
    assert certificate_of(committed).round == 2
    assert certificate_of(()) == LastCertificate()


def test_a_client_that_was_not_asked_in_a_round_waited_for_all_of_it() -> None:
    first = recorded(0)
    idle = replace(recorded(1, RoundMetrics(RoundId(1))), clients={})
    north = outcome_of((first, idle), idle, {}).clients_detail[NORTH]
    assert north.wait_s == 5.0 + 10.0 + 10.0
    assert (north.encrypt_s, north.wire_s, north.bytes_up, north.rss_mib) == (4.0, 0.5, 1, 1.0)


def test_the_usual_round_is_the_median_over_rounds_with_the_usual_round_trips() -> None:
    def record(number: int, total_s: float, trips: int) -> RoundRecord:
        metrics = RoundMetrics(RoundId(number), phases=("phase",) * trips)
        seconds = {"total": total_s, "wire": total_s / 2}
        return replace(round_record(number), metrics=metrics.to_json(), seconds=seconds, clients={})

    rounds = (record(0, 50.0, 9), record(1, 1.0, 3), record(2, 9.0, 2), record(3, 2.0, 3), record(4, 4.0, 3))
    outcome = outcome_of(rounds, record(5, 9.0, 1), {})
    usual = outcome.round_seconds
    assert outcome.rtc_per_round == 3
    assert (usual["total"], usual["wire"], usual["encrypt"]) == (2.0, 1.0, 0.0)


def test_a_result_has_the_certificate_beside_the_rest_of_the_outcome() -> None:
    record = RunRecord(RUN, "toy", toy_config(), RunStatus.DIVERGED, "why", 1.0, 2.0, outcome=OUTCOME_JSON)
    result = result_of(record, three_rounds(), parties=2)
    content = json.loads(OUTCOME_JSON)
    certificate = content.pop("certificate")
    assert {name: result[name] for name in content} == content
    assert [result[name] for name in ("primal", "dual", "gap", "accuracy")] == ["inf", "nan", "inf", 1 / 3]
    assert list(result)[4:11] == ["primal", "dual", "gap", "accuracy", "rmse", "r2", "scores"] == list(certificate)[1:]
    assert list(result)[-len(content) - 2 :] == [*content, "config", "history"]


def test_a_result_has_the_configuration_and_the_rounds() -> None:
    record = RunRecord(RUN, "toy", toy_config(), RunStatus.COMPLETED, "why", 1.0, 2.0, outcome=OUTCOME_JSON)
    result = json.loads(json.dumps(result_of(record, three_rounds(), parties=2)))
    assert result["config"] == json.loads(toy_config())
    assert [committed["round"] for committed in result["history"]] == [0, 1, 2, 3]
    assert result["history"][1]["metrics"]["gap"] == 0.65
    assert result["history"][1]["seconds"]["total"] == 10.0


def test_a_run_without_an_outcome_has_a_result_without_figures() -> None:
    record = RunRecord(RUN, "toy", toy_config(), RunStatus.FAILED, "why", 1.0, 2.0)
    result = result_of(record, (), parties=2)
    assert [result[name] for name in ("primal", "dual", "gap", "accuracy")] == [None] * 4
    assert "rounds" not in result
