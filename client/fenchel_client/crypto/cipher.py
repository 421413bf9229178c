"""Encryption of vectors of numbers, by the parties that have the private key."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from fenchel_client.crypto.blocks import Workers, encrypted
from fenchel_client.crypto.blocktags import BlockTags
from fenchel_client.crypto.keys import PrivateKey
from fenchel_client.crypto.obfuscators import ObfuscatorPool
from fenchel_client.crypto.plain import Partners, PlainCipher
from fenchel_client.crypto.stamps import Origin, Place
from fenchel_common.crypto.packing import VectorFormat, slot_layout
from fenchel_common.crypto.paillier import concatenate, split
from fenchel_common.crypto.tags import NOT_THE_SUM, PadSum
from fenchel_common.crypto.vectors import EncryptedVector, Vector
from fenchel_common.errors import IncompatibleVectors, TagMismatch, WrongKey


@dataclass(frozen=True, slots=True)
class PaillierCipher:
    """Encrypts and decrypts vectors under one key.

    It hides values from everyone without the private key, such as the server. It does not hide them from another
    party: every party of a run has the key, and can read every ciphertext that reaches it.

    Attributes
    ----------
    nonces_meanwhile
        During a decryption, whose threads leave the interpreter to others, the pool fills up to so many nonces.
    workers
        Where long vectors are encrypted and decrypted; None for this process itself, with all usable cores.
    """

    key: PrivateKey
    pool: ObfuscatorPool
    tags: BlockTags
    threads: int | None = None
    nonces_meanwhile: int = 0
    workers: Workers | None = None

    @property
    def slots(self) -> int:
        return self.slots_of(VectorFormat())

    def slots_of(self, vector_format: VectorFormat) -> int:
        return slot_layout(vector_format, self.key.public_key.bits).slots

    def in_clear(self) -> PlainCipher:
        return PlainCipher(self.key.public_key.bits, self.tags)

    def encrypt(
        self,
        values: NDArray[np.float64],
        vector_format: VectorFormat,
        *,
        origin: Origin,
        places: Sequence[Place],
        among: Sequence[Partners] | None = None,  # noqa: ARG002 - whoever has the key reads each contribution
    ) -> EncryptedVector:
        """The encrypted values: one ciphertext for every S values, each with a nonce and a pad of its own.

        Raises
        ------
        ValueNotFinite, ValueOutOfRange
            A value does not fit the format; no nonce is used then.
        """
        public = self.key.public_key
        layout = slot_layout(vector_format, public.bits)
        grid = layout.grid(vector_format.quantise(values))
        plaintexts = layout.pack(grid, self.tags.made(grid, origin, places))
        numbers = self.workers.encrypt(plaintexts) if self.workers else None
        if numbers is None:
            numbers = encrypted(public, plaintexts, self.pool.take(len(plaintexts)))
        ciphertexts = concatenate(numbers, public.ciphertext_bytes)
        return EncryptedVector(public, vector_format, int(values.size), 1, ciphertexts)

    def decrypt(
        self,
        vector: Vector,
        *,
        origins: Sequence[Sequence[Origin]],
        places: Sequence[Place],
        among: Sequence[Partners] | None = None,  # noqa: ARG002 - whoever has the key reads each contribution
    ) -> NDArray[np.float64]:
        """The values of a vector each of whose blocks is the sum of these origins.

        Raises
        ------
        WrongKey, TagMismatch
            The vector is under another key, or is not the expected sum.
        """
        if not isinstance(vector, EncryptedVector):
            raise IncompatibleVectors("this run is encrypted, but the vector is in clear")
        if vector.key.n != self.key.public_key.n:
            raise WrongKey(
                f"the vector was made under key {vector.key.short_fingerprint}, "
                f"this party has {self.key.public_key.short_fingerprint}"
            )
        numbers = split(vector.ciphertexts, vector.key.ciphertext_bytes)
        plaintexts = self.workers.decrypt(numbers) if self.workers else None
        if plaintexts is None:
            with self.pool.idle(self.nonces_meanwhile) if self.nonces_meanwhile else nullcontext():
                plaintexts = self.key.raw_decrypt(numbers, threads=self.threads)
        return self.checked(vector, plaintexts, self.tags.expected(origins, places))

    def checked(
        self, vector: EncryptedVector, plaintexts: Sequence[mpz], expected: Sequence[PadSum]
    ) -> NDArray[np.float64]:
        """The values of a vector that decrypts to these plaintexts; `TagMismatch` if it is not the expected sum."""
        grid, tags = vector.layout.unpack(plaintexts)
        self.tags.check(grid, tags, expected)
        if grid.reshape(-1)[vector.length :].any():
            raise TagMismatch(NOT_THE_SUM)
        return vector.format.dequantise(grid.reshape(-1)[: vector.length].copy())
