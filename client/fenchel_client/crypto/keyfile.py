"""Private keys as bytes and as files that only their owner can read."""

import json
import os
import stat
import tempfile
from pathlib import Path

from gmpy2 import mpz

from fenchel_client.crypto.keys import KeyKind, PrivateKey, SecretPrime
from fenchel_common.errors import KeyFileError

FILE_FORMAT = "fenchel paillier private key"
FILE_VERSION = 1
OWNER_ONLY = 0o600


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
                mpz(int(record[name]["value"], 16)),
                tuple(mpz(int(factor, 16)) for factor in record[name]["large_factors"]),
            )
            for name in ("p", "q")
        )
    except (ValueError, KeyError, TypeError):
        # The cause is dropped: its message could quote the secret.
        raise KeyFileError("the private key is damaged or is none; restore it from the party's own copy") from None
    return PrivateKey(p, q, kind, test_only_small=test_only_small)


def save_private_key(key: PrivateKey, path: Path) -> None:
    """Writes the key for its owner only; the file is never visible half-written or with a wider mode."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(file.fileno(), OWNER_ONLY)
            file.write(private_key_to_bytes(key))
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def load_private_key(path: Path, *, test_only_small: bool = False) -> PrivateKey:
    """Reads a key file, refusing one that others could have read."""
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if mode & 0o077:
                raise KeyFileError(
                    f"{path} has mode {mode:04o}, so others can read it; treat the key as known to them and make a new "
                    "one, or, if nobody else uses this machine, run chmod 600 on it"
                )
            data = file.read()
    except OSError as error:
        raise KeyFileError(f"{path} cannot be read: {error.strerror}") from None
    return private_key_from_bytes(data, test_only_small=test_only_small)
