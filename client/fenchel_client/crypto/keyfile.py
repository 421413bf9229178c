"""Private keys as bytes, for wrapping and for files that only their owner can read."""

import json

from gmpy2 import mpz

from fenchel_client.crypto.keys import KeyKind, PrivateKey, SecretPrime
from fenchel_common.errors import KeyFileError

FILE_FORMAT = "fenchel paillier private key"
FILE_VERSION = 1


def private_key_to_bytes(key: PrivateKey) -> bytes:
    """The whole secret, in clear: for wrapping, and for files of mode 0600."""
    p, q = (
        {"value": hex(prime.value), "large_factors": [hex(factor) for factor in prime.large_factors]}
        for prime in key.secret_primes()
    )
    return json.dumps({"format": FILE_FORMAT, "version": FILE_VERSION, "kind": key.kind, "p": p, "q": q}).encode()


def private_key_from_bytes(data: bytes, *, test_only_small: bool = False) -> PrivateKey:
    """The inverse of `private_key_to_bytes`; every claim in the bytes about the key is checked."""
    try:
        record = json.loads(data)
        if (record["format"], record["version"]) != (FILE_FORMAT, FILE_VERSION):
            raise KeyFileError(f"not a private key of version {FILE_VERSION} of this format")
        kind = KeyKind(record["kind"])
        p, q = (
            SecretPrime(
                _number(record[name]["value"]), tuple(_number(factor) for factor in record[name]["large_factors"])
            )
            for name in ("p", "q")
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        # The cause is dropped: its message could quote the secret.
        raise KeyFileError("not a private key, or a damaged one; restore it from the party's own copy") from None
    return PrivateKey(p, q, kind, test_only_small=test_only_small)


def _number(text: str) -> mpz:
    number = mpz(int(text, 16))
    if number <= 0:
        raise ValueError("not a positive number")
    return number
