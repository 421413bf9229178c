"""The canonical text of a cell, by which parties compare ids, and by which labels and categories are told apart.

One organisation writes a patient's number as text, another as an integer, a third as a float. The rule brings all of
them to one text:

- Text is normalised (Unicode NFC), and white space at both ends is removed.
- A whole number, written as an integer, as a float or as text, becomes its decimal digits: no leading zeros, no plus
  sign, no decimal places. "007", "+7", 7 and 7.0 all become "7".
- A truth value becomes "true" or "false", a date becomes 2024-01-31, a time 2024-01-31T10:00:00.
- Several id columns are joined by "|"; a "|" or "\\" within a column is written with a "\\" before it.
"""

import datetime
import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Final

RULE: Final = (
    "text in Unicode NFC without white space at its ends; whole numbers as decimal digits without leading zeros, plus "
    'sign or decimal places (so that "007", 7 and 7.0 are the same id); several columns joined by "|"'
)
LARGEST_EXACT_FLOAT: Final = 2.0**53
_WHOLE: Final = re.compile(r"([+-]?)0*([0-9]+)(?:\.0*)?")


def canonical(value: object) -> str:
    """The canonical text of a cell that is not missing.

    Raises `ValueError`, without the value, for a cell that has none: a float that is not whole or too large to be
    exact, an empty text, bytes, or a list.
    """
    match value:
        case str():
            return _canonical_text(value)
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            if not math.isfinite(value) or not value.is_integer() or abs(value) > LARGEST_EXACT_FLOAT:
                raise ValueError("is a number with decimal places, or too large to be exact")
            return str(int(value))
        case Decimal():
            return _canonical_text(format(value, "f"))
        case datetime.date() | datetime.time():
            return value.isoformat()
    raise ValueError("is neither text nor a number nor a date")


def joined(columns: Sequence[Iterable[str]]) -> list[str]:
    """The ids of rows whose ids are in several columns of canonical texts."""
    if len(columns) == 1:
        return list(columns[0])
    return [
        "|".join(part.replace("\\", "\\\\").replace("|", "\\|") for part in row) for row in zip(*columns, strict=True)
    ]


def _canonical_text(text: str) -> str:
    if text.isascii():
        # Most ids are digits without leading zeros, and a table has a million of them.
        if text.isdigit() and text[0] != "0":
            return text
        stripped = text.strip()
    else:
        stripped = unicodedata.normalize("NFC", text).strip()
    if not stripped:
        raise ValueError("is empty")
    whole = _WHOLE.fullmatch(stripped)
    if whole is None:
        return stripped
    sign, digits = whole.groups()
    return f"-{digits}" if sign == "-" and digits != "0" else digits
