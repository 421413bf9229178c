"""Vectors by block: made from values, restricted to some blocks, split into parts, summed block by block, joined.

A *part* is the vector of one block alone. `pack` and `unpack` need a cipher, which only parties have. All else reads no
value and works on ciphertext as it does in clear.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.vectors import Cipher, Vector, join, total
from fenchel_common.errors import InvalidInput

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class BlockVector:
    """A vector of whole blocks, S slots each, and the ascending ids of these blocks."""

    blocks: tuple[int, ...]
    vector: Vector

    def parts(self) -> dict[int, Vector]:
        """Each block's own part of the vector."""
        return {block: self.vector.select([place]) for place, block in enumerate(self.blocks)}

    def restricted_to(self, blocks: Collection[int]) -> "BlockVector | None":
        """The vector on those of its blocks that are among the given ones; None if none is."""
        places = [place for place, block in enumerate(self.blocks) if block in blocks]
        if len(places) == len(self.blocks):
            return self
        if not places:
            return None
        return BlockVector(tuple(self.blocks[place] for place in places), self.vector.select(places))


def joined(blocks: Iterable[int], parts: Mapping[int, Vector]) -> BlockVector | None:
    """The parts of these blocks, each of which must be there, as one vector; None without blocks."""
    chosen = tuple(blocks)
    return BlockVector(chosen, join([parts[block] for block in chosen])) if chosen else None


def joined_on(blocks: Iterable[int], parts: Mapping[int, Vector]) -> BlockVector | None:
    """The parts of those of the blocks that have one, as one vector; None if none has."""
    return joined([block for block in blocks if block in parts], parts)


def summed(vectors: Iterable[BlockVector | None]) -> dict[int, Vector]:
    """For each block the sum over the vectors that have it, in the order in which blocks are first met."""
    return summed_parts(vector.parts() for vector in vectors if vector is not None)


def summed_parts(given: Iterable[Mapping[int, Vector]]) -> dict[int, Vector]:
    """For each block the sum of the parts given of it, in the order in which blocks are first met."""
    by_block: dict[int, list[Vector]] = {}
    for parts in given:
        for block, part in parts.items():
            by_block.setdefault(block, []).append(part)
    return {block: total(parts) for block, parts in by_block.items()}


def check_fresh(vector: BlockVector, blocks: tuple[int, ...], name: str) -> None:
    """Refuses a client's vector that is not of the blocks it was asked for, or that was summed from several."""
    if vector.blocks != blocks:
        raise InvalidInput(f"{name}.blocks: are not the blocks that were asked for")
    if vector.vector.terms != 1:
        raise InvalidInput(f"{name}.vector: must be freshly made, with one term")


def pack(
    values: Array, blocks: Sequence[int], sizes: Sequence[int], *, cipher: Cipher, vector_format: VectorFormat
) -> BlockVector:
    """Encrypts values that stand block after block, of each block as many as its size; its other slots are zero."""
    padded = np.zeros((len(blocks), cipher.slots))
    padded[filled(sizes, cipher.slots)] = values
    return BlockVector(tuple(blocks), cipher.encrypt(padded.reshape(-1), vector_format))


def unpack(vector: BlockVector, sizes: Sequence[int], *, cipher: Cipher) -> Array:
    """Decrypts the values block after block, of each block as many as its size."""
    padded = cipher.decrypt(vector.vector).reshape(len(vector.blocks), vector.vector.slots)
    return padded[filled(sizes, vector.vector.slots)]


def filled(sizes: Sequence[int], slots: int) -> NDArray[np.bool_]:
    """(B, S) whether a slot is in use."""
    return np.arange(slots) < np.asarray(sizes, dtype=np.int64)[:, np.newaxis]
