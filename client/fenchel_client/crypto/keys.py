"""The private half of Paillier: decryption, and what a key holder needs to make nonces.

Decryption works modulo p² and q² separately. For the ciphertext c = (1 + m·n)·ρ with an n-th residue ρ, and an exponent
e that sends ρ to 1 modulo p²:

    c^e ≡ 1 + e·m·n  (mod p²),   so   m ≡ L_p(c^e mod p²)·(e·q)⁻¹  (mod p)   with   L_p(x) = (x − 1)/p.

A standard key has e = p − 1, which works for every ciphertext. A subgroup key draws its nonces from a subgroup of order
a_p modulo p², so e = a_p does: four times shorter at 2048 bits, six times at 3072.

Not protected: GMP's arithmetic takes time that depends on secrets. Whoever can measure a party's single operations
finely can learn of the key.
"""

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from typing import NoReturn

import gmpy2
from gmpy2 import mpz

from fenchel_common.crypto.paillier import PublicKey
from fenchel_common.errors import KeyFileError

SUBGROUP_ASSUMPTION = (
    "subgroup key: besides the decisional composite residuosity assumption, its safety rests on the same assumption "
    "restricted to a hidden subgroup of 256-bit prime order modulo each prime"
)


class KeyKind(StrEnum):
    """How a key's nonces are drawn."""

    STANDARD = "standard"
    """Uniform over all n-th residues: textbook Paillier's own distribution."""
    SUBGROUP = "subgroup"
    """Uniform over a hidden subgroup of them: faster to decrypt, one more assumption."""


@dataclass(frozen=True, slots=True, repr=False)
class SecretPrime:
    """A prime factor p of the modulus, with what is known of p − 1.

    `large_factors` are the prime factors of p − 1 above 32 bits; they are empty in a key that another library made.
    In a subgroup key the first of them is the order of the nonces' subgroup.
    """

    value: mpz
    large_factors: tuple[mpz, ...] = ()

    def __repr__(self) -> str:
        return "SecretPrime(hidden)"

    def __reduce__(self) -> NoReturn:
        _refuse_pickling()


class PrivateKey:
    """A Paillier private key. It has no representation that shows it, and it cannot be pickled by accident."""

    __slots__ = ("_crt_inverse", "_p", "_parts", "_q", "kind", "public_key")

    def __init__(
        self, p: SecretPrime, q: SecretPrime, kind: KeyKind = KeyKind.STANDARD, *, test_only_small: bool = False
    ) -> None:
        if not (gmpy2.is_prime(p.value) and gmpy2.is_prime(q.value)) or p.value == q.value:
            raise KeyFileError("the key's factors are not two different primes; the key is damaged")
        if kind is KeyKind.SUBGROUP and not (p.large_factors and q.large_factors):
            raise KeyFileError("a subgroup key lacks the order of its subgroup; the key is damaged")
        for prime in (p, q):
            if any((prime.value - 1) % factor or not gmpy2.is_prime(factor) for factor in prime.large_factors):
                raise KeyFileError("the key's record of its group orders is wrong; the key is damaged")
        self.public_key = PublicKey(p.value * q.value, test_only_small=test_only_small)
        self.kind = kind
        self._p, self._q = p, q
        self._parts = (self._part(p, q), self._part(q, p))
        self._crt_inverse = gmpy2.invert(p.value, q.value)

    def __repr__(self) -> str:
        return f"PrivateKey({self.public_key.bits} bits, {self.kind}, {self.public_key.short_fingerprint})"

    def __reduce__(self) -> NoReturn:
        _refuse_pickling()

    def secret_primes(self) -> tuple[SecretPrime, SecretPrime]:
        """The factors of the modulus: whoever has them can decrypt everything."""
        return self._p, self._q

    def raw_decrypt(self, ciphertexts: Sequence[mpz], *, threads: int | None = None) -> list[mpz]:
        """Signed plaintexts, in (−n/2, n/2). Uses the cores there are, with the interpreter lock released."""
        lists = self._residues(ciphertexts, threads if threads is not None else usable_cores())
        p, q, n, inverse = self._p.value, self._q.value, self.public_key.n, self._crt_inverse
        half = n >> 1
        plaintexts = (m_p + p * ((m_q - m_p) * inverse % q) for m_p, m_q in zip(*lists, strict=True))
        return [m - n if m > half else m for m in plaintexts]

    def _part(self, own: SecretPrime, other: SecretPrime) -> tuple[mpz, mpz, mpz, mpz]:
        """p, p², the exponent e and (e·q)⁻¹ mod p."""
        exponent = own.large_factors[0] if self.kind is KeyKind.SUBGROUP else own.value - 1
        return own.value, own.value**2, exponent, gmpy2.invert(exponent * other.value, own.value)

    def _residues(self, ciphertexts: Sequence[mpz], threads: int) -> tuple[list[mpz], list[mpz]]:
        if threads <= 1 or not ciphertexts:
            first, second = (_residues_modulo(ciphertexts, *part) for part in self._parts)
            return first, second
        chunks = max(1, min(threads // 2, len(ciphertexts)))
        step = -(-len(ciphertexts) // chunks)
        pieces = [ciphertexts[i : i + step] for i in range(0, len(ciphertexts), step)]
        with ThreadPoolExecutor(max_workers=threads) as executor:
            work = [[executor.submit(_residues_modulo, piece, *part) for piece in pieces] for part in self._parts]
            first, second = (_flatten(future.result() for future in futures) for futures in work)
        return first, second


def usable_cores() -> int:
    return len(os.sched_getaffinity(0))


def _residues_modulo(ciphertexts: Sequence[mpz], p: mpz, p_squared: mpz, exponent: mpz, inverse: mpz) -> list[mpz]:
    powers = gmpy2.powmod_base_list([c % p_squared for c in ciphertexts], exponent, p_squared)
    return [(power - 1) // p * inverse % p for power in powers]


def _flatten(lists: Iterable[list[mpz]]) -> list[mpz]:
    return [item for items in lists for item in items]


def _refuse_pickling() -> NoReturn:
    raise TypeError("a private key cannot be pickled or copied; save_private_key writes it to a file of mode 0600")
