"""The private half of Paillier: decryption, and the secret primes of which nonces are made.

Decryption works modulo p² and q² separately. For the ciphertext c = (1 + m·n)·ρ with an n-th residue ρ, and an exponent
e that sends ρ to 1 modulo p²:

    c^e ≡ 1 + e·m·n  (mod p²),   so   m ≡ L_p(c^e mod p²)·(e·q)⁻¹  (mod p)   with   L_p(x) = (x − 1)/p.

A standard key has e = p − 1, which works for every ciphertext. A subgroup key draws its nonces from a subgroup of order
a_p modulo p², so e = a_p works: four times shorter at 2048 bits, six times at 3072.

Every ciphertext is blinded before it is raised: multiplied by g^x modulo p², for a fixed n-th residue g that is random
and secret, and a fresh random x; modulo q² in the same way. The exponent sends g to 1, so the plaintext stays the same,
and the power, whose time depends on its operands, is never of a number that somebody else chose. x has 96 bits: before
two factors are likely to coincide 2^48 decryptions have passed, thousands of years at one in a millisecond. A longer x
would take more than 2 % of a standard decryption at 2048 bits.

Not protected: the product before the power works on the ciphertext and the steps after it on the plaintext, both of
which may be somebody else's choice, and the tables of powers of g are read at secret positions. Other programs on the
same machine can learn about the key through time and caches.
"""

import math
import os
import secrets
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NoReturn

import gmpy2
from gmpy2 import mpz

from fenchel_client.crypto.fixed_base import FixedBase, random_residue
from fenchel_common.crypto.paillier import PublicKey
from fenchel_common.errors import KeyFileError

SUBGROUP_ASSUMPTION = (
    "subgroup key: besides the decisional composite residuosity assumption, its safety rests on the same assumption "
    "restricted to a hidden subgroup of 256-bit prime order modulo each prime"
)
BLINDING_BITS: Final = 96
SUBGROUP_ORDER_BITS: Final = 256
MAX_PRIME_BITS: Final = 4096
"""The length of the primes of a modulus of 8192 bits. Tests of much longer numbers would take minutes."""
MAX_LARGE_FACTORS: Final = 2
SMALL_FACTOR_BITS: Final = 32
MAX_COFACTOR_BITS: Final = 34
"""Trial division factors such a number in a moment. `keygen` makes cofactors of twice a number of up to 33 bits."""
# Below this distance of p and q, Fermat's method finds them.
MINIMUM_DISTANCE_BITS_BELOW_HALF: Final = 100


class KeyKind(StrEnum):
    """The distribution of a key's nonces."""

    STANDARD = "standard"
    """Uniform over all n-th residues: textbook Paillier's own distribution."""
    SUBGROUP = "subgroup"
    """Uniform over a hidden subgroup of them: faster to decrypt, one more assumption."""


@dataclass(frozen=True, slots=True, repr=False)
class SecretPrime:
    """A prime factor p of the modulus, with the known factors of p − 1.

    `large_factors` are the prime factors of p − 1 above 32 bits; they are empty in a key that another library made.
    In a subgroup key the first of them is the order of the nonces' subgroup.
    """

    value: mpz
    large_factors: tuple[mpz, ...] = ()

    def __repr__(self) -> str:
        return "SecretPrime(hidden)"

    def __reduce__(self) -> NoReturn:
        _refuse_pickling()

    def cofactor(self) -> mpz:
        """p − 1 without its large factors."""
        rest = self.value - 1
        for factor in self.large_factors:
            while rest % factor == 0:
                rest //= factor
        return rest


