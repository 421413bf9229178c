"""Fixed point values in the slots of one big integer.

The algebra that must hold
    A value v is the integer round(v·2^f). A plaintext of S slots of b bits is m = Σ_j v_j·2^(b·j) + c·2^(b·S), a plain
    signed sum: negative slots borrow from their upper neighbours, and adding two plaintexts adds every slot. c is a
    checksum, a linear function of the slots modulo 2^20, so sums and integer multiples keep it valid.
    Slots and checksum fill at most |n| − 2 bits, which keeps |m| below n/2: m and its sign survive the reduction
    modulo n. That leaves 31 slots of 64 bits to a 2048-bit key, 47 to a 3072-bit key.

Decoding
    Adding OFF = Σ_j 2^(b·j+b−1) + 2^(b·S+W−1) repairs all borrows at once: every field is then an unsigned number. A
    mask without that offset returns about half of the slots wrong by one unit.

Overflow
    A sum of t terms, each below the public bound M, stays in its slot while t·M·2^f ≤ 2^(b−1). That bound and the count
    of terms make overflow impossible among honest peers. The checksum catches the rest: one slot that wraps changes
    itself by 2^b and its upper neighbour by 1, which a range check cannot see.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from fenchel_common.errors import ChecksumMismatch, TooManyTerms, ValueNotFinite, ValueOutOfRange

CHECKSUM_BITS: Final = 20
CHECKSUM_MASK: Final = np.uint64((1 << CHECKSUM_BITS) - 1)
# Slot j counts MULTIPLIER^j times. With unequal odd weights, overflows of opposite sign in two slots do not cancel.
CHECKSUM_MULTIPLIER: Final = 0x9E375
MAXIMUM_CHECKSUM_WIDTH: Final = 62  # handled in one 64-bit word
FRACTION_BITS: Final = {64: 32, 48: 24}
GUARD_BITS: Final = {64: 10, 48: 8}


@dataclass(frozen=True, slots=True)
class VectorFormat:
    """The public parameters of one kind of vector.

    Parameters
    ----------
    slot_bits
        Width b of a slot: 64 or 48.
    bound
        Every value must be smaller than this in magnitude. By default it leaves 10 guard bits (8 in 48-bit slots):
        sums of 1024 (256) terms.

    Values are rounded to multiples of 2^-f with f = 32 (24); the error of a sum is at most terms·2^-(f+1).
    """

    slot_bits: int = 64
    bound: float = 0.0

    def __post_init__(self) -> None:
        if self.slot_bits not in FRACTION_BITS:
            raise ValueOutOfRange(f"slots have 64 or 48 bits, not {self.slot_bits}")
        if self.bound == 0.0:
            object.__setattr__(self, "bound", float(1 << (self.headroom_bits - GUARD_BITS[self.slot_bits])))
        if not 0.0 < self.bound <= float(1 << self.headroom_bits):
            raise ValueOutOfRange(
                f"the bound of a {self.slot_bits}-bit format lies above 0 and at most at 2^{self.headroom_bits}"
            )

    @property
    def fraction_bits(self) -> int:
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
        reserved = 2 + CHECKSUM_BITS + GUARD_BITS[self.format.slot_bits]
        return (self.key_bits - reserved) // self.format.slot_bits

    @cached_property
    def checksum_width(self) -> int:
        """Bits above the slots that the checksum and its carries may use."""
        return min(self.key_bits - 2 - self.slots * self.format.slot_bits, MAXIMUM_CHECKSUM_WIDTH)

    @cached_property
    def term_limit(self) -> int:
        """The most terms of a sum with which neither a slot nor the checksum can overflow."""
        in_slot = int(float(1 << self.format.headroom_bits) / self.format.bound)
        in_checksum = 1 << (self.checksum_width - 1 - CHECKSUM_BITS)
        return min(in_slot, in_checksum)

    @cached_property
    def slot_bytes(self) -> int:
        return self.format.slot_bits // 8

    @cached_property
    def checksum_bytes(self) -> int:
        return (self.checksum_width + 7) // 8

    @cached_property
    def plaintext_bytes(self) -> int:
        return (self.key_bits + 7) // 8

    @cached_property
    def offset(self) -> mpz:
        half_slots = sum(mpz(1) << (self.format.slot_bits * (j + 1) - 1) for j in range(self.slots))
        top = self.format.slot_bits * self.slots
        return half_slots + (mpz(1) << (top + self.checksum_width - 1))

    @cached_property
    def weights(self) -> NDArray[np.uint64]:
        powers = [pow(CHECKSUM_MULTIPLIER, j, 1 << CHECKSUM_BITS) for j in range(self.slots)]
        return np.array(powers, dtype=np.uint64)

    def block_count(self, length: int) -> int:
        return -(-length // self.slots)

    def check_terms(self, terms: int) -> None:
        if not 0 < terms <= self.term_limit:
            raise TooManyTerms(
                f"a sum of {terms} terms does not fit: this format takes at most {self.term_limit} of values below "
                f"{self.format.bound:g}; decrypt and encrypt afresh before adding more"
            )

    def pack(self, integers: NDArray[np.int64]) -> list[mpz]:
        """Signed plaintexts, one a block."""
        blocks = self.block_count(integers.size)
        grid = np.zeros((blocks, self.slots), dtype=np.int64)
        grid.reshape(-1)[: integers.size] = integers
        rows = np.zeros((blocks, self.plaintext_bytes), dtype=np.uint8)
        biased = grid.view(np.uint64) + np.uint64(1 << (self.format.slot_bits - 1))
        used = self.slots * self.slot_bytes
        rows[:, :used] = self._octets(biased)[:, :, : self.slot_bytes].reshape(blocks, used)
        checksums = self._checksums(grid) + np.uint64(1 << (self.checksum_width - 1))
        rows[:, used : used + self.checksum_bytes] = self._octets(checksums)[:, : self.checksum_bytes]
        buffer, width, offset, from_bytes = rows.tobytes(), self.plaintext_bytes, self.offset, mpz.from_bytes
        return [from_bytes(buffer[i : i + width], "little") - offset for i in range(0, len(buffer), width)]

    def unpack(self, plaintexts: list[mpz], *, length: int, terms: int) -> NDArray[np.int64]:
        """The slots of signed plaintexts.

        Raises
        ------
        ChecksumMismatch
            A slot is beyond what `terms` honest terms can sum to, padding is not zero, or the checksum is wrong.
        """
        limit = mpz(1) << (self.slots * self.format.slot_bits + self.checksum_width)
        biased = [plaintext + self.offset for plaintext in plaintexts]
        if any(not 0 <= number < limit for number in biased):
            raise ChecksumMismatch("a plaintext is wider than its slots: an overflow or a foreign ciphertext")
        width = self.plaintext_bytes
        buffer = b"".join([number.to_bytes(width, "little") for number in biased])
        rows = np.frombuffer(buffer, dtype=np.uint8).reshape(len(plaintexts), width)
        grid = self._slots_of(rows)
        self._verify(rows, grid)
        flat = grid.reshape(-1)
        if flat.size and max(int(flat.max()), -int(flat.min())) > terms * self.format.integer_bound:
            raise ChecksumMismatch("a slot is beyond the bound of its terms: an overflow or a foreign ciphertext")
        if flat[length:].any():
            raise ChecksumMismatch("the padding of a vector is not zero: a foreign ciphertext")
        return flat[:length].copy()

    @staticmethod
    def _octets(words: NDArray[np.uint64]) -> NDArray[np.uint8]:
        return words.astype("<u8").view(np.uint8).reshape(*words.shape, 8)

    def _slots_of(self, rows: NDArray[np.uint8]) -> NDArray[np.int64]:
        blocks = rows.shape[0]
        used = self.slots * self.slot_bytes
        octets = np.zeros((blocks, self.slots, 8), dtype=np.uint8)
        octets[:, :, : self.slot_bytes] = rows[:, :used].reshape(blocks, self.slots, self.slot_bytes)
        unsigned = octets.reshape(blocks, self.slots * 8).view("<u8").astype(np.uint64)
        return (unsigned - np.uint64(1 << (self.format.slot_bits - 1))).view(np.int64)

    def _verify(self, rows: NDArray[np.uint8], grid: NDArray[np.int64]) -> None:
        blocks = rows.shape[0]
        used = self.slots * self.slot_bytes
        octets = np.zeros((blocks, 8), dtype=np.uint8)
        octets[:, : self.checksum_bytes] = rows[:, used : used + self.checksum_bytes]
        found = octets.view("<u8").astype(np.uint64).reshape(-1) - np.uint64(1 << (self.checksum_width - 1))
        wrong = np.flatnonzero((found & CHECKSUM_MASK) != self._checksums(grid))
        if wrong.size:
            raise ChecksumMismatch(
                f"the checksum of block {int(wrong[0])} is wrong: a slot overflowed or the ciphertext is foreign"
            )

    def _checksums(self, grid: NDArray[np.int64]) -> NDArray[np.uint64]:
        # Unsigned 64-bit arithmetic wraps modulo 2^64, of which 2^20 is a divisor.
        products = grid.view(np.uint64) @ self.weights
        return np.asarray(products & CHECKSUM_MASK, dtype=np.uint64)


@lru_cache(maxsize=64)
def slot_layout(vector_format: VectorFormat, key_bits: int) -> SlotLayout:
    """The layout of a format under keys of one size; cached, because its tables are used for every vector."""
    return SlotLayout(vector_format, key_bits)
