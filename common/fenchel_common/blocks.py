"""Vectors by block: restricted to some blocks, split into parts, summed block by block, joined.

A *part* is the vector of one block. A block of more values than fit into a ciphertext of their format takes several
ciphertexts, its *pieces*; all blocks of a vector have the same number of them. These functions read no value, and work
in the same way on ciphertext and in clear.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from fenchel_common.crypto.vectors import Vector, join, total
from fenchel_common.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class BlockVector:
    """A vector of whole blocks, and the ascending ids of these blocks."""

    blocks: tuple[int, ...]
    vector: Vector

    def parts(self) -> dict[int, Vector]:
        """The part of each block."""
        return {block: self._selected([position]) for position, block in enumerate(self.blocks)}

    def restricted_to(self, blocks: Collection[int]) -> "BlockVector | None":
        """The vector on those of its blocks that are in `blocks`; None if there are none."""
        positions = [position for position, block in enumerate(self.blocks) if block in blocks]
        if len(positions) == len(self.blocks):
            return self
        if not positions:
            return None
        return BlockVector(tuple(self.blocks[position] for position in positions), self._selected(positions))

    def _selected(self, positions: Sequence[int]) -> Vector:
        """The vector of the blocks at these positions."""
        pieces = self.vector.block_count // len(self.blocks)
        return self.vector.select([position * pieces + piece for position in positions for piece in range(pieces)])


def piece_count(slots: int, in_piece: int) -> int:
    """The number of pieces of a block of up to `slots` values, `in_piece` of which fit into a ciphertext."""
    return -(-slots // in_piece)


def joined(blocks: Iterable[int], parts: Mapping[int, Vector]) -> BlockVector | None:
    """One vector of the parts of these blocks, all of which must be in `parts`; None if `blocks` is empty."""
    chosen = tuple(blocks)
    return BlockVector(chosen, join([parts[block] for block in chosen])) if chosen else None


def joined_on(blocks: Iterable[int], parts: Mapping[int, Vector]) -> BlockVector | None:
    """One vector of the parts of those blocks that are in `parts`; None if there are none."""
    return joined([block for block in blocks if block in parts], parts)


@dataclass(frozen=True, slots=True)
class BlockSum:
    """The sums, by block, of vectors that have some blocks in common.

    `pieces` have no block in common. The blocks of a piece are parts of the same vectors, so that few operations on
    long vectors add all blocks. The sums do not depend on the order of addition.
    """

    pieces: tuple[BlockVector, ...] = ()

    @classmethod
    def of(cls, vector: BlockVector | None) -> "BlockSum":
        """The sum of one vector; without a vector, the empty sum."""
        return cls() if vector is None else cls((vector,))

    @property
    def blocks(self) -> tuple[int, ...]:
        """The blocks of all pieces, ascending."""
        return tuple(sorted(block for piece in self.pieces for block in piece.blocks))

    def plus(self, other: "BlockSum") -> "BlockSum":
        """The sum of both, on the blocks of both."""
        pieces = self.pieces
        for vector in other.pieces:
            pieces = _with_vector(pieces, vector)
        return BlockSum(pieces)

    def overlaid_with(self, other: "BlockSum") -> "BlockSum":
        """The sum on the blocks of both; the other's stand in place of those of this one."""
        covered = frozenset(other.blocks)
        kept = (piece.restricted_to(frozenset(piece.blocks) - covered) for piece in self.pieces)
        return BlockSum((*(piece for piece in kept if piece is not None), *other.pieces))

    def on(self, blocks: Iterable[int]) -> BlockVector | None:
        """One vector on these blocks, all of which must be in the sum; None if `blocks` is empty."""
        chosen = tuple(blocks)
        if not chosen:
            return None
        wanted = frozenset(chosen)
        found = [part for piece in self.pieces if (part := piece.restricted_to(wanted)) is not None]
        order = {block: position for position, block in enumerate(block for part in found for block in part.blocks)}
        whole = BlockVector(tuple(order), join([part.vector for part in found]))
        return whole if whole.blocks == chosen else BlockVector(chosen, whole._selected([order[one] for one in chosen]))

    def within(self, blocks: Iterable[int]) -> BlockVector | None:
        """One vector on those of these blocks that are in the sum; None if there are none."""
        known = frozenset(self.blocks)
        return self.on(block for block in blocks if block in known)

    def by_terms(self) -> list[BlockVector]:
        """One vector for each number of terms, ascending, on all blocks that are sums of so many."""
        found: dict[int, list[BlockVector]] = {}
        for piece in self.pieces:
            found.setdefault(piece.vector.terms, []).append(piece)
        vectors = (BlockSum(tuple(found[terms])).whole() for terms in sorted(found))
        return [vector for vector in vectors if vector is not None]

    def whole(self) -> BlockVector | None:
        """One vector on all blocks; None if there are none."""
        return self.on(self.blocks)

    def parts(self) -> dict[int, Vector]:
        """The sum of each block, by ascending block."""
        parts = {block: part for piece in self.pieces for block, part in piece.parts().items()}
        return dict(sorted(parts.items()))


def _with_vector(pieces: tuple[BlockVector, ...], vector: BlockVector) -> tuple[BlockVector, ...]:
    """The pieces with a vector added; a piece that the vector covers in part is split."""
    remaining = frozenset(vector.blocks)
    result = []
    for piece in pieces:
        common = remaining.intersection(piece.blocks)
        remaining -= common
        left, right = piece.restricted_to(common), vector.restricted_to(common)
        if left is not None and right is not None:
            result.append(BlockVector(left.blocks, left.vector.plus(right.vector)))
        untouched = piece.restricted_to(frozenset(piece.blocks) - common)
        if untouched is not None:
            result.append(untouched)
    new = vector.restricted_to(remaining)
    return (*result, new) if new is not None else tuple(result)


def summed(vectors: Iterable[BlockVector | None]) -> BlockSum:
    """For each block the sum over the vectors that have it."""
    return reduce(BlockSum.plus, map(BlockSum.of, vectors), BlockSum())


def summed_parts(given: Iterable[Mapping[int, Vector]]) -> dict[int, Vector]:
    """For each block the sum of its parts; blocks are in the order of their first occurrence."""
    by_block: dict[int, list[Vector]] = {}
    for parts in given:
        for block, part in parts.items():
            by_block.setdefault(block, []).append(part)
    return {block: total(parts) for block, parts in by_block.items()}


def check_fresh(vector: BlockVector, blocks: tuple[int, ...], name: str) -> None:
    """Refuses a client's vector that is not on the requested `blocks`, or that is a sum of several vectors."""
    if vector.blocks != blocks:
        raise InvalidInput(f"{name}.blocks: are not the blocks that were asked for")
    if vector.vector.terms != 1:
        raise InvalidInput(f"{name}.vector: must be freshly made, with one term")


def filled(sizes: Sequence[int], slots: int) -> NDArray[np.bool_]:
    """(B, S) whether a slot is in use."""
    return np.arange(slots) < np.asarray(sizes, dtype=np.int64)[:, np.newaxis]
