"""Vectors whose blocks all have one place in one message, for tests of arithmetic that have no messages."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fenchel_client.crypto.plain import Cipher
from fenchel_client.crypto.stamps import Origin, Place, Stamp
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.vectors import Vector
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.records import Moment

ORIGIN: Final = Origin(Stamp(ClientId("a"), Moment(1, RoundId(1), "phase"), bytes(32), bytes(16)), "field")
PLACE: Final = Place(bytes(16), (), b"", 0)
FORMAT: Final = VectorFormat()


def encrypted(cipher: Cipher, values: NDArray[np.float64], vector_format: VectorFormat = FORMAT) -> Vector:
    blocks = -(-len(values) // slots_of(cipher, vector_format))
    return cipher.encrypt(values, vector_format, origin=ORIGIN, places=[PLACE] * blocks)


def decrypted(cipher: Cipher, vector: Vector, *, terms: int | None = None) -> NDArray[np.float64]:
    """The values of a sum of vectors that `encrypted` made, as many as the vector says itself unless `terms` says."""
    return opened(cipher, vector, [vector.terms if terms is None else terms] * vector.block_count)


def opened(cipher: Cipher, vector: Vector, terms: Sequence[int]) -> NDArray[np.float64]:
    """The values of a vector whose blocks are sums of so many vectors that `encrypted` made."""
    return cipher.decrypt(vector, origins=[[ORIGIN] * count for count in terms], places=[PLACE] * len(terms))


def slots_of(cipher: Cipher, vector_format: VectorFormat) -> int:
    """The values in a block of this format, which need not be the cipher's own."""
    return cipher.encrypt(np.zeros(0), vector_format, origin=ORIGIN, places=[]).slots
