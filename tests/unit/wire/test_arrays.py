"""Lists in one field of bytes: counted before they are split."""

import numpy as np
import pytest

from fenchel_common.errors import InvalidInput
from fenchel_common.wire.arrays import names_from_bytes, names_to_bytes, numbers_from_bytes, numbers_to_bytes

NAMES = ("age", "größe", "x" * 256, "\U0001f511" * 256)


def test_names_and_numbers_survive_the_way_over_the_wire() -> None:
    assert names_from_bytes(names_to_bytes(NAMES), most=4, field="names") == NAMES
    assert names_from_bytes(b"", most=0, field="names") == ()
    numbers = numbers_from_bytes(numbers_to_bytes([0, 7, 2**32 - 1]), most=3, field="numbers")
    assert numbers.tolist() == [0, 7, 2**32 - 1]
    assert numbers.dtype == np.int64


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a\0b\0c\0", "names: 3 names where at most 2 are due"),
        (b"a\0b", "names: the last name does not end"),
        (b"\0", "names: a name must have 1 to 256 characters"),
        (b"a\0\0", "names: a name must have 1 to 256 characters"),
        (b"x" * 1025 + b"\0", "names: a name must have 1 to 256 characters"),
        (b"\xff\0", "names: a name is not UTF-8"),
    ],
)
def test_names_that_are_none_or_too_many_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        names_from_bytes(data, most=2, field="names")


@pytest.mark.parametrize(
    ("data", "message"), [(bytes(7), "not a whole number"), (bytes(12), "3 numbers where at most 2 are due")]
)
def test_numbers_that_are_cut_or_too_many_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(InvalidInput, match=f"numbers: {message}"):
        numbers_from_bytes(data, most=2, field="numbers")
