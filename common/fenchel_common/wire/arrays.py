"""Arrays on the wire: fixed-width little-endian numbers in one contiguous field."""

import numpy as np
from numpy.typing import NDArray

from fenchel_common.errors import InvalidInput


def doubles_to_bytes(values: NDArray[np.float64]) -> bytes:
    return values.astype("<f8").tobytes()


def doubles_from_bytes(data: bytes, *, field: str) -> NDArray[np.float64]:
    if len(data) % 8:
        raise InvalidInput(f"{field}: not a whole number of 8-byte values")
    return np.frombuffer(data, dtype="<f8").astype(np.float64)
