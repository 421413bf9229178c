"""The canonical text of ids, labels and categories: the same at every party, however its table writes them."""

import datetime
from decimal import Decimal

import pytest

from fenchel_common.data.canonical import canonical, joined


@pytest.mark.parametrize("written", ["7", "007", "+7", " 7 ", "7.0", "7.", "0007.00", 7, 7.0, Decimal("7.00")])
def test_one_number_has_one_text_however_it_is_written(written: object) -> None:
    assert canonical(written) == "7"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("0", "0"),
        ("-0", "0"),
        ("000", "0"),
        (-0.0, "0"),
        ("-07", "-7"),
        (-7.0, "-7"),
        ("A007", "A007"),
        ("7.5", "7.5"),
        ("1e5", "1e5"),
        ("\u0662", "\u0662"),
        ("Zoe\u0308 ", "Zo\u00eb"),
        ("12345678901234567890123", "12345678901234567890123"),
        (True, "true"),
        (datetime.date(2024, 1, 31), "2024-01-31"),
        (datetime.datetime(2024, 1, 31, 10, 0), "2024-01-31T10:00:00"),
    ],
)
def test_other_values_have_the_text_that_the_rule_says(value: object, text: str) -> None:
    assert canonical(value) == text


@pytest.mark.parametrize("value", ["", "  ", 7.5, float("nan"), float("inf"), 2.0**60, b"7", [7], None])
def test_a_value_without_canonical_text_is_refused_and_not_shown(value: object) -> None:
    with pytest.raises(ValueError, match=r"^is ") as caught:
        canonical(value)
    assert "7" not in str(caught.value)


def test_several_columns_are_joined_so_that_different_rows_have_different_ids() -> None:
    assert joined([["a", "a|b", "a", "a\\"], ["b|c", "c", "b", "|c"]]) == [
        "a|b\\|c",
        "a\\|b|c",
        "a|b",
        "a\\\\|\\|c",
    ]
    assert joined([["a|b"]]) == ["a|b"]
