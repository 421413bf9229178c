"""Keys that somebody made to hang or to weaken the party that takes them: each is refused, at once."""

import json
import math
import secrets
from collections.abc import Callable

import gmpy2
import pytest
from gmpy2 import mpz

from fenchel_client.crypto.keyfile import FILE_FORMAT, FILE_VERSION, private_key_from_bytes
from fenchel_client.crypto.keys import KeyKind, SecretPrime
from fenchel_common.errors import KeyFileError
from support.keys import private_key

Made = tuple[SecretPrime, SecretPrime, KeyKind]


def random_prime(bits: int) -> mpz:
    return gmpy2.next_prime(mpz(3) << (bits - 2) | secrets.randbits(bits - 2))


def prime_with(*factors: mpz, bits: int = 1024) -> SecretPrime:
    """A prime p of so many bits whose p − 1 is 2·c times these factors and a further large one, all on record."""
    known = math.prod(factors, start=mpz(2))
    rest = random_prime(bits - known.bit_length() - 30)
    lowest = (mpz(3) << (bits - 2)) // (known * rest) + 1
    while True:
        value = known * rest * (lowest + secrets.randbelow(1 << 27)) + 1
        if gmpy2.is_prime(value):
            return SecretPrime(value, (*factors, rest))


def encoded(p: SecretPrime, q: SecretPrime, kind: KeyKind) -> bytes:
    primes = {
        name: {"value": hex(prime.value), "large_factors": [hex(factor) for factor in prime.large_factors]}
        for name, prime in (("p", p), ("q", q))
    }
    return json.dumps({"format": FILE_FORMAT, "version": FILE_VERSION, "kind": kind, **primes}).encode()


def bare(prime: SecretPrime, *factors: mpz) -> SecretPrime:
    return SecretPrime(prime.value, factors)


def short_order() -> Made:
    return prime_with(random_prime(64)), prime_with(random_prime(64)), KeyKind.SUBGROUP


def order_of_two() -> Made:
    p, q = private_key().secret_primes()
    return bare(p, mpz(2)), bare(q, mpz(2)), KeyKind.SUBGROUP


def endless_cofactor() -> Made:
    """Nonces of a standard key would need the factors of a number of 767 bits."""
    p, q = private_key(2048, KeyKind.SUBGROUP).secret_primes()
    return bare(p, p.large_factors[0]), bare(q, q.large_factors[0]), KeyKind.STANDARD


def cofactor_of_64_bits() -> Made:
    hidden = random_prime(33)
    p = prime_with(hidden)
    return bare(p, p.large_factors[1]), private_key().secret_primes()[1], KeyKind.STANDARD


def a_factor_below_32_bits() -> Made:
    p = prime_with(random_prime(31))
    return p, private_key().secret_primes()[1], KeyKind.STANDARD


def many_factors() -> Made:
    p = prime_with(random_prime(256), random_prime(256))
    return p, private_key(2048, KeyKind.SUBGROUP).secret_primes()[1], KeyKind.SUBGROUP


def a_factor_twice() -> Made:
    p, q = private_key().secret_primes()
    return bare(p, *p.large_factors, *p.large_factors), q, KeyKind.STANDARD


def a_composite_factor() -> Made:
    p, q = private_key(2048, KeyKind.SUBGROUP).secret_primes()
    return bare(p, math.prod(p.large_factors)), q, KeyKind.SUBGROUP


def a_common_order() -> Made:
    order = random_prime(256)
    return prime_with(order), prime_with(order), KeyKind.SUBGROUP


def an_order_that_divides_the_other_prime_minus_one() -> Made:
    order = random_prime(256)
    p, q = prime_with(order), prime_with(order)
    return p, bare(q, math.prod(q.large_factors)), KeyKind.SUBGROUP


def unbalanced() -> Made:
    return prime_with(bits=512), prime_with(bits=1536), KeyKind.STANDARD


def close_together() -> Made:
    p = random_prime(1024)
    return SecretPrime(p), SecretPrime(gmpy2.next_prime(p)), KeyKind.STANDARD


def modulus_not_coprime_to_its_totient() -> Made:
    """q = 2·k·p + 1: c^(q − 1) loses what c says of m modulo p."""
    p = random_prime(1024)
    q = 2 * p + 1
    while not gmpy2.is_prime(q):
        q += 2 * p
    return SecretPrime(p), SecretPrime(q), KeyKind.STANDARD


def far_too_long() -> Made:
    return SecretPrime((mpz(1) << 200_000) - 1), SecretPrime((mpz(1) << 199_999) + 1), KeyKind.STANDARD


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (short_order, "no order of at least 256 bits"),
        (order_of_two, "large factor of p − 1 in common"),
        (endless_cofactor, "leaves more than 34 bits of p − 1 without factors"),
        (cofactor_of_64_bits, "leaves more than 34 bits of p − 1 without factors"),
        (a_factor_below_32_bits, "wrong, or not above 32 bits"),
        (many_factors, "more than 2 factors, or one twice"),
        (a_factor_twice, "more than 2 factors, or one twice"),
        (a_composite_factor, "not all prime"),
        (a_common_order, "large factor of p − 1 in common"),
        (an_order_that_divides_the_other_prime_minus_one, "large factor of p − 1 in common"),
        (unbalanced, "have different lengths"),
        (close_together, "too close"),
        (modulus_not_coprime_to_its_totient, "have different lengths"),
        (far_too_long, "more than 4096 bits"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_key_that_is_weak_or_endless_is_refused_without_showing_it(make: Callable[[], Made], reason: str) -> None:
    p, q, kind = make()
    with pytest.raises(KeyFileError, match=reason) as caught:
        private_key_from_bytes(encoded(p, q, kind))
    assert not any(hex(prime.value)[2:20] in str(caught.value) for prime in (p, q))


def test_what_the_refusals_are_made_of_is_a_good_key_where_nothing_is_wrong_with_it() -> None:
    for kind, factors in ((KeyKind.STANDARD, 0), (KeyKind.SUBGROUP, 1)):
        p, q = (prime_with(*(random_prime(256) for _ in range(factors))) for _ in range(2))
        assert private_key_from_bytes(encoded(p, q, kind)).kind is kind
