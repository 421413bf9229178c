"""Names of features that perhaps mean the same."""

import time

import pytest

from fenchel_client.closenames import MOST_PAIRS, are_close, close_pairs


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("chol", "cholesterol"),
        ("BMI", "bmi"),
        ("systolic_bp", "bp systolic"),
        ("größe", "grosse"),
        ("Größe", "groesse"),
        ("heart_rate", "heartrate"),
        ("hemoglobin", "haemoglobin"),
        ("lab2 glucose", "glucose_lab2"),
    ],
)
def test_the_same_measurement_written_differently_is_close(one: str, other: str) -> None:
    assert are_close(one, other)
    assert are_close(other, one)


@pytest.mark.parametrize(
    ("one", "other"), [("x1", "x2"), ("x1", "x12"), ("age", "sex"), ("a", "ab"), ("dose1", "dose")]
)
def test_other_measurements_are_not(one: str, other: str) -> None:
    assert not are_close(one, other)
    assert not are_close(other, one)


def test_pairs_are_found_between_the_lists_alone() -> None:
    assert close_pairs(["chol", "chole", "age"], ["cholesterol", "sex"]) == [
        ("chol", "cholesterol"),
        ("chole", "cholesterol"),
    ]


def test_long_lists_are_compared_by_their_beginnings_within_seconds() -> None:
    own = [f"{word}-own" for word in map(str, range(20_000))] + ["chol"]
    others = [f"{word}-other" for word in map(str, range(20_000))] + ["cholesterol"]
    assert len(own) * len(others) > MOST_PAIRS
    began = time.process_time()
    pairs = close_pairs(own, others)
    assert ("chol", "cholesterol") in pairs
    assert time.process_time() - began < 10.0
