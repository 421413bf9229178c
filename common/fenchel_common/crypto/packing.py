"""Fixed point values in the slots of one big integer, with a tag above them.

The algebra that must hold
    A value v is the integer round(v·2^f). A plaintext of S slots of b bits is m = Σ_j v_j·2^(b·j) + t·2^(b·S), a plain
    signed sum: negative slots borrow from their upper neighbours, and adding two plaintexts adds every slot and the
    tags. `fenchel_common.crypto.tags` says what a tag is. Slots and tag fill at most |n| − 2 bits, which keeps |m|
    below n/2: m and its sign survive the reduction modulo n. The tag has at least 126 bits. That leaves 30 slots of 64
    bits or 60 of 32 bits to a 2048-bit key, 46 or 92 to a 3072-bit key.

Decoding
    Adding OFF = Σ_j 2^(b·j+b−1) + 2^(b·S+W−1) repairs all borrows at once: every field is then an unsigned number. A
    mask without that offset returns about half of the slots wrong by one unit.

Overflow
    A sum of t terms, each below the public bound M, stays in its slot while t·M·2^f ≤ 2^(b−1). Where M bounds the sum
    of the terms' magnitudes too, the sum stays in its slot while M·2^f + t/2 ≤ 2^(b−1): rounding adds at most 1/2 a
    term. These bounds and the count of terms make overflow impossible among honest parties; the tag shows every other
    sum.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from fenchel_common.crypto.tags import TAG_BITS
from fenchel_common.errors import TagMismatch, TooManyTerms, ValueNotFinite, ValueOutOfRange

RESERVED_BITS: Final = 128
"""Bits of a key that no slot uses: 126 for the tag, and 2 so that every plaintext is below n/2."""
FRACTION_BITS: Final = {64: 32, 48: 24, 32: 16}
GUARD_BITS: Final = {64: 10, 48: 8, 32: 6}
WIDEST_SHARES: Final = 48
"""The widest slots for shares of a bounded sum; a float has no bits for more fraction bits than these have."""


@dataclass(frozen=True, slots=True)
class VectorFormat:
    """The public parameters of one kind of vector.

    Parameters
    ----------
    slot_bits
        Width b of a slot: 64, 48 or 32.
    bound
        Every value must be smaller than this in magnitude. By default it leaves 10 guard bits (8 in 48-bit slots, 6 in
        32-bit slots): sums of 1024 (256, 64) terms.
    shares
        Whether the values are shares of a sum whose terms together are below the bound in magnitude, however many they
        are. Only in slots of 48 and 32 bits.

    Values are rounded to multiples of 2^-f; the error of a sum is at most terms·2^-(f+1). f is half the width of a
    slot. Of shares it is the most with which the bound takes half of the range of a slot: b − 2 for the bound 1.
    """

    slot_bits: int = 64
    bound: float = 0.0
    shares: bool = False

    def __post_init__(self) -> None:
        if self.slot_bits not in FRACTION_BITS:
            raise ValueOutOfRange(f"slots have 64, 48 or 32 bits, not {self.slot_bits}")
        if self.shares:
            if self.slot_bits > WIDEST_SHARES or not 1.0 <= self.bound <= float(1 << (self.slot_bits // 2)):
                raise ValueOutOfRange(
                    f"shares take slots of at most {WIDEST_SHARES} bits and a bound from 1 to 2^{self.slot_bits // 2}"
                )
            return
        if self.bound == 0.0:
            object.__setattr__(self, "bound", float(1 << (self.headroom_bits - GUARD_BITS[self.slot_bits])))
        if not 0.0 < self.bound <= float(1 << self.headroom_bits):
            raise ValueOutOfRange(
                f"the bound of a {self.slot_bits}-bit format lies above 0 and at most at 2^{self.headroom_bits}"
            )

    @property
    def fraction_bits(self) -> int:
        if self.shares:
            return self.slot_bits - 2 - math.ceil(math.log2(self.bound))
        return FRACTION_BITS[self.slot_bits]

    @property
    def headroom_bits(self) -> int:
        """Bits of a slot that remain for the whole part of a sum, without the sign."""
        return self.slot_bits - 1 - self.fraction_bits

    @property
    def resolution(self) -> float:
        return 2.0**-self.fraction_bits

    @property
    def integer_bound(self) -> float:
        """The bound in units of the resolution; an encoded magnitude lies strictly below it."""
        return self.bound * 2.0**self.fraction_bits

    def largest_sum(self, terms: int) -> float:
        """The bound of a sum of this many terms, in units of the resolution."""
        return self.integer_bound + terms / 2.0 if self.shares else terms * self.integer_bound

    @property
    def term_limit(self) -> int:
        """The most terms of a sum with which no slot can overflow."""
        largest = float(1 << (self.slot_bits - 1))
        return int(2.0 * (largest - self.integer_bound) if self.shares else largest / self.integer_bound)

    def error_bound(self, terms: int) -> float:
        """The largest distance of a decoded sum of this many terms from the exact sum."""
        return terms * 2.0 ** -(self.fraction_bits + 1)

    def quantise(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """Rounds values to fixed point.

        Raises
        ------
        ValueNotFinite, ValueOutOfRange
            Before anything is encrypted; the message names the position, never the value.
        """
        with np.errstate(over="ignore"):
            scaled = np.rint(values * 2.0**self.fraction_bits)
        # The comparison is written so that NaN fails it.
        if scaled.size and not (scaled.max() < self.integer_bound and scaled.min() > -self.integer_bound):
            outside = np.flatnonzero(~(np.abs(scaled) < self.integer_bound))
            position = int(outside[0])
            if not np.isfinite(values.flat[position]):
                raise ValueNotFinite(f"value {position} is NaN or infinite; {outside.size} values cannot be encoded")
            raise ValueOutOfRange(
                f"value {position} is not below the public bound {self.bound:g} in magnitude; "
                f"{outside.size} values cannot be encoded"
            )
        return scaled.astype(np.int64)

    def dequantise(self, integers: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.multiply(integers, self.resolution, dtype=np.float64)

    def rounded(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The values as their receiver decodes them, so that sender and receiver compute with the same numbers.

        Raises as `quantise` does.
        """
        return self.dequantise(self.quantise(values))


