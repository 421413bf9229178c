"""Sentences, and what rows say of them."""

from fenchel_deploy.papers.claims import FAILS, HOLDS, UNTESTED, judged
from fenchel_deploy.papers.definitions import ClaimPlan

ROWS = [
    {"unit": "a1", "setting": "5", "algorithm": "a", "seconds": "1.5", "printed_s": "9"},
    {"unit": "b1", "setting": "5", "algorithm": "b", "seconds": "2", "printed_s": ""},
    {"unit": "a2", "setting": "50", "algorithm": "a", "seconds": "3", "printed_s": ""},
    {"unit": "b2", "setting": "50", "algorithm": "b", "seconds": "2", "printed_s": ""},
    {"unit": "a3", "setting": "500", "algorithm": "a", "seconds": "7", "printed_s": ""},
]
A, B = ({"column": "seconds", "where": {"algorithm": name}} for name in "ab")


def claim(**values: object) -> ClaimPlan:
    return ClaimPlan.model_validate({"says": "It is so", **values})


def test_a_claim_holds_if_every_pair_of_rows_agrees_and_else_the_failing_ones_are_shown() -> None:
    (verdict,) = judged([claim(left=A, right=B, **{"is": "less than"})], ROWS, as_printed=True)
    assert (verdict.word, verdict.units) == (FAILS, ("a2", "b2"))
    assert verdict.why == "not in 1 of 2 comparisons: 50: 3 is not less than 2"
    doubled = claim(left=A, right={**B, "times": 2}, **{"is": "less than"})
    (verdict,) = judged([doubled], ROWS, as_printed=True)
    assert (verdict.word, verdict.units, verdict.why) == (HOLDS, ("a1", "b1", "a2", "b2"), "in 2 of 2 comparisons")


def test_a_claim_can_compare_with_a_number() -> None:
    (verdict,) = judged([claim(left=A, right=6, **{"is": "at most"})], ROWS, as_printed=True)
    assert (verdict.word, verdict.units) == (FAILS, ("a3",))


def test_what_cannot_be_compared_is_said_with_its_reason() -> None:
    printed = claim(left={"column": "printed_s"}, right=A, **{"is": "more than"})
    none = claim(left={**A, "where": {"algorithm": "c"}}, right=B, **{"is": "more than"})
    verdicts = judged([claim(untestable="no images here"), none, printed], ROWS, as_printed=False)
    assert {verdict.word for verdict in verdicts} == {UNTESTED}
    assert [verdict.why.partition(" ")[0] for verdict in verdicts] == ["no", "no", "printed"]
    assert judged([printed], ROWS, as_printed=True)[0].word == HOLDS
    whole = claim(left=A, right=6, whole=True, **{"is": "at most"})
    assert [judged([whole], ROWS, as_printed=size)[0].word for size in (False, True)] == [UNTESTED, FAILS]
