"""A cipher that keeps count of the time it takes, and the stopwatch that it keeps it on."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.vectors import Cipher, Vector


@dataclass(slots=True)
class Stopwatch:
    """Seconds spent since the start: in the cipher, and between messages and their values.

    `opened` counts the vectors that were decrypted, or on whose decryption was begun.
    """

    encrypt_s: float = 0.0
    decrypt_s: float = 0.0
    serialise_s: float = 0.0
    opened: int = 0

    @contextmanager
    def serialising(self) -> Iterator[None]:
        """Counts the time inside as serialisation."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.serialise_s += time.perf_counter() - began


@dataclass(frozen=True, slots=True)
class TimedCipher:
    """Does what the cipher in it does, and adds the seconds to the stopwatch."""

    cipher: Cipher
    stopwatch: Stopwatch

    @property
    def slots(self) -> int:
        return self.cipher.slots

    def encrypt(self, values: NDArray[np.float64], vector_format: VectorFormat) -> Vector:
        began = time.perf_counter()
        vector = self.cipher.encrypt(values, vector_format)
        self.stopwatch.encrypt_s += time.perf_counter() - began
        return vector

    def decrypt(self, vector: Vector) -> NDArray[np.float64]:
        began = time.perf_counter()
        self.stopwatch.opened += 1
        values = self.cipher.decrypt(vector)
        self.stopwatch.decrypt_s += time.perf_counter() - began
        return values
