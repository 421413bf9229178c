"""Pseudo-random bytes for the blocks of a message: the key stream of AES-256-CTR.

The key of a stream follows from a secret and a label, so that every label has a stream of its own. One stream covers a
stretch of blocks, and a block takes the bytes that stand at its index: one call for each block would cost many times as
much.
"""

import hashlib
from typing import Final

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

_KEY_BYTES: Final = 32
_ZERO_COUNTER: Final = bytes(16)
"""Every key serves for one stream, so that its counter may begin at zero."""


def key_stream(secret: bytes, label: bytes, size: int) -> bytes:
    """The first `size` bytes of the stream of this label."""
    key = hashlib.blake2b(label, key=secret, digest_size=_KEY_BYTES).digest()
    return Cipher(algorithms.AES256(key), modes.CTR(_ZERO_COUNTER)).encryptor().update(bytes(size))
