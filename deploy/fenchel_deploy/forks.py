"""Starts many processes of one `fenchel` command on this machine, as forks of a process that has imported it.

An interpreter that imports what a client needs takes most of a second of CPU time, and its memory is its own. A fork
takes a few milliseconds, and shares the pages that no process changes. `fenchel_deploy.forkserver` is that process.
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from fenchel_common.errors import FederationFailed

MAX_LINE_BYTES: Final = 32
"""A number with the end of its line."""
CAN_FORK: Final = sys.platform == "linux"
"""Other systems have libraries that do not work in a fork."""


class Fork:
    """One process; what `subprocess.Popen` offers of a child, with the same meaning.

    It is a child of the fork server, which tells through `told` its number, and how it ended.
    """

    stdout: None = None

    def __init__(self, told: int, stdin: IO[bytes]) -> None:
        self._told = os.fdopen(told, "rb", buffering=0)
        self.stdin = stdin
        self.returncode: int | None = None
        self._looking = threading.Lock()
        line = self._told.readline(MAX_LINE_BYTES)
        if not line:
            raise FederationFailed("the process that starts clients has ended; its log is beside those of the parties")
        self.pid = int(line)

    def poll(self) -> int | None:
        return self._look(0.0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._look(timeout)
        if code is None:
            assert timeout is not None, "without a limit it waits for the end"
            raise subprocess.TimeoutExpired(str(self.pid), timeout)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _look(self, timeout_s: float | None) -> int | None:
        with self._looking:
            if self.returncode is None and _readable(self._told, timeout_s):
                # Without the fork server nobody knows the exit code.
                self.returncode = int(self._told.readline(MAX_LINE_BYTES) or -signal.SIGKILL)
                self._told.close()
        return self.returncode


class ForkServer:
    """Forks processes of the command `verb`; `options` are those that matter while it is imported.

    `close` ends the server, and no process that it has started.
    """

    def __init__(self, verb: str, options: Sequence[str], *, log: Path) -> None:
        self._requests, theirs = socket.socketpair()
        with theirs, log.open("ab") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "fenchel_deploy.forkserver", str(theirs.fileno()), verb, *options],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                pass_fds=[theirs.fileno()],
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(self, arguments: Sequence[str], *, stderr: IO[bytes]) -> Fork:
        """Starts the command with these words. Its input is a pipe; its output is lost, as a client's is empty."""
        read, write = os.pipe()
        told, tell = os.pipe()
        try:
            request = json.dumps(list(arguments)).encode() + b"\n"
            socket.send_fds(self._requests, [request], [read, stderr.fileno(), tell])
        except OSError:
            os.close(told)
            os.close(write)
            raise FederationFailed("the process that starts clients has ended; its log is beside theirs") from None
        finally:
            os.close(read)
            os.close(tell)
        return Fork(told, os.fdopen(write, "wb"))

    def close(self) -> None:
        self._requests.close()
        self._process.kill()
        self._process.wait()


def _readable(file: IO[bytes], timeout_s: float | None) -> bool:
    look = select.poll()
    look.register(file, select.POLLIN)
    return bool(look.poll(None if timeout_s is None else timeout_s * 1000.0))
