"""Turns a party's values into vectors of whole blocks, and back.

Values by sample are (n,), in the order of the party's rows; values by feature are (m,), sorted by name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.rows import PartyRows, Positions, positions_of
from fenchel_common.algorithms.dual import PRODUCT_FORMAT
from fenchel_common.blocks import BlockVector, pack, unpack
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import Cipher, PlainCipher, Vector
from fenchel_common.privacy import Privacy

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class BlockCodec:
    """Turns an array of values into vectors of whole blocks of one kind, and back.

    Attributes
    ----------
    positions
        The positions of each block's values in the array.
    cipher
        Encrypts the values that leave the party, decrypts those that come.
    """

    positions: Mapping[int, Positions]
    cipher: Cipher

    def positions_of(self, blocks: Sequence[int]) -> Positions:
        """The positions of the values of these blocks, in the given order of blocks."""
        return positions_of(self.positions, blocks)

    def to_blocks(self, values: Array, blocks: Sequence[int], vector_format: VectorFormat) -> BlockVector:
        """The values of these blocks, encrypted."""
        chosen = values[self.positions_of(blocks)]
        return pack(chosen, blocks, self._sizes(blocks), cipher=self.cipher, vector_format=vector_format)

    def from_blocks(self, vector: BlockVector) -> Array:
        """The decrypted values at `positions_of(vector.blocks)`."""
        return unpack(vector, self._sizes(vector.blocks), cipher=self.cipher)

    def put_into(self, values: Array, vector: BlockVector) -> Array:
        """A copy of `values` with the decrypted values of the vector in it."""
        changed = values.copy()
        changed[self.positions_of(vector.blocks)] = self.from_blocks(vector)
        return changed

    def _sizes(self, blocks: Sequence[int]) -> list[int]:
        return [len(self.positions[block]) for block in blocks]


class RowCodec:
    """The codec of the dual algorithms, which have vectors by sample, vectors by feature and vectors of numbers.

    Parameters
    ----------
    cipher
        Encrypts vectors by sample, at every level that has a key, and in a sealed run all other vectors too.
    """

    def __init__(self, rows: PartyRows, *, layout: ClientLayout, cipher: Cipher, key: RunKey, privacy: Privacy) -> None:
        self._samples = BlockCodec(rows.positions, cipher)
        self._number_cipher = cipher if key.by_feature(privacy) == key else PlainCipher(key.bits)
        self._features = BlockCodec(layout.feature_blocks, self._number_cipher)
        self._width = rows.width

    def to_blocks(self, blocks: Sequence[int], values: Array, vector_format: VectorFormat) -> BlockVector:
        """Of values by sample, those of these blocks, encrypted."""
        return self._samples.to_blocks(values, blocks, vector_format)

    def from_blocks(self, vector: BlockVector) -> Array:
        """The decrypted values at `PartyRows.positions_of(vector.blocks)`."""
        return self._samples.from_blocks(vector)

    def feature_positions(self, blocks: Sequence[int]) -> Positions:
        """The positions of the features of these blocks, ascending: sums do not depend on the server's order."""
        return np.sort(self._features.positions_of(blocks))

    def to_features(self, values: Array, blocks: Sequence[int] | None = None) -> BlockVector:
        """Values by feature, encrypted; always whole blocks, so that nobody learns which entries have changed."""
        chosen = tuple(self._features.positions) if blocks is None else tuple(blocks)
        return self._features.to_blocks(values, chosen, PRODUCT_FORMAT)

    def from_features(self, vector: BlockVector) -> Array:
        """The decrypted values by feature; zero in blocks that the vector does not have."""
        return self._features.put_into(np.zeros(self._width), vector)

    def to_numbers(self, numbers: Array) -> Vector:
        return self._number_cipher.encrypt(numbers, PRODUCT_FORMAT)

    def from_numbers(self, vector: Vector) -> Array:
        return self._number_cipher.decrypt(vector)
