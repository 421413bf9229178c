"""Turns a party's values into vectors of whole blocks, and back.

Values by sample are (n,), in the order of the party's rows; values by feature are (m,), sorted by name.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.rows import PartyRows, Positions, positions_of
from fenchel_client.crypto.plain import Cipher, Partners
from fenchel_client.crypto.seal import Seal
from fenchel_client.crypto.stamps import Origin, Place, block_places, block_token, number_places, piece_places
from fenchel_common.algorithms.dual import PRODUCT_FORMAT
from fenchel_common.blocks import BlockVector, filled, piece_count
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import Vector
from fenchel_common.ids import ClientId
from fenchel_common.privacy import Privacy

Array = NDArray[np.float64]
Origins = Callable[[int], Sequence[Origin]]
"""For a block, the origins of the contributions that its sum must consist of."""
Among = Callable[[int, tuple[ClientId, ...]], Partners]
"""For a block and its holders, the partners with whom a party contributes to it."""


def together(contributors: Callable[[tuple[ClientId, ...]], Collection[ClientId]]) -> Among:
    """All contributions to a block are made in one phase, by those of its holders that `contributors` gives."""
    return lambda _, holders: dict.fromkeys(contributors(holders))


def all_holders(holders: tuple[ClientId, ...]) -> tuple[ClientId, ...]:
    """For `together`, if every holder of a block contributes to it."""
    return holders


@dataclass(frozen=True)
class BlockCodec:
    """Turns an array of values into vectors of whole blocks of one kind, and back.

    A block whose values do not fit into one ciphertext of their format takes several, its *pieces*.

    Attributes
    ----------
    kind
        A word for what the values are values of; blocks of two kinds may have the same numbers.
    positions
        The positions of each block's values in the array.
    names
        The name of each entry of the array, the same at every party that holds the entry.
    holders
        The holders of each block, in roster order.
    slots
        The most values in a block.
    cipher
        Encrypts the values that leave the party, decrypts those that come.
    """

    kind: str
    positions: Mapping[int, Positions]
    names: Sequence[str]
    holders: Mapping[int, tuple[ClientId, ...]]
    slots: int
    cipher: Cipher
    seal: Seal

    @cached_property
    def _places(self) -> dict[int, Place]:
        tokens = {
            block: block_token(self.kind, block, [self.names[position] for position in own])
            for block, own in self.positions.items()
        }
        return block_places(tokens, self.holders)

    def positions_of(self, blocks: Sequence[int]) -> Positions:
        """The positions of the values of these blocks, in the given order of blocks."""
        return positions_of(self.positions, blocks)

    def to_blocks(
        self,
        field: str,
        values: Array,
        blocks: Sequence[int],
        vector_format: VectorFormat,
        *,
        among: Among | None = None,
    ) -> BlockVector:
        """The values of these blocks, encrypted, as a field of the message that is being made."""
        in_piece = self.cipher.slots_of(vector_format)
        pieces = piece_count(self.slots, in_piece)
        padded = np.zeros((len(blocks), pieces * in_piece))
        padded[filled(self._sizes(blocks), pieces * in_piece)] = values[self.positions_of(blocks)]
        vector = self.seal.close(
            padded.reshape(-1),
            vector_format,
            cipher=self.cipher,
            field=field,
            places=self._places_of(blocks, pieces),
            among=self._partners_of(blocks, pieces, among),
        )
        return BlockVector(tuple(blocks), vector)

    def from_blocks(self, vector: BlockVector, origins: Origins, *, among: Among | None = None) -> Array:
        """The decrypted values at `positions_of(vector.blocks)`; `among` as for `Cipher.decrypt`."""
        pieces = piece_count(self.slots, vector.vector.slots)
        opened = self.seal.open(
            vector.vector,
            cipher=self.cipher,
            origins=[given for block in vector.blocks for given in [origins(block)] * pieces],
            places=self._places_of(vector.blocks, pieces),
            among=self._partners_of(vector.blocks, pieces, among),
        )
        width = pieces * vector.vector.slots
        return opened.reshape(len(vector.blocks), width)[filled(self._sizes(vector.blocks), width)]

    def put_into(self, values: Array, vector: BlockVector, origins: Origins, *, among: Among | None = None) -> Array:
        """A copy of `values` with the decrypted values of the vector in it."""
        changed = values.copy()
        changed[self.positions_of(vector.blocks)] = self.from_blocks(vector, origins, among=among)
        return changed

    def _places_of(self, blocks: Sequence[int], pieces: int) -> list[Place]:
        return [place for block in blocks for place in piece_places(self._places[block], pieces)]

    def _partners_of(self, blocks: Sequence[int], pieces: int, among: Among | None) -> list[Partners] | None:
        if among is None:
            return None
        return [given for block in blocks for given in [among(block, self.holders[block])] * pieces]

    def _sizes(self, blocks: Sequence[int]) -> list[int]:
        return [len(self.positions[block]) for block in blocks]


class RowCodec:
    """The codec of the dual algorithms, which have vectors by sample, vectors by feature and vectors of numbers.

    Parameters
    ----------
    cipher
        Encrypts vectors by sample, at every level that has a key, and in a sealed run all other vectors too.
    """

    def __init__(
        self,
        rows: PartyRows,
        *,
        layout: ClientLayout,
        cipher: Cipher,
        key: RunKey,
        privacy: Privacy,
        seal: Seal,
    ) -> None:
        self._number_cipher = cipher if key.by_feature(privacy) == key else cipher.in_clear()
        self._samples = BlockCodec("samples", rows.positions, rows.ids, layout.holders, layout.slots, cipher, seal)
        self._features = BlockCodec(
            "features",
            layout.feature_blocks,
            rows.features,
            layout.feature_holders,
            layout.feature_slots,
            self._number_cipher,
            seal,
        )
        self._seal = seal
        self._width = rows.width

    def to_blocks(
        self,
        field: str,
        blocks: Sequence[int],
        values: Array,
        vector_format: VectorFormat,
        *,
        among: Among | None = None,
    ) -> BlockVector:
        """Of values by sample, those of these blocks, encrypted."""
        return self._samples.to_blocks(field, values, blocks, vector_format, among=among)

    def from_blocks(self, vector: BlockVector, origins: Origins) -> Array:
        """The decrypted values at `PartyRows.positions_of(vector.blocks)`."""
        return self._samples.from_blocks(vector, origins)

    def feature_positions(self, blocks: Sequence[int]) -> Positions:
        """The positions of the features of these blocks, ascending: sums do not depend on the server's order."""
        return np.sort(self._features.positions_of(blocks))

    def to_features(
        self, field: str, values: Array, blocks: Sequence[int] | None = None, *, among: Among | None = None
    ) -> BlockVector:
        """Values by feature, encrypted; always whole blocks, so that nobody learns which entries have changed."""
        chosen = tuple(self._features.positions) if blocks is None else tuple(blocks)
        return self._features.to_blocks(field, values, chosen, PRODUCT_FORMAT, among=among)

    def from_features(self, vector: BlockVector, origins: Origins) -> Array:
        """The decrypted values by feature; zero in blocks that the vector does not have."""
        return self._features.put_into(np.zeros(self._width), vector, origins)

    def to_numbers(self, field: str, numbers: Array, *, contributors: Collection[ClientId]) -> Vector:
        """Numbers to be added to those of the other contributors, none of which the sum may lack."""
        places = number_places(-(-len(numbers) // self._number_cipher.slots))
        return self._seal.close(
            numbers,
            PRODUCT_FORMAT,
            cipher=self._number_cipher,
            field=field,
            places=places,
            among=[dict.fromkeys(contributors)] * len(places),
        )

    def from_numbers(self, vector: Vector, origins: Sequence[Origin]) -> Array:
        places = number_places(vector.block_count)
        return self._seal.open(vector, cipher=self._number_cipher, origins=[origins] * len(places), places=places)

    def digest(self, content: bytes) -> bytes:
        """32 bytes by which the server can compare what parties found, and cannot guess it."""
        return self._seal.digest(content)
