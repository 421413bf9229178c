"""Processes for arithmetic that keeps the interpreter's lock, so that threads gain nothing: one for each core.

Each process reads pieces of work from its input and writes answers to its output:

    work:    length (4 bytes), then what the module of the process understands
    answer:  length (4 bytes), then 0 and the result, or 1 and the reason why the work is refused

The processes start with the first work, and end with the process that started them, because their input ends then. They
can import nothing but this package and its own imports.
"""

import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Final

from fenchel_common.errors import FenchelError, InvalidInput

PIPE_BYTES: Final = 1 << 20
"""How much a pipe holds, where the system allows it: with the usual 64 KiB, long bodies wake both ends too often."""
_LENGTH_BYTES: Final = 4
_DONE, _REFUSED = b"\0", b"\1"

Parts = Sequence[bytes | memoryview]
"""A piece of work; a process gets the parts end to end."""


def core_count() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Cores:
    """Processes of a module that calls `work_until_input_ends`; several threads may give them work at once."""

    def __init__(self, module: str, *, count: int) -> None:
        self._module = module
        self._count = count
        self._idle: queue.SimpleQueue[subprocess.Popen[bytes]] = queue.SimpleQueue()
        self._started: list[subprocess.Popen[bytes]] = []
        self._starting = threading.Lock()

    def done(self, work: Sequence[Parts]) -> list[bytes]:
        """The answer to each piece; `InvalidInput` with the reason if one is refused."""
        self._start()
        with ThreadPoolExecutor(len(self._started)) as pool:
            return list(pool.map(self._at_a_process, work))

    def close(self) -> None:
        """Ends the processes; later work starts them again."""
        for process in self._started:
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                pipe.close()
            process.wait()
        self._started.clear()
        self._idle = queue.SimpleQueue()

    def __del__(self) -> None:
        self.close()

    def _start(self) -> None:
        with self._starting:
            while len(self._started) < self._count:
                process = subprocess.Popen(
                    [sys.executable, "-P", "-m", self._module],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    pipesize=PIPE_BYTES,
                    start_new_session=True,  # Ctrl-C ends the process that started it, and so this one
                )
                self._started.append(process)
                self._idle.put(process)

    def _at_a_process(self, work: Parts) -> bytes:
        process = self._idle.get()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            _write(process.stdin, work)
            answer = _read(process.stdout)
        finally:
            self._idle.put(process)
        if answer is None:
            raise ChildProcessError("a process that computes on another core has ended")
        if answer[:1] == _REFUSED:
            raise InvalidInput(answer[1:].decode())
        return answer[1:]


def work_until_input_ends(done: Callable[[bytes], bytes]) -> None:
    """The whole life of a process; `done` gives the result of a piece of work, or raises a `FenchelError`."""
    given, told = sys.stdin.buffer, sys.stdout.buffer
    while (work := _read(given)) is not None:
        try:
            answer = [_DONE, done(work)]
        except FenchelError as error:
            answer = [_REFUSED, str(error).encode()]
        _write(told, answer)


def _write(pipe: IO[bytes], parts: Parts) -> None:
    pipe.write(sum(map(len, parts)).to_bytes(_LENGTH_BYTES, "big"))
    for part in parts:
        pipe.write(part)
    pipe.flush()


def _read(pipe: IO[bytes]) -> bytes | None:
    """The next body; None at the end of the input."""
    length = pipe.read(_LENGTH_BYTES)
    return pipe.read(int.from_bytes(length, "big")) if length else None
