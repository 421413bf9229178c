import json
from pathlib import Path

import pytest

from fenchel_client.askedrows import FILE, REFUSED, AskedRows, ScoringLimits
from fenchel_client.consent import Consent, ScoringConsent
from fenchel_common.errors import InvalidConfig, KeyFileError, Refusal, StateDamaged
from fenchel_common.runconfig import RunConfig

LIMITS = ScoringLimits(fewest=5, most=30)
ROWS = [f"row-{number}" for number in range(100)]


def ask(
    folder: Path, rows: list[str], *, fewest: int = 1, model: str = "run-1", limits: ScoringLimits = LIMITS
) -> None:
    AskedRows(folder).admit(model, rows, fewest=fewest, limits=LIMITS)


def refused(folder: Path, rows: list[str], because: str, *, fewest: int = 1) -> None:
    before = (folder / FILE).read_bytes() if (folder / FILE).exists() else None
    with pytest.raises(Refusal, match=because) as caught:
        ask(folder, rows, fewest=fewest)
    assert caught.value.public_reason == REFUSED
    assert (folder / FILE).exists() == (before is not None)
    assert before is None or (folder / FILE).read_bytes() == before


def test_few_rows_are_refused_by_the_stricter_of_the_two_rules(tmp_path: Path) -> None:
    refused(tmp_path, ROWS[:4], "4 rows are asked for, and this party gives its part of no fewer than 5")
    refused(tmp_path, ROWS[:7], "no fewer than 8", fewest=8)
    ask(tmp_path, ROWS[:5])


def test_a_set_that_differs_in_few_rows_from_an_earlier_one_is_refused_and_the_same_set_is_not(tmp_path: Path) -> None:
    ask(tmp_path, ROWS[:10])
    ask(tmp_path, ROWS[10:20])
    ask(tmp_path, ROWS[9::-1])
    refused(tmp_path, ROWS[:11], "differ in 1 from rows that were asked for before")
    refused(tmp_path, [*ROWS[2:10], *ROWS[20:22]], "differ in 4 ")
    refused(tmp_path, ROWS[11:20], "differ in 1 ")
    ask(tmp_path, [*ROWS[:7], *ROWS[20:22]])


def test_more_rows_of_a_model_than_the_operator_allows_are_refused(tmp_path: Path) -> None:
    ask(tmp_path, ROWS[:20])
    refused(tmp_path, ROWS[10:40], "with these, 40 rows would have been scored by run-1, and this party allows 30")
    ask(tmp_path, ROWS[10:30])
    ask(tmp_path, ROWS[10:40], model="run-2")


def test_the_record_has_no_id_and_is_for_its_owner_alone(tmp_path: Path) -> None:
    ask(tmp_path, ROWS[:10])
    path = tmp_path / FILE
    assert path.stat().st_mode & 0o777 == 0o600
    assert "row-" not in path.read_text()
    assert len(json.loads(path.read_text())["models"]["run-1"][0]) == 10
    path.chmod(0o644)
    with pytest.raises(KeyFileError):
        ask(tmp_path, ROWS[:10])


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"key": "00", "models": {}}', '{"key": 3, "models": {}}'])
def test_a_party_with_a_damaged_record_gives_no_part(tmp_path: Path, text: str) -> None:
    ask(tmp_path, ROWS[:10])
    (tmp_path / FILE).write_text(text)
    with pytest.raises(StateDamaged, match="restore it from a copy"):
        ask(tmp_path, ROWS[:10])


def test_a_process_takes_part_in_scoring_by_its_model_or_in_training_and_in_nothing_else() -> None:
    terms = {"cipher": "masks", "samples": "complete", "overlap": "first"}
    chosen = {"asker": "north", "model": "run-1"}
    scoring = RunConfig.from_mapping({"name": "scores", "algorithm": "scoring", "settings": chosen, **terms})
    training = RunConfig.from_mapping({"name": "model", "cipher": "masks"})
    scores, trains = Consent(scoring=ScoringConsent("run-1", LIMITS)), Consent()
    scores.check(scoring)
    trains.check(training)
    for consent, config in (
        (trains, scoring),
        (scores, training),
        (Consent(scoring=ScoringConsent("run-2", LIMITS)), scoring),
    ):
        with pytest.raises(Refusal, match="scores need `fenchel score` at every party"):
            consent.check(config)


@pytest.mark.parametrize("change", [{"cipher": "paillier"}, {"samples": "labelled"}, {"overlap": "error"}])
def test_a_scoring_run_is_masked_and_of_whole_rows(change: dict[str, str]) -> None:
    terms = {"cipher": "masks", "samples": "complete", "overlap": "first", **change}
    with pytest.raises(InvalidConfig, match=f"change: {next(iter(change))}"):
        RunConfig.from_mapping({"name": "scores", "algorithm": "scoring", **terms})
