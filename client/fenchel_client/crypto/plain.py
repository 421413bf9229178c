"""What every cipher of a run does, and the cipher that encrypts nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fenchel_client.crypto.blocktags import BlockTags
from fenchel_client.crypto.stamps import JointPhase, Origin, Place
from fenchel_common.crypto.packing import VectorFormat, slot_layout
from fenchel_common.crypto.vectors import Vector
from fenchel_common.crypto.words import PlainVector
from fenchel_common.errors import IncompatibleVectors
from fenchel_common.ids import ClientId

Array = NDArray[np.float64]
Partners = Mapping[ClientId, JointPhase | None]
"""The parties without whose contributions the sum of a block is of no use, the contributor among them.

Each has the last phase in which both have contributed to the block, or None if that is the phase of the contribution.
"""


class Cipher(Protocol):
    """Turns values into vectors and back. Only parties have one; `slots` is the number of 64-bit values in a block."""

    @property
    def slots(self) -> int: ...
    def slots_of(self, vector_format: VectorFormat) -> int:
        """The number of values of this format in a block."""
        ...

    def in_clear(self) -> "Cipher":
        """A cipher of the same block sizes and with the same tags that encrypts nothing."""
        ...

    def encrypt(
        self,
        values: Array,
        vector_format: VectorFormat,
        *,
        origin: Origin,
        places: Sequence[Place],
        among: Sequence[Partners] | None = None,
    ) -> Vector:
        """A fresh vector of one term, as the given field of a message; `places` has the place of each block.

        `among` has the partners of each block; it is None if sums may lack contributions. A message has each block of
        a field once. Raises `ValueNotFinite` or `ValueOutOfRange` before anything is encrypted.
        """
        ...

    def decrypt(
        self,
        vector: Vector,
        *,
        origins: Sequence[Sequence[Origin]],
        places: Sequence[Place],
        among: Sequence[Partners] | None = None,
    ) -> Array:
        """The values of a vector each of whose blocks is the sum of these origins.

        `among` is given only for a contribution of this party alone, and is that with which it was made. Raises a
        `CryptoError` instead of returning wrong values; `TagMismatch` if it is another sum.
        """
        ...


@dataclass(frozen=True, slots=True)
class PlainCipher:
    """The cipher of vectors in clear: it encrypts nothing.

    Without tags, whatever comes is taken for true: only for runs that protect nothing.
    """

    key_bits: int
    tags: BlockTags | None = None

    @property
    def slots(self) -> int:
        return self.slots_of(VectorFormat())

    def slots_of(self, vector_format: VectorFormat) -> int:
        return slot_layout(vector_format, self.key_bits).slots

    def in_clear(self) -> "PlainCipher":
        return self

    def encrypt(
        self,
        values: Array,
        vector_format: VectorFormat,
        *,
        origin: Origin,
        places: Sequence[Place],
        among: Sequence[Partners] | None = None,  # noqa: ARG002 - nothing is hidden
    ) -> PlainVector:
        integers = vector_format.quantise(values)
        tags: list[int] = []
        if self.tags is not None:
            tags = self.tags.made(slot_layout(vector_format, self.key_bits).grid(integers), origin, places)
        return PlainVector(self.key_bits, vector_format, 1, integers, tuple(tags))

    def decrypt(
        self,
        vector: Vector,
        *,
        origins: Sequence[Sequence[Origin]],
        places: Sequence[Place],
        among: Sequence[Partners] | None = None,  # noqa: ARG002 - nothing is hidden
    ) -> Array:
        if not isinstance(vector, PlainVector):
            raise IncompatibleVectors("this run is in clear, but the vector is encrypted")
        if self.tags is not None:
            grid = vector.layout.grid(vector.integers)
            self.tags.check(grid, vector.tags, self.tags.expected(origins, places))
        return vector.format.dequantise(vector.integers)
