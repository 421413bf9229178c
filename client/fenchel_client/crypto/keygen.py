"""Generation of Paillier keys whose group orders are known.

Each prime is p = 2·c·R·… + 1 with a large random prime R and a small random c, so that p − 1 is completely factored at
no cost. Two things follow: p − 1 has a factor too large for Pollard's method, and a primitive root can be recognised.
Exactly uniform nonces need a primitive root.
"""

import math
import secrets

import gmpy2
from gmpy2 import mpz

from fenchel_client.crypto.keys import SUBGROUP_ORDER_BITS, KeyKind, PrivateKey, SecretPrime, pair_flaw
from fenchel_common.crypto.paillier import MINIMUM_KEY_BITS
from fenchel_common.defaults import KEY_BITS
from fenchel_common.errors import KeyTooSmall

COFACTOR_BITS = 32


def generate_private_key(
    bits: int = KEY_BITS, kind: KeyKind = KeyKind.STANDARD, *, test_only_small: bool = False
) -> PrivateKey:
    """A fresh key with a modulus of exactly `bits` bits.

    Raises
    ------
    KeyTooSmall
        `bits` is below 2048, and `test_only_small` does not say that the key protects nothing.
    """
    if bits < MINIMUM_KEY_BITS and not test_only_small:
        raise KeyTooSmall(f"a Paillier key of {bits} bits can be factored; use {MINIMUM_KEY_BITS} or {KEY_BITS}")
    if bits % 16 or bits < 256:
        raise KeyTooSmall(f"a key size is a multiple of 16 and at least 256 bits, even in tests; {bits} is not")
    while True:
        p, q = _secret_prime(bits, kind), _secret_prime(bits, kind)
        if pair_flaw(p, q) is None:
            return PrivateKey(p, q, kind, test_only_small=test_only_small)


def _secret_prime(key_bits: int, kind: KeyKind) -> SecretPrime:
    half = key_bits // 2
    orders: tuple[mpz, ...] = ()
    if kind is KeyKind.SUBGROUP:
        orders = (_random_prime(min(SUBGROUP_ORDER_BITS, half // 3)),)
    known = math.prod(orders, start=mpz(1))
    large = _random_prime(half - known.bit_length() - COFACTOR_BITS)
    step = 2 * known * large
    # Both top bits of p are set, so that the product of two such primes has exactly key_bits bits.
    lowest = (mpz(3) << (half - 2)) // step + 1
    count = (mpz(1) << half) // step - lowest
    while True:
        candidate = step * (lowest + secrets.randbelow(int(count))) + 1
        if gmpy2.is_prime(candidate):
            return SecretPrime(candidate, (*orders, large))


def _random_prime(bits: int) -> mpz:
    while True:
        candidate = mpz(secrets.randbits(bits)) | (mpz(1) << (bits - 1)) | 1
        if gmpy2.is_prime(candidate):
            return candidate
