"""Long vectors of ciphertexts, checked and added on all cores.

Of the operations on big numbers only remainders release the interpreter's lock, so that threads would use little more
than one core. Each process of this module works on a share of the positions:

    work:  number of buffers (1 byte), length of the modulus (2 bytes), the modulus n, then buffers of one length

One buffer is checked, several are added. The result is the same, to the last bit, as in one process.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from fenchel_common.crypto import paillier
from fenchel_common.crypto.cores import Cores, Parts, core_count, work_until_input_ends
from fenchel_common.crypto.paillier import PublicKey
from fenchel_common.errors import InvalidInput

LONG: Final = 4096
"""The number of ciphertexts from which on the work is spread: it takes longer than what goes through the pipes."""
MAX_BUFFERS: Final = 255
_MODULUS_BYTES: Final = 2


class SumCores:
    """Checks and adds on all cores; several threads may call it at once."""

    def __init__(self) -> None:
        self._count = core_count()
        self._cores = Cores(__name__, count=self._count)

    def validate(self, key: PublicKey, ciphertexts: bytes) -> None:
        """See `paillier.validate`."""
        if self._worth_it(key, ciphertexts):
            try:
                self._cores.done(self._shares(key, [ciphertexts]))
            except InvalidInput:
                pass
            else:
                return
        # Also where a process refused its share: the error names the place in the whole buffer.
        paillier.validate(key, ciphertexts)

    def add_many(self, key: PublicKey, buffers: Sequence[bytes]) -> bytes:
        """See `paillier.add_many`."""
        if len(buffers) > MAX_BUFFERS or not self._worth_it(key, buffers[0]):
            return paillier.add_many(key, buffers)
        return b"".join(self._cores.done(self._shares(key, buffers)))

    def close(self) -> None:
        """Ends the processes; later work starts them again."""
        self._cores.close()

    def _worth_it(self, key: PublicKey, buffer: bytes) -> bool:
        return (
            self._count > 1 and len(buffer) >= LONG * key.ciphertext_bytes and len(buffer) % key.ciphertext_bytes == 0
        )

    def _shares(self, key: PublicKey, buffers: Sequence[bytes]) -> list[Parts]:
        """The work of each process: the same number of positions, but for the last one."""
        modulus, width = key.to_bytes(), key.ciphertext_bytes
        head = len(buffers).to_bytes(1, "big") + len(modulus).to_bytes(_MODULUS_BYTES, "big") + modulus
        share = -(-len(buffers[0]) // width // self._count) * width
        views = [memoryview(buffer) for buffer in buffers]
        return [[head, *(view[at : at + share] for view in views)] for at in range(0, len(buffers[0]), share)]


_in_use: SumCores | None = None


def use_all_cores() -> None:
    """From now on long vectors are checked and added on all cores in this process; others use one."""
    global _in_use
    _in_use = _in_use or SumCores()


def validate(key: PublicKey, ciphertexts: bytes) -> None:
    """See `paillier.validate`."""
    (_in_use or paillier).validate(key, ciphertexts)


def add_many(key: PublicKey, buffers: Sequence[bytes]) -> bytes:
    """See `paillier.add_many`."""
    return (_in_use or paillier).add_many(key, buffers)


def share_done(work: bytes) -> bytes:
    """What a process makes of its share; `CryptoError` if it checks a buffer that is not valid."""
    count, start = work[0], 1 + _MODULUS_BYTES
    stop = start + int.from_bytes(work[1:start], "big")
    key, rest = _key(work[start:stop]), memoryview(work)[stop:]
    size = len(rest) // count
    buffers = [bytes(rest[at : at + size]) for at in range(0, len(rest), size)]
    if count > 1:
        return paillier.add_many(key, buffers)
    paillier.validate(key, buffers[0])
    return b""


@lru_cache(maxsize=1)
def _key(modulus: bytes) -> PublicKey:
    # Who gave the work has refused keys that are too small.
    return PublicKey.from_bytes(modulus, test_only_small=True)


if __name__ == "__main__":
    work_until_input_ends(share_done)
