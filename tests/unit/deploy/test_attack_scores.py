"""How an attack's guesses are scored and put into the table."""

import numpy as np
import pytest

from fenchel_deploy.attacks import markdown
from fenchel_deploy.attacks.findings import Verdict
from fenchel_deploy.attacks.rows import Estimate, rows_from_differences, rows_from_subspaces
from fenchel_deploy.attacks.scoring import majority_rate, row_score


@pytest.mark.parametrize(("changes", "finds_all"), [(1, True), (4, True), (9, True), (10, False), (20, False)])
def test_rows_are_found_while_fewer_of_them_change_in_a_round_than_there_are_features(
    changes: int, finds_all: bool
) -> None:
    rng = np.random.default_rng(5)
    rows, strangers = rng.standard_normal((24, 10)), rng.standard_normal((24, 10))
    moved, drawn = {}, {}
    for number in range(600):
        chosen = (rng.integers(24) + np.arange(changes)) % 24
        moved[number] = np.rint(rng.standard_normal(changes) @ rows[chosen] * 2.0**32) / 2.0**32
        drawn[number] = sorted(chosen.tolist())
    score = row_score(rows_from_subspaces(moved, drawn), rows, strangers)
    assert score.found == (24 if finds_all else 0)
    single = row_score(rows_from_differences(moved, drawn), rows, strangers)
    assert (single.found == 24) == (changes == 1)


def test_a_score_is_one_for_the_row_itself_and_like_chance_for_anything_else() -> None:
    rng = np.random.default_rng(6)
    rows, strangers = rng.standard_normal((10, 30)), rng.standard_normal((10, 30))
    right = row_score([Estimate(-2.0 * rows[3], 3)], rows, strangers)
    assert right.value == pytest.approx(1.0)
    assert (right.found, right.total) == (1, 10)
    wrong = row_score([Estimate(rng.standard_normal(30), position) for position in range(10)], rows, strangers)
    assert wrong.found == 0
    assert wrong.value == pytest.approx(wrong.chance, abs=0.15)


def test_rows_that_are_found_count_however_far_off_the_other_guesses_are() -> None:
    rng = np.random.default_rng(7)
    rows, strangers = rng.standard_normal((20, 30)), rng.standard_normal((20, 30))
    guesses = [
        Estimate(rows[position] if position < 15 else rng.standard_normal(30), position) for position in range(20)
    ]
    partly = row_score(guesses, rows, strangers)
    assert (partly.found, partly.strangers_found) == (15, 0)
    assert partly.value < 0.9
    assert Verdict.of_score(partly, level="sealed", setting="", measure="cosine").succeeds
    of_strangers = row_score(guesses, strangers, rows)
    assert (of_strangers.found, of_strangers.strangers_found) == (0, 15)
    assert not Verdict.of_score(of_strangers, level="sealed", setting="", measure="cosine").succeeds


def test_guesses_that_are_no_better_than_the_majority_tell_nothing() -> None:
    labels = [1.0] * 19 + [-1.0]
    chance = majority_rate(labels)
    assert chance == 0.95
    assert not Verdict.of_rate(0.95, level="plain", setting="", note="", chance=chance).succeeds
    assert Verdict.of_rate(1.0, level="plain", setting="", note="", chance=chance).succeeds


def test_the_table_puts_levels_side_by_side() -> None:
    one = {"attack": "a", "who": "server", "setting": "h = 1", "measure": "cosine", "claim": "leaks", "note": "n"}
    findings = [
        {**one, "level": "paper", "succeeds": True, "score": 1.0, "unchecked": True},
        {**one, "level": "sealed", "succeeds": False, "score": 0.25, "unchecked": True},
    ]
    assert markdown(findings).splitlines() == [
        "| attack | who | setting | measure | sealed, without checks | plain | paper | sealed |",
        "|---|---|---|---|---|---|---|---|",
        "| a | server | h = 1 | cosine | **succeeds** |  | **succeeds** 1.00: n | fails 0.25: n |",
    ]
