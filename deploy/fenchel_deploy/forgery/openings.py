"""What the parties of a run seal and open, block by block, recorded as it happens.

An `Opening` is a sum that a party opened, with the contributions of which it expects the sum to consist. Everything
that a server could make of the messages of a run is made of the blocks recorded here and of numbers that it knows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from gmpy2 import mpz

from fenchel_client.crypto.cipher import PaillierCipher
from fenchel_client.crypto.plain import Cipher, Partners
from fenchel_client.crypto.seal import Array, Seal
from fenchel_client.crypto.stamps import Origin, Pads, Place
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.paillier import split
from fenchel_common.crypto.tags import PadSum
from fenchel_common.crypto.vectors import EncryptedVector, Vector
from fenchel_common.crypto.words import MaskedVector, PlainVector


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """A vector of one block, and its plaintext, which no server knows; None for a masked vector.

    Taking masks off is fast, so that every tampering with a masked vector is opened as it is.
    """

    vector: EncryptedVector | MaskedVector | PlainVector
    plaintext: mpz | None = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Opening:
    """A block that a party opened.

    Attributes
    ----------
    kind
        The phases and fields of the messages that the sum consists of.
    cipher
        The cipher with which the party opened the block.
    origins, place
        The contributions that the party expects, and the place of the block.
    among
        The contributors with whom the party has masks, if it opened its own contribution.
    expected
        The pads that follow from the origins, under a Paillier key.
    """

    kind: str
    block: Block
    cipher: Cipher
    origins: tuple[Origin, ...]
    place: Place
    among: Partners | None
    expected: PadSum | None


class Record:
    """All blocks that were sealed and opened in a run, under the key of `cipher`, or with masks if it is None."""

    def __init__(self, cipher: PaillierCipher | None) -> None:
        self._cipher = cipher
        self.sealed: dict[tuple[Origin, bytes], Block] = {}
        self.opened: list[Opening] = []
        self._plaintexts: dict[bytes, mpz] = {}

    def seal(self, pads: Pads) -> Seal:
        """A seal that puts everything on this record."""
        return _WatchedSeal(pads, self)

    def expected(self, origins: Sequence[Sequence[Origin]], places: Sequence[Place]) -> Sequence[PadSum | None]:
        """What the tags of blocks at these places must be made of, if they are the sums of these origins."""
        return [None] * len(places) if self._cipher is None else self._cipher.tags.expected(origins, places)

    def blocks_of(self, vector: Vector) -> list[Block]:
        return [self.block(vector.select([position])) for position in range(vector.block_count)]

    def block(self, vector: Vector) -> Block:
        if isinstance(vector, PlainVector):
            grid = vector.layout.grid(vector.integers)
            return Block(vector, vector.layout.pack(grid, vector.tags)[0])
        if isinstance(vector, MaskedVector):
            return Block(vector, None)
        assert isinstance(vector, EncryptedVector)
        assert self._cipher is not None, "a run with a Paillier key"
        # Several parties open one sum.
        if vector.ciphertexts not in self._plaintexts:
            numbers = split(vector.ciphertexts, vector.key.ciphertext_bytes)
            (self._plaintexts[vector.ciphertexts],) = self._cipher.key.raw_decrypt(numbers, threads=1)
        return Block(vector, self._plaintexts[vector.ciphertexts])


class _WatchedSeal(Seal):
    def __init__(self, pads: Pads, record: Record) -> None:
        super().__init__(pads)
        self._record = record

    def close(
        self,
        values: Array,
        vector_format: VectorFormat,
        *,
        cipher: Cipher,
        field: str,
        places: Sequence[Place],
        among: Sequence[Partners] | None = None,
    ) -> Vector:
        vector = super().close(values, vector_format, cipher=cipher, field=field, places=places, among=among)
        assert self.stamp is not None
        origin = Origin(self.stamp, field)
        for place, block in zip(places, self._record.blocks_of(vector), strict=True):
            self._record.sealed[origin, place.token] = block
        return vector

    def open(
        self,
        vector: Vector,
        *,
        cipher: Cipher,
        origins: Sequence[Sequence[Origin]],
        places: Sequence[Place],
        among: Sequence[Partners] | None = None,
    ) -> Array:
        values = super().open(vector, cipher=cipher, origins=origins, places=places, among=among)
        expected = self._record.expected(origins, places)
        partners = [None] * len(places) if among is None else among
        blocks = self._record.blocks_of(vector)
        for block, given, place, own, pads in zip(blocks, origins, places, partners, expected, strict=True):
            fields = sorted({f"{origin.stamp.moment.phase} {origin.field}" for origin in given})
            opening = Opening(" + ".join(fields), block, cipher, tuple(given), place, own, pads)
            self._record.opened.append(opening)
        return values
