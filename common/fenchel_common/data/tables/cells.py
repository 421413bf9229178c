"""Cells of Arrow columns as numbers and as canonical texts, and what is wrong with those that are neither."""

import re
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fenchel_common.data.canonical import canonical
from fenchel_common.data.tables.declaration import DECLARATION_FILE, CsvOptions
from fenchel_common.data.tables.profile import FORMULA
from fenchel_common.errors import InvalidInput

LINE_BREAK: Final = "has a line break; close the quotation mark before it, or take the line break out"
SEPARATORS: Final = (
    "is no number, but it would be one with a decimal comma or with thousands separators; which of them is it? Write "
    f'decimal = "," or thousands = "," (or ".", " ", "\'") under [csv] in {DECLARATION_FILE}'
)
NOT_A_NUMBER: Final = (
    f'is not a number; correct it, or declare the column in {DECLARATION_FILE} as type = "category" or in leave_out'
)
NOT_NUMERIC: Final = f"has a type that is no number; add the column to leave_out in {DECLARATION_FILE}"
_NUMBER: Final = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?$"
_SEPARATED: Final = re.compile(r"[+-]?[0-9]+(?:[., '][0-9]{3})*(?:[.,][0-9]+)?")


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a column's cells are: the file, the column, and the row of the first cell."""

    source: str
    column: str
    first_row: int

    def error(self, index: int, fault: str) -> InvalidInput:
        return InvalidInput(f"{self.source}: row {self.first_row + index}, column {self.column!r}: the cell {fault}")


def is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_numeric(kind: Any) -> bool:
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean, pa.types.is_null)
    return any(test(kind) for test in tests)


def decoded(array: Any) -> Any:
    """The column without a dictionary of its own: Parquet and frames may have one for categories."""
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def numbers(array: Any, spot: Spot, options: CsvOptions) -> NDArray[np.float64]:
    """The cells as numbers, NaN where one is missing; `InvalidInput` names the first cell that is none."""
    array = decoded(array)
    if is_text(array.type):
        return _floats(_parsed(array, spot, options))
    if not is_numeric(array.type):
        raise spot.error(0, NOT_NUMERIC)
    return _floats(array.cast(pa.float64(), safe=False))


def texts(array: Any, spot: Spot) -> tuple[list[str], NDArray[np.int64]]:
    """The distinct canonical texts, and for each cell the position of its text, −1 where the cell is missing.

    `InvalidInput` names the first cell that has no canonical text, or begins with "=" or has a line break.
    """
    array = decoded(array)
    if pa.types.is_floating(array.type):
        array = pc.if_else(pc.is_nan(array), None, array)
    encoded = array.dictionary_encode()
    codes = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    known: dict[str, int] = {}
    position_of = np.full(len(encoded.dictionary) + 1, -1, dtype=np.int64)
    for code, value in enumerate(encoded.dictionary.to_pylist()):
        if isinstance(value, str) and not value.strip():
            continue
        try:
            text = checked_text(value)
        except ValueError as error:
            raise spot.error(int((codes == code).argmax()), str(error)) from None
        position_of[code] = known.setdefault(text, len(known))
    return list(known), position_of[codes]


def ids(array: Any, spot: Spot) -> list[str]:
    """The canonical id of each cell; `InvalidInput` names the first cell that has none."""
    found = []
    for index, value in enumerate(decoded(array).to_pylist()):
        try:
            if value is None:
                raise ValueError("is missing, but every row needs an id; give it one, or remove the row")
            found.append(checked_text(value))
        except ValueError as error:
            raise spot.error(index, str(error)) from None
    return found


def checked_text(value: object) -> str:
    """The canonical text; `ValueError` for a formula, a line break, or a cell that has none."""
    text = canonical(value)
    if text[0] == "=":
        raise ValueError(FORMULA)
    if "\n" in text or "\r" in text:
        raise ValueError(LINE_BREAK)
    return text


def number_fault(text: str) -> str:
    """What is wrong with a text that is not a number."""
    text = text.strip()
    if text.startswith("="):
        return FORMULA
    if "\n" in text or "\r" in text:
        return LINE_BREAK
    return SEPARATORS if _SEPARATED.fullmatch(text) else NOT_A_NUMBER


def _floats(array: Any) -> NDArray[np.float64]:
    values: NDArray[np.float64] = array.to_numpy(zero_copy_only=False)
    return values.astype(np.float64, copy=False)


def _parsed(array: Any, spot: Spot, options: CsvOptions) -> Any:
    plain = _with_point(array, options)
    try:
        return plain.cast(pa.float64())
    except pa.ArrowInvalid:
        pass
    # White space around numbers, or around a word for a missing value, is rare: it is looked for only now.
    trimmed = _trimmed(plain, options)
    try:
        return trimmed.cast(pa.float64())
    except pa.ArrowInvalid:
        index = _first_unreadable(trimmed)
        raise spot.error(index, number_fault(array[index].as_py())) from None


def _trimmed(array: Any, options: CsvOptions) -> Any:
    """The texts without white space at their ends, null where a text means that there is no value."""
    trimmed = pc.utf8_trim_whitespace(array)
    absent = pc.is_in(trimmed, value_set=pa.array(["", *options.missing_values], type=trimmed.type))
    return pc.if_else(absent, pa.scalar(None, trimmed.type), trimmed)


def _with_point(array: Any, options: CsvOptions) -> Any:
    """The texts with a decimal point and without thousands separators; a text that is grouped wrongly stays."""
    if options.thousands:
        mark, point = re.escape(options.thousands), re.escape(options.decimal)
        grouped = pc.match_substring_regex(array, rf"^\s*[+-]?[0-9]{{1,3}}({mark}[0-9]{{3}})+({point}[0-9]+)?\s*$")
        joined = pc.replace_substring(array, options.thousands, "")
        array = pc.if_else(grouped, joined, array)
    if options.decimal == ",":
        # A point is no decimal point here: it must not pass for one.
        pointed = pc.match_substring(array, ".")
        array = pc.if_else(pointed, pc.replace_substring(array, ".", "·"), pc.replace_substring(array, ",", "."))
    return array


def _first_unreadable(array: Any) -> int:
    """The position of the first text that is not a number, found by halves."""
    low, high = 0, len(array)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            array.slice(low, middle - low).cast(pa.float64())
            low = middle
        except pa.ArrowInvalid:
            high = middle
    return low


def unreadable(array: Any, options: CsvOptions) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which texts are not numbers, and which of these would be with a decimal comma or thousands separators."""
    trimmed = _trimmed(_with_point(array, options), options)
    readable = pc.match_substring_regex(trimmed, _NUMBER)
    wrong = ~pc.fill_null(readable, True).to_numpy(zero_copy_only=False)
    separated = pc.match_substring_regex(pc.utf8_trim_whitespace(array), f"^(?:{_SEPARATED.pattern})$")
    return wrong, wrong & pc.fill_null(separated, False).to_numpy(zero_copy_only=False)