@dataclass(frozen=True)
class SlotLayout:
    """The positions of the slots of a format in the plaintext of a key of `key_bits` bits."""

    format: VectorFormat
    key_bits: int

    @cached_property
    def slots(self) -> int:
        return (self.key_bits - RESERVED_BITS) // self.format.slot_bits

    @cached_property
    def tag_width(self) -> int:
        """Bits above the slots, for the sum of the tags and its sign."""
        return self.key_bits - 2 - self.slots * self.format.slot_bits

    @cached_property
    def term_limit(self) -> int:
        """The most terms of a sum with which neither a slot nor the tag can overflow."""
        in_tag = 1 << (self.tag_width - 1 - TAG_BITS)
        return min(self.format.term_limit, in_tag)

    @cached_property
    def slot_bytes(self) -> int:
        return self.format.slot_bits // 8

    @cached_property
    def slots_width(self) -> int:
        """Bits of all slots together; the tag begins above them."""
        return self.slots * self.format.slot_bits

    @cached_property
    def offset(self) -> mpz:
        half_slots = sum(mpz(1) << (self.format.slot_bits * (j + 1) - 1) for j in range(self.slots))
        return half_slots + (mpz(1) << (self.slots_width + self.tag_width - 1))

    def block_count(self, length: int) -> int:
        return -(-length // self.slots)

    def check_terms(self, terms: int) -> None:
        if not 0 < terms <= self.term_limit:
            raise TooManyTerms(
                f"a sum of {terms} terms does not fit: this format takes at most {self.term_limit} of values below "
                f"{self.format.bound:g}; decrypt and encrypt afresh before adding more"
            )

    def grid(self, integers: NDArray[np.int64]) -> NDArray[np.int64]:
        """(B, S) the integers block by block; slots beyond the last integer are zero."""
        grid = np.zeros((self.block_count(integers.size), self.slots), dtype=np.int64)
        grid.reshape(-1)[: integers.size] = integers
        return grid

    def pack(self, grid: NDArray[np.int64], tags: Sequence[int]) -> list[mpz]:
        """Signed plaintexts, one a block; `tags` has the tag of each block."""
        biased = grid.view(np.uint64) + np.uint64(1 << (self.format.slot_bits - 1))
        octets = biased.astype("<u8").view(np.uint8).reshape(*grid.shape, 8)[:, :, : self.slot_bytes]
        buffer, width, from_bytes = octets.tobytes(), self.slots * self.slot_bytes, mpz.from_bytes
        half_tag = mpz(1) << (self.tag_width - 1)
        return [
            from_bytes(buffer[i * width : (i + 1) * width], "little")
            + ((half_tag + tag) << self.slots_width)
            - self.offset
            for i, tag in enumerate(tags)
        ]

    def unpack(self, plaintexts: Sequence[mpz]) -> tuple[NDArray[np.int64], list[int]]:
        """(B, S) the slots of signed plaintexts, and the tag of each block; nothing of it is checked yet.

        Raises
        ------
        TagMismatch
            A plaintext is wider than its slots and its tag.
        """
        limit = mpz(1) << (self.slots_width + self.tag_width)
        biased = [plaintext + self.offset for plaintext in plaintexts]
        if any(not 0 <= number < limit for number in biased):
            raise TagMismatch("a plaintext is wider than its slots: a foreign ciphertext")
        mask, width = (mpz(1) << self.slots_width) - 1, self.slots * self.slot_bytes
        buffer = b"".join([(number & mask).to_bytes(width, "little") for number in biased])
        octets = np.zeros((len(plaintexts), self.slots, 8), dtype=np.uint8)
        octets[:, :, : self.slot_bytes] = np.frombuffer(buffer, dtype=np.uint8).reshape(
            len(plaintexts), self.slots, self.slot_bytes
        )
        unsigned = octets.reshape(len(plaintexts), self.slots * 8).view("<u8").astype(np.uint64)
        half_tag = 1 << (self.tag_width - 1)
        tags = [int(number >> self.slots_width) - half_tag for number in biased]
        return (unsigned - np.uint64(1 << (self.format.slot_bits - 1))).view(np.int64), tags


@lru_cache(maxsize=64)
def slot_layout(vector_format: VectorFormat, key_bits: int) -> SlotLayout:
    """The layout of a format under keys of one size; cached, because its tables are used for every vector."""
    return SlotLayout(vector_format, key_bits)
