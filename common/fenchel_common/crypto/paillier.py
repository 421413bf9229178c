"""The public half of Paillier: the key, and arithmetic that needs no secret.

With modulus n = p·q and generator n + 1, a plaintext m modulo n is encrypted as (1 + m·n)·r^n mod n². Multiplying two
ciphertexts adds their plaintexts. Nothing here can decrypt.
"""

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from operator import mul

import gmpy2
from gmpy2 import mpz

from fenchel_common.defaults import KEY_BITS
from fenchel_common.errors import InvalidCiphertext, KeyTooSmall, MalformedVector

MINIMUM_KEY_BITS = 2048
FINGERPRINT_LABEL = b"fenchel paillier public key v1\0"


@dataclass(frozen=True)
class PublicKey:
    """A Paillier modulus n of exactly `bits` bits.

    Parameters
    ----------
    n
        The modulus, the product of two primes of equal length.
    test_only_small
        Admits a modulus of fewer than 2048 bits. Such a key protects nothing.
    """

    n: mpz
    test_only_small: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", mpz(self.n))
        if self.bits < MINIMUM_KEY_BITS and not self.test_only_small:
            raise KeyTooSmall(
                f"a Paillier key of {self.bits} bits can be factored; use at least {MINIMUM_KEY_BITS} "
                f"(the default is {KEY_BITS})"
            )

    def __repr__(self) -> str:
        return f"PublicKey({self.bits} bits, {self.short_fingerprint})"

    @cached_property
    def bits(self) -> int:
        return int(self.n.bit_length())

    @cached_property
    def n_squared(self) -> mpz:
        return self.n * self.n

    @cached_property
    def modulus_bytes(self) -> int:
        return (self.bits + 7) // 8

    @cached_property
    def ciphertext_bytes(self) -> int:
        """The fixed width of a ciphertext on the wire."""
        return 2 * self.modulus_bytes

    @cached_property
    def fingerprint(self) -> bytes:
        """32 bytes that name this key."""
        return hashlib.sha256(FINGERPRINT_LABEL + self.to_bytes()).digest()

    @property
    def short_fingerprint(self) -> str:
        """The fingerprint's first 64 bits, for people to compare."""
        return self.fingerprint[:8].hex()

    def to_bytes(self) -> bytes:
        return bytes(self.n.to_bytes(self.modulus_bytes, "little"))

    @classmethod
    def from_bytes(cls, data: bytes, *, test_only_small: bool = False) -> "PublicKey":
        n = mpz.from_bytes(data, "little")
        if not data or data[-1] == 0 or n % 2 == 0:
            raise MalformedVector("a Paillier modulus is an odd number without leading zero bytes")
        return cls(n, test_only_small=test_only_small)


def split(ciphertexts: bytes, width: int) -> list[mpz]:
    """The numbers in a contiguous buffer of fixed-width little-endian ciphertexts."""
    from_bytes = mpz.from_bytes
    return [from_bytes(ciphertexts[i : i + width], "little") for i in range(0, len(ciphertexts), width)]


def concatenate(numbers: Iterable[mpz], width: int) -> bytes:
    """The inverse of `split`."""
    return b"".join([number.to_bytes(width, "little") for number in numbers])


def add_many(key: PublicKey, buffers: Iterable[bytes]) -> bytes:
    """Ciphertexts of the sums over equally long buffers, of which there is at least one; each is read once.

    The result is a deterministic function of its inputs: it hides the values from everyone without the private key, but
    not that it came from these inputs.
    """
    width = key.ciphertext_bytes
    remaining = iter(buffers)
    totals = split(next(remaining), width)
    for buffer in remaining:
        totals = _reduced(list(map(mul, totals, split(buffer, width))), key.n_squared)
    return concatenate(totals, width)


def _reduced(numbers: list[mpz], modulus: mpz) -> list[mpz]:
    """The remainders; of gmpy2's operations on big numbers only those on lists release the GIL."""
    remainders: list[mpz] = gmpy2.powmod_base_list(numbers, 1, modulus)
    return remainders


def validate(key: PublicKey, ciphertexts: bytes) -> None:
    """Checks that a buffer from outside consists of elements of the ciphertext group.

    Each number must lie strictly between 0 and n². A number with a common factor with n would reveal that factor to
    everyone who computes it; the greatest common divisor is computed once, of the product of all numbers.

    Raises
    ------
    MalformedVector
        The length is not a multiple of the ciphertext width.
    InvalidCiphertext
        A number is 0, not below n², or shares a factor with n. The message names its position.
    """
    width, n, n_squared = key.ciphertext_bytes, key.n, key.n_squared
    if len(ciphertexts) % width:
        raise MalformedVector(
            f"{len(ciphertexts)} bytes are not a whole number of {width}-byte ciphertexts; the buffer was cut or padded"
        )
    numbers = split(ciphertexts, width)
    for position, number in enumerate(numbers):
        if not 0 < number < n_squared:
            problem = "is zero" if number == 0 else "is not below n²"
            raise InvalidCiphertext(f"ciphertext {position} {problem}")
    if math.gcd(_product(numbers, n), n) != 1:
        raise InvalidCiphertext("a ciphertext shares a factor with the key's modulus")


def _product(numbers: list[mpz], modulus: mpz) -> mpz:
    """The product modulo `modulus`, of pairs and pairs of pairs, so that other threads work during the reductions."""
    factors = _reduced(numbers, modulus)
    while len(factors) > 1:
        odd = factors[len(factors) & ~1 :]
        factors = _reduced([*map(mul, factors[::2], factors[1::2]), *odd], modulus)
    return factors[0] if factors else mpz(1)
