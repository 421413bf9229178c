"""Vectors of machine words: fixed-point values in clear, or hidden by masks.

A word holds one value. The tag of each block stands beside the words.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fenchel_common.crypto.packing import SlotLayout, VectorFormat, slot_layout
from fenchel_common.crypto.tags import TAG_PRIME
from fenchel_common.crypto.vectors import check_joinable, check_same_shape, runs, selected_length
from fenchel_common.errors import IncompatibleVectors, MalformedVector, ValueOutOfRange


@dataclass(frozen=True, slots=True)
class WordVector:
    """One word a value, and the tag of each block; blocks and term limits are those of a key of `key_bits` bits.

    `tags` is empty in a run without any encryption.
    """

    key_bits: int
    format: VectorFormat
    terms: int
    integers: NDArray[Any]
    tags: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        self.layout.check_terms(self.terms)
        if self.tags and len(self.tags) != self.block_count:
            raise MalformedVector(f"{self.block_count} blocks have {len(self.tags)} tags")
        if any(not 0 <= tag < self.terms * TAG_PRIME for tag in self.tags):
            raise MalformedVector("a tag is beyond that of the terms of its vector")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.length} values, {self.terms} terms)"

    @property
    def layout(self) -> SlotLayout:
        return slot_layout(self.format, self.key_bits)

    @property
    def length(self) -> int:
        return int(self.integers.size)

    @property
    def slots(self) -> int:
        return self.layout.slots

    @property
    def block_count(self) -> int:
        return self.layout.block_count(self.length)

    def select(self, blocks: Sequence[int]) -> Self:
        selected_length(self, blocks)
        slots = self.slots
        pieces = [self.integers[start * slots : stop * slots] for start, stop in runs(blocks)]
        tags = tuple(self.tags[block] for block in blocks) if self.tags else ()
        return replace(self, integers=np.concatenate([self.integers[:0], *pieces]), tags=tags)

    def plus(self, other: Self) -> Self:
        return self.summed_with([other])

    def joined_with(self, others: Sequence[Self]) -> Self:
        parts = [self, *others]
        check_joinable(parts)
        self._check_tagged(others)
        return replace(
            self,
            terms=max(part.terms for part in parts),
            integers=np.concatenate([part.integers for part in parts]),
            tags=tuple(tag for part in parts for tag in part.tags),
        )

    def summed_with(self, others: Sequence[Self]) -> Self:
        for other in others:
            check_same_shape(self, other)
        self._check_tagged(others)
        terms = self.terms + sum(other.terms for other in others)
        self.layout.check_terms(terms)
        summed = self.integers.copy()
        for other in others:
            summed += other.integers
        tags = tuple(map(sum, zip(self.tags, *(other.tags for other in others), strict=True)))
        return replace(self, terms=terms, integers=summed, tags=tags)

    def _check_tagged(self, others: Sequence[Self]) -> None:
        if any(bool(other.tags) != bool(self.tags) for other in others if other.length and self.length):
            raise IncompatibleVectors("vectors with tags and vectors without cannot be combined")


@dataclass(frozen=True, slots=True, repr=False)
class PlainVector(WordVector):
    """The fixed-point values in clear, as 64-bit integers; it protects nothing."""

    def __post_init__(self) -> None:
        # A dataclass with slots is a class of its own, of which the short form of `super` knows nothing.
        super(PlainVector, self).__post_init__()
        limit = self.format.largest_sum(self.terms)
        if self.integers.size and max(int(self.integers.max()), -int(self.integers.min())) > limit:
            raise ValueOutOfRange("a value of a plain vector is beyond the bound of its terms")


@dataclass(frozen=True, slots=True, repr=False)
class MaskedVector(WordVector):
    """The fixed-point values modulo 2^b in unsigned words of b bits, each with a mask that makes it look random.

    Whoever knows the masks of all terms of a sum takes them off and has the sum.
    """

    def __post_init__(self) -> None:
        super(MaskedVector, self).__post_init__()
        if self.integers.dtype != word_type(self.format):
            raise MalformedVector(f"words of {self.integers.dtype} do not fit slots of {self.format.slot_bits} bits")
        if len(self.tags) != self.block_count:
            raise MalformedVector(f"{self.block_count} blocks have {len(self.tags)} tags")


def word_type(vector_format: VectorFormat) -> np.dtype[Any]:
    """The unsigned words that hold the values of a format modulo their own width."""
    return np.dtype(np.uint32 if vector_format.slot_bits == 32 else np.uint64)
