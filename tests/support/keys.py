"""Keys that tests share, because making one takes a noticeable part of a second."""

from functools import lru_cache

from fenchel_client.crypto.cipher import PaillierCipher
from fenchel_client.crypto.keygen import generate_private_key
from fenchel_client.crypto.keys import KeyKind, PrivateKey
from fenchel_client.crypto.obfuscators import ObfuscatorPool

SMALL_BITS = 256


@lru_cache(maxsize=16)
def private_key(bits: int = 2048, kind: KeyKind = KeyKind.STANDARD) -> PrivateKey:
    return generate_private_key(bits, kind, test_only_small=bits < 2048)


@lru_cache(maxsize=16)
def cipher(bits: int = 2048, kind: KeyKind = KeyKind.STANDARD) -> PaillierCipher:
    key = private_key(bits, kind)
    return PaillierCipher(key, ObfuscatorPool(key))
