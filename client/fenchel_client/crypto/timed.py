"""The time that a party spends on a task: a cipher that measures it, the stopwatch, and the times that are reported."""

import math
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fenchel_client.crypto.plain import Cipher, Partners
from fenchel_client.crypto.stamps import Origin, Place
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.vectors import Vector
from fenchel_common.setup import Spent

STEPS_PER_SECOND: Final = 100
"""The times that a party reports to the server are whole steps of this length."""

_random = secrets.SystemRandom()


def in_steps(seconds: float) -> float:
    """The time in whole steps of 10 ms, as the server is told it.

    A time between two steps becomes one of them at random, the nearer one more often in proportion. Sums over many
    tasks stay correct, and the server gains nothing by tasks whose time lies at an edge, where rounding to the nearest
    step would tell differences of microseconds.
    """
    whole = math.floor(seconds * STEPS_PER_SECOND)
    up = _random.random() < seconds * STEPS_PER_SECOND - whole
    return (whole + up) / STEPS_PER_SECOND


@dataclass(slots=True)
class Stopwatch:
    """Seconds spent since the start: in the cipher, and between messages and their values.

    `opened` counts the vectors whose decryption was begun, successful or not.
    """

    encrypt_s: float = 0.0
    decrypt_s: float = 0.0
    serialise_s: float = 0.0
    opened: int = 0

    def spent_since(self, before: "Stopwatch", *, total_s: float) -> Spent:
        """The times to report of a task that took `total_s`: each is rounded by itself, the remainder too."""
        encrypt_s, decrypt_s = self.encrypt_s - before.encrypt_s, self.decrypt_s - before.decrypt_s
        serialise_s = self.serialise_s - before.serialise_s
        return Spent(
            encrypt_s=in_steps(encrypt_s),
            decrypt_s=in_steps(decrypt_s),
            compute_s=in_steps(max(total_s - encrypt_s - decrypt_s - serialise_s, 0.0)),
            serialise_s=in_steps(serialise_s),
        )

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
    """Encrypts and decrypts with `cipher`, and adds the seconds to the stopwatch."""

    cipher: Cipher
    stopwatch: Stopwatch

    @property
    def slots(self) -> int:
        return self.cipher.slots

    def slots_of(self, vector_format: VectorFormat) -> int:
        return self.cipher.slots_of(vector_format)

    def in_clear(self) -> Cipher:
        return TimedCipher(self.cipher.in_clear(), self.stopwatch)

    def encrypt(
        self,
        values: NDArray[np.float64],
        vector_format: VectorFormat,
        *,
        origin: Origin,
        places: Sequence[Place],
        among: Sequence[Partners] | None = None,
    ) -> Vector:
        began = time.perf_counter()
        vector = self.cipher.encrypt(values, vector_format, origin=origin, places=places, among=among)
        self.stopwatch.encrypt_s += time.perf_counter() - began
        return vector

    def decrypt(
        self,
        vector: Vector,
        *,
        origins: Sequence[Sequence[Origin]],
        places: Sequence[Place],
        among: Sequence[Partners] | None = None,
    ) -> NDArray[np.float64]:
        began = time.perf_counter()
        self.stopwatch.opened += 1
        values = self.cipher.decrypt(vector, origins=origins, places=places, among=among)
        self.stopwatch.decrypt_s += time.perf_counter() - began
        return values
