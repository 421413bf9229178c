"""Vectors that can be added without being decrypted.

A vector is a sequence of blocks of S slots each. `EncryptedVector` has one Paillier ciphertext for each block, and
hides its values from everyone without the private key. `fenchel_common.crypto.words` has vectors of machine words:
`MaskedVector`, whose values are hidden by masks, and `PlainVector` with the same fixed-point numbers in clear. All
follow the same rules, so that runs of one seed give the same numbers with every cipher.

Addition needs no key and is exact: fixed-point sums do not depend on their order.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, Self, TypeVar

from fenchel_common.crypto import sumcores
from fenchel_common.crypto.packing import SlotLayout, VectorFormat, slot_layout
from fenchel_common.crypto.paillier import PublicKey
from fenchel_common.errors import IncompatibleVectors, MalformedVector, WrongKey


class Vector(Protocol):
    """The operations of every kind of vector; none of them needs a private key or changes a vector.

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


def check_same_shape(left: Vector, right: Vector) -> None:
    """Raises `IncompatibleVectors` unless both vectors are of one kind, format and length."""
    if type(right) is not type(left):
        raise IncompatibleVectors("vectors of two kinds, such as encrypted and plain ones, cannot be combined")
    if (left.format, left.length, left.slots) != (right.format, right.length, right.slots):
        raise IncompatibleVectors(
            f"vectors differ in shape: {left.length} values of {left.format} in blocks of {left.slots}, "
            f"{right.length} values of {right.format} in blocks of {right.slots}"
        )


def check_joinable(vectors: Sequence[Vector]) -> None:
    """Raises `IncompatibleVectors` unless the vectors can be joined in this order."""
    first = vectors[0]
    for vector in vectors[1:]:
        if (type(vector), vector.format, vector.slots) != (type(first), first.format, first.slots):
            raise IncompatibleVectors("only vectors of one kind, format and block size can be joined")
    for vector in vectors[:-1]:
        if vector.length % vector.slots:
            raise IncompatibleVectors("only the last of joined vectors may end with a partly filled block")


def runs(blocks: Sequence[int]) -> list[tuple[int, int]]:
    """The positions as ranges of consecutive ones, each with its first position and the one after its last."""
    runs: list[tuple[int, int]] = []
    for block in blocks:
        if runs and runs[-1][1] == block:
            runs[-1] = runs[-1][0], block + 1
        else:
            runs.append((block, block + 1))
    return runs


def selected_length(vector: Vector, blocks: Sequence[int]) -> int:
    """The number of values in these blocks of a vector; `IncompatibleVectors` if they cannot be selected."""
    last = vector.block_count - 1
    if blocks and not (min(blocks) >= 0 and max(blocks) <= last):
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
        sumcores.validate(key, ciphertexts)
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
        length = selected_length(self, blocks)
        chosen = b"".join([self.ciphertexts[start * width : stop * width] for start, stop in runs(blocks)])
        return replace(self, length=length, ciphertexts=chosen)

    def plus(self, other: "EncryptedVector") -> "EncryptedVector":
        return self.summed_with([other])

    def joined_with(self, others: Sequence["EncryptedVector"]) -> "EncryptedVector":
        parts = [self, *others]
        check_joinable(parts)
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
        return replace(self, terms=terms, ciphertexts=sumcores.add_many(self.key, buffers))

    def _check_addable(self, other: "EncryptedVector") -> None:
        check_same_shape(self, other)
        self._check_keys([other])

    def _check_keys(self, others: Sequence["EncryptedVector"]) -> None:
        if any(other.key.n != self.key.n for other in others):
            raise WrongKey("vectors under different keys cannot be combined")
