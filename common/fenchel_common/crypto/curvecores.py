"""Long lists of points, multiplied by an exponent on all cores.

The `cryptography` package keeps the interpreter's lock during a multiplication (25 µs), so threads gain nothing. A
piece of work for a process of `fenchel_common.crypto.cores`:

    kind (1 byte), exponent (32 bytes), then points, or the run and ids, each with its length
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from fenchel_common.crypto.cores import Cores, core_count, work_until_input_ends
from fenchel_common.crypto.curve import POINT_BYTES, checked_points, hash_to_curve, multiplied
from fenchel_common.framing import framed
from fenchel_common.ids import RunId

LONG: Final = 8192
"""The number of points from which on the work is spread over cores: it takes longer than the start of a process."""
_POINTS, _IDS = b"p", b"i"
_LENGTH_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class Raising:
    """Points to multiply by an exponent: those of `elements`, which came from elsewhere, or the hashes of `ids`."""

    exponent: bytes = field(repr=False)
    elements: bytes = field(default=b"", repr=False)
    ids: Sequence[str] = field(default=(), repr=False)
    run: RunId | None = None

    @property
    def count(self) -> int:
        return len(self.elements) // POINT_BYTES or len(self.ids)

    def done(self) -> bytes:
        """The multiplied points, end to end; `InvalidInput` if `elements` are none of an honest party."""
        if self.run is None:
            return multiplied(checked_points(self.elements), self.exponent)
        return multiplied((hash_to_curve(sample, self.run) for sample in self.ids), self.exponent)

    def to_bytes(self) -> bytes:
        if self.run is None:
            return _POINTS + self.exponent + self.elements
        return _IDS + self.exponent + framed(self.run.encode(), *(sample.encode() for sample in self.ids))

    @classmethod
    def from_bytes(cls, work: bytes) -> "Raising":
        """Reads what the process that started this one wrote."""
        kind, exponent, rest = work[:1], work[1 : 1 + POINT_BYTES], work[1 + POINT_BYTES :]
        if kind == _POINTS:
            return cls(exponent, elements=rest)
        run, *ids = (part.decode() for part in _parts(rest))
        return cls(exponent, ids=ids, run=RunId(run))


class CurveCores:
    """Multiplies points, on all cores if there are many; several threads may call it at once."""

    def __init__(self) -> None:
        self._count = core_count()
        self._cores = Cores(__name__, count=self._count)

    def raised(self, work: Sequence[Raising]) -> list[bytes]:
        """The multiplied points of each piece of work; `InvalidInput` if one has points that no honest party sends."""
        if len(work) < 2 or sum(one.count for one in work) < LONG or self._count < 2:
            return [one.done() for one in work]
        return self._cores.done([[one.to_bytes()] for one in work])

    def close(self) -> None:
        """Ends the processes; a later call starts them again."""
        self._cores.close()


def _parts(framed_parts: bytes) -> Iterator[bytes]:
    """The parts that `framed` put end to end."""
    start = 0
    while start < len(framed_parts):
        begin = start + _LENGTH_BYTES
        start = begin + int.from_bytes(framed_parts[start:begin], "big")
        yield framed_parts[begin:start]


if __name__ == "__main__":
    work_until_input_ends(lambda work: Raising.from_bytes(work).done())
