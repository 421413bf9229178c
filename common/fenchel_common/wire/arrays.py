"""Lists on the wire: fixed-width little-endian numbers, or names that end with a zero byte, in one contiguous field.

Received lists are counted before they are split; the caller gives the most elements that a list may have.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from fenchel_common.errors import InvalidInput
from fenchel_common.layout import MAX_NAME_CHARS

NUMBER_BYTES = 4
_UTF8_BYTES = 4
"""The most bytes of one character."""


def doubles_to_bytes(values: NDArray[np.float64]) -> bytes:
    return values.astype("<f8").tobytes()


def doubles_from_bytes(data: bytes, *, field: str) -> NDArray[np.float64]:
    if len(data) % 8:
        raise InvalidInput(f"{field}: not a whole number of 8-byte values")
    return np.frombuffer(data, dtype="<f8").astype(np.float64)


def numbers_to_bytes(numbers: Sequence[int] | NDArray[np.int64]) -> bytes:
    """The bytes of numbers from 0 to 2³² − 1."""
    return np.asarray(numbers, dtype=np.int64).astype("<u4").tobytes()


def numbers_from_bytes(data: bytes, *, most: int, field: str) -> NDArray[np.int64]:
    """The numbers in `data`; raises `InvalidInput` for more than `most`."""
    if len(data) % NUMBER_BYTES:
        raise InvalidInput(f"{field}: not a whole number of {NUMBER_BYTES}-byte numbers")
    if len(data) // NUMBER_BYTES > most:
        raise InvalidInput(f"{field}: {len(data) // NUMBER_BYTES} numbers where at most {most} are due")
    return np.frombuffer(data, dtype="<u4").astype(np.int64)


def names_to_bytes(names: Iterable[str]) -> bytes:
    """The bytes of names, which must not contain a zero character."""
    return b"".join(name.encode() + b"\0" for name in names)


def names_from_bytes(data: bytes, *, most: int, field: str) -> tuple[str, ...]:
    """The names in `data`; raises `InvalidInput` for more than `most`, and for empty or overlong names."""
    count = data.count(0)
    if count > most:
        raise InvalidInput(f"{field}: {count} names where at most {most} are due")
    if data and data[-1]:
        raise InvalidInput(f"{field}: the last name does not end")
    return tuple(_names(data, field))


def _names(data: bytes, field: str) -> Iterator[str]:
    start = 0
    while start < len(data):
        stop = data.index(0, start)
        if not 0 < stop - start <= _UTF8_BYTES * MAX_NAME_CHARS:
            raise InvalidInput(f"{field}: a name must have 1 to {MAX_NAME_CHARS} characters")
        try:
            yield data[start:stop].decode()
        except UnicodeDecodeError:
            raise InvalidInput(f"{field}: a name is not UTF-8") from None
        start = stop + 1
