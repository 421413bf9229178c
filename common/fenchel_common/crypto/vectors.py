"""Vectors that can be added without being decrypted.

A vector is a sequence of blocks of S slots each; under encryption a block is one ciphertext. `EncryptedVector` hides
its values from everyone without the private key. `PlainVector` has the same fixed-point numbers in clear and follows
the same rules, so that a run in clear and an encrypted run of one seed give the same numbers.

Addition needs no key and is exact: fixed-point sums do not depend on their order.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from fenchel_common.crypto import paillier
from fenchel_common.crypto.packing import SlotLayout, VectorFormat, slot_layout
from fenchel_common.crypto.paillier import PublicKey
from fenchel_common.crypto.tags import TAG_PRIME, PadSum, Tagger
from fenchel_common.errors import IncompatibleVectors, MalformedVector, ValueOutOfRange, WrongKey


class Vector(Protocol):
    """The operations of both kinds of vector; none of them needs a private key or changes a vector.

    `format` and `slots` say how values lie in blocks, `length` counts the values, `block_count` the blocks, and `terms`
    the fresh vectors whose sum this one is, or a bound on their number. Operations raise `IncompatibleVectors` or
    `WrongKey` if vectors do not fit each other, and `TooManyTerms` if the result could overflow a slot.
    """

    @property
    def format(self) -> VectorFormat: ...
    @property
    def length(self) -> int: ...
    @property
    def terms(self) -> int: ...
    @property
    def slots(self) -> int: ...
    @property
    def block_count(self) -> int: ...
    def select(self, blocks: Sequence[int]) -> Self:
        """The blocks at these positions, in the given order; a partly filled block must come last."""
        ...

    def plus(self, other: Self) -> Self:
        """The sum, with the terms of both; `other` must have the same format and length."""
        ...

    def joined_with(self, others: Sequence[Self]) -> Self:
        """One vector with the blocks of this one and of the others; see `join`."""
        ...

    def summed_with(self, others: Sequence[Self]) -> Self:
        """The sum of this vector and the others; see `total`."""
        ...


V = TypeVar("V", bound=Vector)


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

    def encrypt(self, values: NDArray[np.float64], vector_format: VectorFormat, pads: Sequence[int]) -> Vector:
        """A fresh vector of one term, whose blocks have tags with these pads.

        The caller must never use a pad twice. Raises `ValueNotFinite` or `ValueOutOfRange` before it encrypts anything.
        """
        ...

    def decrypt(self, vector: Vector, expected: Sequence[PadSum]) -> NDArray[np.float64]:
        """The values of a vector under this cipher's key, whose blocks must have tags with these pads.

        Raises a `CryptoError` instead of returning wrong values.
        """
        ...


def join(vectors: Sequence[V]) -> V:
    """One vector with the blocks of all, in order. All but the last must end with a full block."""
    if not vectors:
        raise IncompatibleVectors("there is no vector to join")
    return vectors[0].joined_with(vectors[1:])


def total(vectors: Sequence[V]) -> V:
    """The sum of vectors of one format and length."""
    if not vectors:
        raise IncompatibleVectors("there is no vector to sum")
    return vectors[0].summed_with(vectors[1:])


def _check_same_shape(left: "EncryptedVector | PlainVector", right: object) -> None:
    if type(right) is not type(left):
        raise IncompatibleVectors("an encrypted and a plain vector cannot be combined")
    assert isinstance(right, EncryptedVector | PlainVector)
    if (left.format, left.length, left.slots) != (right.format, right.length, right.slots):
        raise IncompatibleVectors(
            f"vectors differ in shape: {left.length} values of {left.format} in blocks of {left.slots}, "
            f"{right.length} values of {right.format} in blocks of {right.slots}"
        )


def _check_joinable(vectors: Sequence["EncryptedVector | PlainVector"]) -> None:
    first = vectors[0]
    for vector in vectors[1:]:
        if (type(vector), vector.format, vector.slots) != (type(first), first.format, first.slots):
            raise IncompatibleVectors("only vectors of one kind, format and block size can be joined")
    for vector in vectors[:-1]:
        if vector.length % vector.slots:
            raise IncompatibleVectors("only the last of joined vectors may end with a partly filled block")


def _selected_length(vector: "EncryptedVector | PlainVector", blocks: Sequence[int]) -> int:
    last = vector.block_count - 1
    if any(not 0 <= block <= last for block in blocks):
        raise IncompatibleVectors(f"a vector of {vector.block_count} blocks has no block outside 0 to {last}")
    if vector.length % vector.slots and last in blocks[:-1]:
        raise IncompatibleVectors("a partly filled block can only be selected as the last one")
    length = len(blocks) * vector.slots
    if blocks and blocks[-1] == last:
        length -= vector.block_count * vector.slots - vector.length
    return length


@dataclass(frozen=True, slots=True)
class EncryptedVector:
    """Fixed-point values, packed and encrypted.

    Parameters
    ----------
    ciphertexts
        One fixed-width little-endian ciphertext for each block. Bytes from another process must go through `received`,
        which validates them.
    terms
        The number of fresh vectors in the sum, or a bound on it.
    """

    key: PublicKey
    format: VectorFormat
    length: int
    terms: int
    ciphertexts: bytes

    def __post_init__(self) -> None:
        layout = self.layout
        layout.check_terms(self.terms)
        expected = layout.block_count(self.length) * self.key.ciphertext_bytes
        if self.length < 0 or len(self.ciphertexts) != expected:
            raise MalformedVector(
                f"{self.length} values take {expected} bytes of ciphertext under this key, not {len(self.ciphertexts)}"
            )

    def __repr__(self) -> str:
        return f"EncryptedVector({self.length} values, {self.terms} terms, key {self.key.short_fingerprint})"

    @classmethod
    def received(
        cls,
        *,
        key: PublicKey,
        fingerprint: bytes,
        vector_format: VectorFormat,
        length: int,
        terms: int,
        ciphertexts: bytes,
    ) -> "EncryptedVector":
        """A vector from outside, with every ciphertext validated."""
        if fingerprint != key.fingerprint:
            raise WrongKey(
                f"the vector was made under key {fingerprint[:8].hex()}, this run's key is {key.short_fingerprint}"
            )
        vector = cls(key, vector_format, length, terms, ciphertexts)
        paillier.validate(key, ciphertexts)
        return vector

    @property
    def layout(self) -> SlotLayout:
        return slot_layout(self.format, self.key.bits)

    @property
    def slots(self) -> int:
        return self.layout.slots

    @property
    def block_count(self) -> int:
        return len(self.ciphertexts) // self.key.ciphertext_bytes

    def select(self, blocks: Sequence[int]) -> "EncryptedVector":
        width = self.key.ciphertext_bytes
        length = _selected_length(self, blocks)
        chosen = b"".join([self.ciphertexts[block * width : (block + 1) * width] for block in blocks])
        return replace(self, length=length, ciphertexts=chosen)

    def plus(self, other: "EncryptedVector") -> "EncryptedVector":
        self._check_addable(other)
        terms = self.terms + other.terms
        self.layout.check_terms(terms)
        return replace(self, terms=terms, ciphertexts=paillier.add(self.key, self.ciphertexts, other.ciphertexts))

    def joined_with(self, others: Sequence["EncryptedVector"]) -> "EncryptedVector":
        parts = [self, *others]
        _check_joinable(parts)
        self._check_keys(others)
        return replace(
            self,
            length=sum(part.length for part in parts),
            terms=max(part.terms for part in parts),
            ciphertexts=b"".join([part.ciphertexts for part in parts]),
        )

    def summed_with(self, others: Sequence["EncryptedVector"]) -> "EncryptedVector":
        for other in others:
            self._check_addable(other)
        terms = self.terms + sum(other.terms for other in others)
        self.layout.check_terms(terms)
        buffers = [self.ciphertexts, *(other.ciphertexts for other in others)]
        return replace(self, terms=terms, ciphertexts=paillier.add_many(self.key, buffers))

    def _check_addable(self, other: "EncryptedVector") -> None:
        _check_same_shape(self, other)
        self._check_keys([other])

    def _check_keys(self, others: Sequence["EncryptedVector"]) -> None:
        if any(other.key.n != self.key.n for other in others):
            raise WrongKey("vectors under different keys cannot be combined")


@dataclass(frozen=True, slots=True)
class PlainVector:
    """The same fixed-point values in clear; it protects nothing.

    `key_bits` is the size of the key that an encrypted run would have: blocks and term limits follow from it. `tags`
    has the tag of each block; it is empty in a run without any encryption.
    """

    key_bits: int
    format: VectorFormat
    terms: int
    integers: NDArray[np.int64]
    tags: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        self.layout.check_terms(self.terms)
        limit = self.format.largest_sum(self.terms)
        if self.integers.size and max(int(self.integers.max()), -int(self.integers.min())) > limit:
            raise ValueOutOfRange("a value of a plain vector is beyond the bound of its terms")
        if self.tags and len(self.tags) != self.block_count:
            raise MalformedVector(f"{self.block_count} blocks have {len(self.tags)} tags")
        if any(not 0 <= tag < self.terms * TAG_PRIME for tag in self.tags):
            raise MalformedVector("a tag of a plain vector is beyond that of its terms")

    def __repr__(self) -> str:
        return f"PlainVector({self.length} values, {self.terms} terms)"

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

    def select(self, blocks: Sequence[int]) -> "PlainVector":
        _selected_length(self, blocks)
        pieces = [self.integers[block * self.slots : (block + 1) * self.slots] for block in blocks]
        tags = tuple(self.tags[block] for block in blocks) if self.tags else ()
        return replace(self, integers=np.concatenate([np.empty(0, dtype=np.int64), *pieces]), tags=tags)

    def plus(self, other: "PlainVector") -> "PlainVector":
        return self.summed_with([other])

    def joined_with(self, others: Sequence["PlainVector"]) -> "PlainVector":
        parts = [self, *others]
        _check_joinable(parts)
        self._check_tagged(others)
        return replace(
            self,
            terms=max(part.terms for part in parts),
            integers=np.concatenate([part.integers for part in parts]),
            tags=tuple(tag for part in parts for tag in part.tags),
        )

    def summed_with(self, others: Sequence["PlainVector"]) -> "PlainVector":
        for other in others:
            _check_same_shape(self, other)
        self._check_tagged(others)
        terms = self.terms + sum(other.terms for other in others)
        self.layout.check_terms(terms)
        summed = sum((other.integers for other in others), start=self.integers)
        tags = tuple(map(sum, zip(self.tags, *(other.tags for other in others), strict=True)))
        return replace(self, terms=terms, integers=np.asarray(summed, dtype=np.int64), tags=tags)

    def _check_tagged(self, others: Sequence["PlainVector"]) -> None:
        if any(bool(other.tags) != bool(self.tags) for other in others if other.length and self.length):
            raise IncompatibleVectors("vectors with tags and vectors without cannot be combined")


@dataclass(frozen=True, slots=True)
class PlainCipher:
    """The cipher of vectors in clear: it encrypts nothing.

    Without a tagger, vectors have no tags, and whatever comes is taken for true: only for runs that protect nothing.
    """

    key_bits: int
    tagger: Tagger | None = None

    @property
    def slots(self) -> int:
        return self.slots_of(VectorFormat())

    def slots_of(self, vector_format: VectorFormat) -> int:
        return slot_layout(vector_format, self.key_bits).slots

    def in_clear(self) -> "PlainCipher":
        return self

    def encrypt(self, values: NDArray[np.float64], vector_format: VectorFormat, pads: Sequence[int]) -> PlainVector:
        integers = vector_format.quantise(values)
        tags: list[int] = []
        if self.tagger is not None:
            tags = self.tagger.tags(slot_layout(vector_format, self.key_bits).grid(integers), pads)
        return PlainVector(self.key_bits, vector_format, 1, integers, tuple(tags))

    def decrypt(self, vector: Vector, expected: Sequence[PadSum]) -> NDArray[np.float64]:
        if not isinstance(vector, PlainVector):
            raise IncompatibleVectors("this run is in clear, but the vector is encrypted")
        if self.tagger is not None:
            self.tagger.check(vector.layout.grid(vector.integers), vector.tags, expected)
        return vector.format.dequantise(vector.integers)
