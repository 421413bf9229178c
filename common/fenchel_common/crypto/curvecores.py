"""Long lists of points, multiplied by an exponent on all cores.

The `cryptography` package keeps the interpreter's lock during a multiplication (25 µs), so threads gain nothing. Each
core gets a process of its own that reads pieces of work from its input and writes results to its output:

    work:    length (4 bytes), kind (1 byte), exponent (32 bytes), then points, or the run and ids, each with its length
    answer:  length (4 bytes), then 0 and the multiplied points, or 1 and the reason why the points are refused

These processes start with the first list that is long enough to be worth it, and end with the process that started
them, because their input ends then. They can import nothing but this package and its own imports.
"""

import os
import queue
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import IO, Final

from fenchel_common.crypto.curve import POINT_BYTES, checked_points, hash_to_curve, multiplied
from fenchel_common.errors import InvalidInput
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
        self._idle: queue.SimpleQueue[subprocess.Popen[bytes]] = queue.SimpleQueue()
        self._started: list[subprocess.Popen[bytes]] = []

    def raised(self, work: Sequence[Raising]) -> list[bytes]:
        """The multiplied points of each piece of work; `InvalidInput` if one has points that no honest party sends."""
        if len(work) < 2 or sum(one.count for one in work) < LONG or (cores := _core_count()) < 2:
            return [one.done() for one in work]
        while len(self._started) < cores:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "fenchel_common.crypto.curvecores"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C ends the process that started it, and so this one
            )
            self._started.append(process)
            self._idle.put(process)
        with ThreadPoolExecutor(len(self._started)) as pool:
            return list(pool.map(self._at_a_process, work))

    def close(self) -> None:
        """Ends the processes; a later call starts them again."""
        for process in self._started:
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                pipe.close()
            process.wait()
        self._started.clear()
        self._idle = queue.SimpleQueue()

    def __del__(self) -> None:
        self.close()

    def _at_a_process(self, work: Raising) -> bytes:
        process = self._idle.get()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            _write(process.stdin, work.to_bytes())
            answer = _read(process.stdout)
        finally:
            self._idle.put(process)
        if answer is None:
            raise ChildProcessError("a process that multiplies points has ended")
        if answer[:1] == b"\1":
            raise InvalidInput(answer[1:].decode())
        return answer[1:]


def work_until_input_ends(given: IO[bytes], told: IO[bytes]) -> None:
    """The whole life of a process that multiplies points."""
    while (work := _read(given)) is not None:
        try:
            answer = b"\0" + Raising.from_bytes(work).done()
        except InvalidInput as error:
            answer = b"\1" + str(error).encode()
        _write(told, answer)


def _write(pipe: IO[bytes], body: bytes) -> None:
    pipe.write(len(body).to_bytes(_LENGTH_BYTES, "big"))
    pipe.write(body)
    pipe.flush()


def _read(pipe: IO[bytes]) -> bytes | None:
    """The next body; None at the end of the input."""
    length = pipe.read(_LENGTH_BYTES)
    return pipe.read(int.from_bytes(length, "big")) if length else None


def _parts(framed_parts: bytes) -> Iterator[bytes]:
    """The parts that `framed` put end to end."""
    start = 0
    while start < len(framed_parts):
        begin = start + _LENGTH_BYTES
        start = begin + int.from_bytes(framed_parts[start:begin], "big")
        yield framed_parts[begin:start]


def _core_count() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


if __name__ == "__main__":
    work_until_input_ends(sys.stdin.buffer, sys.stdout.buffer)
