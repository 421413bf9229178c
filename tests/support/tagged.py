"""Vectors whose blocks all have one pad, for tests of arithmetic that have no messages and so no stamps."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.tags import TAG_PRIME, PadSum
from fenchel_common.crypto.vectors import Cipher, Vector

PAD: Final = TAG_PRIME // 3
FORMAT: Final = VectorFormat()


def padded(terms: Sequence[int]) -> list[PadSum]:
    """What is expected of a vector whose blocks are sums of so many vectors that `encrypted` made."""
    return [PadSum(count, count * PAD % TAG_PRIME) for count in terms]


def encrypted(cipher: Cipher, values: NDArray[np.float64], vector_format: VectorFormat = FORMAT) -> Vector:
    return cipher.encrypt(values, vector_format, [PAD] * -(-len(values) // slots_of(cipher, vector_format)))


def decrypted(cipher: Cipher, vector: Vector, *, terms: int | None = None) -> NDArray[np.float64]:
    """The values of a sum of vectors that `encrypted` made, as many as the vector says itself unless `terms` says."""
    return cipher.decrypt(vector, padded([vector.terms if terms is None else terms] * vector.block_count))


def slots_of(cipher: Cipher, vector_format: VectorFormat) -> int:
    """The values in a block of this format, which need not be the cipher's own."""
    return cipher.encrypt(np.zeros(0), vector_format, []).slots
