"""Metrics as JSON, and the one rule for a run's last certificate."""

import json
import math

import pytest

from fenchel_common.errors import StateDamaged
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.metrics import LastCertificate, RoundMetrics, last_certificate

NORTH, SOUTH = ClientId("north"), ClientId("south")

WHOLE = RoundMetrics(
    round=RoundId(2),
    primal=0.1,
    dual=math.nan,
    gap=math.inf,
    gap_error=1e-12,
    accuracy=1 / 3,
    samples_updated=7,
    participants=(NORTH,),
    absences={SOUTH: "late"},
    stale=(SOUTH,),
    note="a note",
    figures={"rho": 0.1, "delta": -math.inf},
    phases=("local_dual", "primal"),
)
WHOLE_JSON = (
    '{"round": 2, "primal": 0.1, "dual": "nan", "gap": "inf", "gap_error": 1e-12, "accuracy": 0.3333333333333333,'
    ' "samples_updated": 7, "participants": ["north"], "absences": {"south": "late"}, "stale": ["south"],'
    ' "note": "a note", "figures": {"rho": 0.1, "delta": "-inf"}, "phases": ["local_dual", "primal"], "closing": false,'
    ' "scores": null, "leg": 0}'
)


def test_metrics_are_written_as_the_records_on_disk_have_them() -> None:
    assert WHOLE.to_json() == WHOLE_JSON


def test_metrics_that_are_not_finite_still_make_valid_json() -> None:
    content = json.loads(WHOLE.to_json(), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert (content["dual"], content["gap"]) == ("nan", "inf")


def test_metrics_are_read_back_as_they_were_written() -> None:
    read = RoundMetrics.from_json(WHOLE_JSON)
    assert read.dual is not None
    assert math.isnan(read.dual)
    assert (read.gap, read.figures["delta"]) == (math.inf, -math.inf)
    assert (read.participants, read.phases, read.absences) == ((NORTH,), ("local_dual", "primal"), {SOUTH: "late"})
    assert read.to_json() == WHOLE_JSON


def test_metrics_of_an_older_version_are_read_without_the_keys_that_are_gone() -> None:
    assert RoundMetrics.from_json('{"round": 4, "gap": 0.5, "dual_after": null}') == RoundMetrics(RoundId(4), gap=0.5)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{}", "round: Field required"),
        ("[3]", "should be a dictionary"),
        ('{"round": 3', "it is not JSON"),
        ('{"round": 3, "gap": "small"}', "gap: "),
    ],
)
def test_a_record_that_is_not_of_metrics_is_damaged_and_none_of_its_values_is_told(text: str, fault: str) -> None:
    with pytest.raises(StateDamaged, match=fault) as caught:
        RoundMetrics.from_json(text)
    assert "small" not in str(caught.value)


def test_the_last_certificate_is_of_the_last_round_that_measured_its_model() -> None:
    first = RoundMetrics(RoundId(1), primal=0.9, dual=0.1, gap=0.8, accuracy=0.5)
    second = RoundMetrics(RoundId(2), primal=0.7, dual=0.4, gap=0.3, accuracy=0.75, samples_updated=9)
    assert last_certificate([first, second, RoundMetrics(RoundId(3))]) == LastCertificate(
        RoundId(2), primal=0.7, dual=0.4, gap=0.3, accuracy=0.75
    )


def test_the_last_certificate_of_an_algorithm_without_one_is_its_last_objective() -> None:
    rounds = [RoundMetrics(RoundId(1), primal=0.9, accuracy=0.5), RoundMetrics(RoundId(2))]
    assert last_certificate(rounds) == LastCertificate(RoundId(1), primal=0.9, accuracy=0.5)


def test_figures_without_an_objective_are_no_certificate() -> None:
    """The gap is P(w) − D(α), so that a gap without P(w) proves nothing."""
    rounds = [RoundMetrics(RoundId(1), primal=0.9, gap=0.8), RoundMetrics(RoundId(2), gap=0.1, accuracy=1.0)]
    assert last_certificate(rounds).round == 1


def test_a_run_that_measured_no_model_has_no_certificate() -> None:
    assert last_certificate([RoundMetrics(RoundId(1))]) == last_certificate([]) == LastCertificate()
