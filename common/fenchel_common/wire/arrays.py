"""Arrays on the wire: fixed-width little-endian numbers in one contiguous field."""

import numpy as np
from numpy.typing import NDArray

from fenchel.v1 import hyfdca_pb2
from fenchel_common.changes import ArrayChange
from fenchel_common.errors import InvalidInput


def doubles_to_bytes(values: NDArray[np.float64]) -> bytes:
    return values.astype("<f8").tobytes()


def doubles_from_bytes(data: bytes, *, field: str) -> NDArray[np.float64]:
    if len(data) % 8:
        raise InvalidInput(f"{field}: not a whole number of 8-byte values")
    return np.frombuffer(data, dtype="<f8").astype(np.float64)


def change_to_proto(change: ArrayChange) -> hyfdca_pb2.ArrayChange:
    positions = b"" if change.positions is None else change.positions.astype("<u4").tobytes()
    return hyfdca_pb2.ArrayChange(
        length=change.length,
        whole=change.is_whole,
        positions=positions,
        values=doubles_to_bytes(change.values),
    )


def change_from_proto(message: hyfdca_pb2.ArrayChange, *, length: int, field: str) -> ArrayChange:
    """A change of an array of `length` entries; anything else is refused."""
    if message.length != length:
        raise InvalidInput(f"{field}.length: is {message.length}, the array has {length} entries")
    if message.whole and message.positions:
        raise InvalidInput(f"{field}.positions: a whole array has none")
    if len(message.positions) % 4:
        raise InvalidInput(f"{field}.positions: not a whole number of 4-byte positions")
    positions = None if message.whole else np.frombuffer(message.positions, dtype="<u4").astype(np.int64)
    try:
        return ArrayChange(length, positions, doubles_from_bytes(message.values, field="values"))
    except InvalidInput as error:
        raise InvalidInput(f"{field}.{error}") from None
