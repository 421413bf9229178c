"""Conversion between keys of the `phe` package (python-paillier) and ours.

Ciphertexts need no conversion: they are the same numbers. `phe` decrypts what either kind of our keys encrypts. A
standard key of ours decrypts everything that `phe` encrypts; a subgroup key only what a subgroup key encrypted.
"""

from gmpy2 import mpz
from phe.paillier import PaillierPrivateKey, PaillierPublicKey

from fenchel_client.crypto.keys import PrivateKey, SecretPrime
from fenchel_common.crypto.paillier import PublicKey


def public_key_to_phe(key: PublicKey) -> PaillierPublicKey:
    return PaillierPublicKey(int(key.n))


def public_key_from_phe(key: PaillierPublicKey, *, test_only_small: bool = False) -> PublicKey:
    return PublicKey(mpz(key.n), test_only_small=test_only_small)


def private_key_to_phe(key: PrivateKey) -> PaillierPrivateKey:
    p, q = key.secret_primes()
    return PaillierPrivateKey(public_key_to_phe(key.public_key), int(p.value), int(q.value))


def private_key_from_phe(key: PaillierPrivateKey, *, test_only_small: bool = False) -> PrivateKey:
    """The same key. Its nonces are made by exponentiation, since the factors of p − 1 are unknown: exactly as safe, and
    several times slower than with a key that we generated."""
    return PrivateKey(SecretPrime(mpz(key.p)), SecretPrime(mpz(key.q)), test_only_small=test_only_small)
