"""The seconds of a server for a long answer, on one core and on all: it checks the ciphertexts and adds them to a sum.

Seconds by the clock: other work on the machine makes all of them longer, and the ratio smaller.
"""

import secrets
import statistics
import time
from collections.abc import Sequence
from typing import Final, Protocol

from gmpy2 import mpz

from fenchel_common.crypto import paillier
from fenchel_common.crypto.cores import core_count
from fenchel_common.crypto.paillier import PublicKey
from fenchel_common.crypto.sumcores import LONG, SumCores

CIPHERTEXTS: Final = 2 * LONG


class Sums(Protocol):
    """One way to check and to add."""

    def validate(self, key: PublicKey, ciphertexts: bytes, /) -> None: ...
    def add_many(self, key: PublicKey, buffers: Sequence[bytes], /) -> bytes: ...


class Additions:
    """The measured times under one key; `close` ends the processes for the cores."""

    def __init__(self, key: PublicKey) -> None:
        self._key = key
        bound, width = int(key.n_squared), key.ciphertext_bytes
        self._answer, self._sum = (
            paillier.concatenate([mpz(secrets.randbelow(bound)) for _ in range(CIPHERTEXTS)], width) for _ in range(2)
        )
        self._cores = SumCores()
        self._seconds: list[tuple[float, float]] = []
        self._seconds_on(self._cores)  # The processes start with the first work.

    def measure(self) -> None:
        self._seconds.append((self._seconds_on(paillier), self._seconds_on(self._cores)))

    def report(self) -> dict[str, float]:
        """Microseconds a ciphertext, and how many times faster all cores are: medians over the measurements."""
        one, all_cores = (statistics.median(times) / CIPHERTEXTS * 1e6 for times in zip(*self._seconds, strict=True))
        ratio = statistics.median(alone / together for alone, together in self._seconds)
        return {"cores": core_count(), "one_core_us": one, "all_cores_us": all_cores, "ratio": ratio}

    def close(self) -> None:
        self._cores.close()

    def _seconds_on(self, sums: Sums) -> float:
        began_s = time.perf_counter()
        sums.validate(self._key, self._answer)
        sums.add_many(self._key, [self._answer, self._sum])
        return time.perf_counter() - began_s