@dataclass(frozen=True, slots=True, repr=False)
class _Half:
    """Decryption modulo p²: p, p², the exponent e, (e·q)⁻¹ mod p, and the powers of g that blind ciphertexts."""

    prime: mpz
    squared: mpz
    exponent: mpz
    inverse: mpz
    blinding: FixedBase

    @classmethod
    def of(cls, own: SecretPrime, other: SecretPrime, kind: KeyKind) -> "_Half":
        p, squared = own.value, own.value**2
        exponent = own.large_factors[0] if kind is KeyKind.SUBGROUP else p - 1
        blinding = FixedBase(random_residue(p, exponent), squared, (mpz(1) << BLINDING_BITS) - 1)
        return cls(p, squared, exponent, gmpy2.invert(exponent * other.value, p), blinding)

    def residues(self, ciphertexts: Sequence[mpz]) -> list[mpz]:
        """The plaintexts modulo p."""
        p, squared, power, inverse = self.prime, self.squared, self.blinding.power, self.inverse
        blinded = [c * power(secrets.randbits(BLINDING_BITS)) % squared for c in ciphertexts]
        powers = gmpy2.powmod_base_list(blinded, self.exponent, squared)
        return [(raised - 1) // p * inverse % p for raised in powers]


class PrivateKey:
    """A Paillier private key. It has no representation that shows it, and it cannot be pickled by accident.

    Raises
    ------
    KeyFileError
        The numbers are not a key, or a key that is weak or too large to use. An attacker may have made them, so each
        check is cheap for numbers of any size, and checks of primality come last.
    KeyTooSmall
        The modulus has fewer than 2048 bits, and `test_only_small` does not say that the key protects nothing.
    """

    __slots__ = ("_crt_inverse", "_halves", "_p", "_q", "kind", "public_key")

    def __init__(
        self, p: SecretPrime, q: SecretPrime, kind: KeyKind = KeyKind.STANDARD, *, test_only_small: bool = False
    ) -> None:
        _refuse(pair_flaw(p, q))
        self.public_key = PublicKey(p.value * q.value, test_only_small=test_only_small)
        for prime in (p, q):
            _refuse(_factors_flaw(prime))
            if kind is KeyKind.SUBGROUP:
                _refuse(_order_flaw(prime, minimum_bits=0 if test_only_small else SUBGROUP_ORDER_BITS))
        if not all(gmpy2.is_prime(number) for prime in (p, q) for number in (prime.value, *prime.large_factors)):
            _refuse("numbers are not all prime")
        self.kind = kind
        self._p, self._q = p, q
        self._halves = (_Half.of(p, q, kind), _Half.of(q, p, kind))
        self._crt_inverse = gmpy2.invert(p.value, q.value)

    def __repr__(self) -> str:
        return f"PrivateKey({self.public_key.bits} bits, {self.kind}, {self.public_key.short_fingerprint})"

    def __reduce__(self) -> NoReturn:
        _refuse_pickling()

    def secret_primes(self) -> tuple[SecretPrime, SecretPrime]:
        """The factors of the modulus, with which anybody can decrypt everything."""
        return self._p, self._q

    def raw_decrypt(self, ciphertexts: Sequence[mpz], *, threads: int | None = None) -> list[mpz]:
        """Signed plaintexts, in (−n/2, n/2). Uses all usable cores, with the interpreter lock released."""
        lists = self._residues(ciphertexts, threads if threads is not None else usable_cores())
        p, q, n, inverse = self._p.value, self._q.value, self.public_key.n, self._crt_inverse
        half = n >> 1
        plaintexts = (m_p + p * ((m_q - m_p) * inverse % q) for m_p, m_q in zip(*lists, strict=True))
        return [m - n if m > half else m for m in plaintexts]

    def _residues(self, ciphertexts: Sequence[mpz], threads: int) -> tuple[list[mpz], list[mpz]]:
        if threads <= 1 or not ciphertexts:
            first, second = (half.residues(ciphertexts) for half in self._halves)
            return first, second
        chunks = max(1, min(threads // 2, len(ciphertexts)))
        step = -(-len(ciphertexts) // chunks)
        pieces = [ciphertexts[i : i + step] for i in range(0, len(ciphertexts), step)]
        with ThreadPoolExecutor(max_workers=threads) as executor:
            work = [[executor.submit(half.residues, piece) for piece in pieces] for half in self._halves]
            first, second = (_flatten(future.result() for future in futures) for futures in work)
        return first, second


def pair_flaw(p: SecretPrime, q: SecretPrime) -> str | None:
    """The reason why two primes must not be the factors of one modulus; None if they may.

    If two primes have the same length, neither divides the other minus 1. So n and φ(n) have no common factor, as
    decryption needs.
    """
    bits = p.value.bit_length()
    if bits != q.value.bit_length() or bits > MAX_PRIME_BITS:
        return f"primes have different lengths, or more than {MAX_PRIME_BITS} bits"
    if abs(p.value - q.value).bit_length() <= max(bits - MINIMUM_DISTANCE_BITS_BELOW_HALF, bits // 2):
        return "primes are too close to each other"
    # The subgroup modulo p² must not reappear modulo q², or c^a_p would say something about m modulo q.
    if any(math.gcd(factor, other.value - 1) > 1 for own, other in ((p, q), (q, p)) for factor in own.large_factors):
        return "primes have a large factor of p − 1 in common"
    return None


def _factors_flaw(prime: SecretPrime) -> str | None:
    factors = prime.large_factors
    if len(factors) > MAX_LARGE_FACTORS or len(set(factors)) < len(factors):
        return f"record of a prime has more than {MAX_LARGE_FACTORS} factors, or one twice"
    if any(factor >> SMALL_FACTOR_BITS == 0 or (prime.value - 1) % factor for factor in factors):
        return f"record of a prime has a factor that is wrong, or not above {SMALL_FACTOR_BITS} bits"
    if factors and prime.cofactor().bit_length() > MAX_COFACTOR_BITS:
        return f"record of a prime leaves more than {MAX_COFACTOR_BITS} bits of p − 1 without factors"
    return None


def _order_flaw(prime: SecretPrime, *, minimum_bits: int) -> str | None:
    if not prime.large_factors or prime.large_factors[0].bit_length() < minimum_bits:
        return f"subgroup has no order of at least {minimum_bits} bits"
    return None


def _refuse(flaw: str | None) -> None:
    if flaw is not None:
        raise KeyFileError(f"the key's {flaw}; it is damaged or was made to be weak, and must not be used")


def usable_cores() -> int:
    return len(os.sched_getaffinity(0))


def _flatten(lists: Iterable[list[mpz]]) -> list[mpz]:
    return [item for items in lists for item in items]


def _refuse_pickling() -> NoReturn:
    raise TypeError("a private key cannot be pickled or copied; private_key_to_bytes gives its bytes")
