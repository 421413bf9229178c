"""Pieces of block-wise work, sealed on their way to a worker and back, whatever cluster carries them."""

import functools
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gmpy2 import mpz

from fenchel_client.crypto.blocks import encrypted
from fenchel_client.crypto.keyfile import private_key_from_bytes, private_key_to_bytes
from fenchel_client.crypto.keys import PrivateKey
from fenchel_client.crypto.obfuscators import ObfuscatorPool
from fenchel_client.workers.nodesecret import NodeSecret
from fenchel_common.crypto.paillier import concatenate, split

_KEY: Final = b"key"
_RESULT: Final = b" result"
_ID_BYTES: Final = 16
_KEYS_KEPT: Final = 2
"""A worker keeps so many keys open: those of the run at work and of the one before."""


class Work(StrEnum):
    """What is done with the blocks of a piece."""

    ENCRYPT = "encrypt"
    DECRYPT = "decrypt"


@dataclass(frozen=True, slots=True)
class Piece:
    """Sealed blocks for one worker. `name` is random, so that a result belongs to one piece alone."""

    work: Work
    name: bytes
    sealed: bytes

    @classmethod
    def of(cls, work: Work, blocks: Sequence[mpz], key: PrivateKey, secret: NodeSecret) -> "Piece":
        name = secrets.token_bytes(_ID_BYTES)
        return cls(work, name, secret.seal(_blocks_to_bytes(work, blocks, key), purpose=work.encode(), context=name))

    def result(self, sealed: bytes, key: PrivateKey, secret: NodeSecret) -> list[mpz]:
        """The blocks that a worker made of this piece; `WrongKey` if they are not its result."""
        content = secret.open(sealed, purpose=self.work.encode() + _RESULT, context=self.name)
        if self.work is Work.ENCRYPT:
            return split(content, key.public_key.ciphertext_bytes)
        return [_signed(number, key) for number in split(content, key.public_key.modulus_bytes)]


def seal_key(key: PrivateKey, secret: NodeSecret) -> bytes:
    """The key on its way to the workers of a run."""
    return secret.seal(private_key_to_bytes(key), purpose=_KEY, context=b"")


def do(sealed_key: bytes, piece: Piece) -> bytes:
    """A worker's part: opens the piece with the secret of its node, does the work, and seals the result.

    A piece may be done several times, if a worker is lost: each time with fresh nonces.
    """
    secret = NodeSecret.here()
    key, pool = _opened(sealed_key)
    content = secret.open(piece.sealed, purpose=piece.work.encode(), context=piece.name)
    public = key.public_key
    if piece.work is Work.ENCRYPT:
        plaintexts = split(content, public.modulus_bytes)
        made = concatenate(encrypted(public, plaintexts, pool.take(len(plaintexts))), public.ciphertext_bytes)
    else:
        opened = key.raw_decrypt(split(content, public.ciphertext_bytes), threads=1)
        made = concatenate((m % public.n for m in opened), public.modulus_bytes)
    return secret.seal(made, purpose=piece.work.encode() + _RESULT, context=piece.name)


@functools.lru_cache(maxsize=_KEYS_KEPT)
def _opened(sealed_key: bytes) -> tuple[PrivateKey, ObfuscatorPool]:
    key = private_key_from_bytes(NodeSecret.here().open(sealed_key, purpose=_KEY, context=b""))
    return key, ObfuscatorPool(key)


def _blocks_to_bytes(work: Work, blocks: Sequence[mpz], key: PrivateKey) -> bytes:
    public = key.public_key
    if work is Work.ENCRYPT:
        return concatenate((m % public.n for m in blocks), public.modulus_bytes)
    return concatenate(blocks, public.ciphertext_bytes)


def _signed(number: mpz, key: PrivateKey) -> mpz:
    n = key.public_key.n
    return number - n if number > n >> 1 else number
