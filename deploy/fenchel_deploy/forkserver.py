"""The process of `fenchel_deploy.forks`: imports one `fenchel` command, and forks itself for each request.

    python -m fenchel_deploy.forkserver DESCRIPTOR VERB [OPTIONS]

DESCRIPTOR is a socket. A request is a line of JSON, the words of the command, with three descriptors: the process's
standard input, its standard error, and a pipe that gets its number, and later its exit code, negative for a signal.
The next request comes after the number. The server ends with the socket; the processes that it has started go on.
"""

import json
import os
import select
import signal
import socket
import sys
from contextlib import suppress
from typing import Final

from fenchel_deploy import cli

DESCRIPTORS: Final = 3
MAX_BYTES: Final = 1 << 16
"""The bytes that are read at once, of a request or of signals that came."""


class ForkServer:
    """The server; `serve` returns in every process that it forks, and in itself at the end."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._tell: dict[int, int] = {}
        """The pipe of each process under way."""
        self._woken, self._wake = os.pipe()
        for end in (self._woken, self._wake):
            os.set_blocking(end, False)

    def serve(self) -> bool:
        """Forks processes as they are asked for; True in a process that is to work on its command."""
        # An interrupt from the keyboard is for the processes; this one ends with the program that started it.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake)
        while True:
            ready, _, _ = select.select([self._requests.fileno(), self._woken], [], [])
            if self._woken in ready:
                os.read(self._woken, MAX_BYTES)
                self._tell_ends()
            if self._requests.fileno() in ready:
                words, descriptors = self._request()
                if not words:
                    return False
                if self._fork(words, descriptors):
                    return True

    def _request(self) -> tuple[list[str], list[int]]:
        """The next request; nothing at the end."""
        data, descriptors, _, _ = socket.recv_fds(self._requests, MAX_BYTES, DESCRIPTORS)
        while data and not data.endswith(b"\n"):
            more = self._requests.recv(MAX_BYTES)
            data = data + more if more else b""
        return (json.loads(data) if data else []), descriptors

    def _fork(self, words: list[str], descriptors: list[int]) -> bool:
        """Forks this process; True in the fork."""
        stdin, stderr, tell = descriptors
        process = os.fork()
        if process == 0:
            self._become(words, stdin=stdin, stderr=stderr)
            os.close(tell)
            return True
        self._tell[process] = tell
        os.write(tell, b"%d\n" % process)
        os.close(stdin)
        os.close(stderr)
        return False

    def _become(self, words: list[str], *, stdin: int, stderr: int) -> None:
        """Makes this fork what a process of its own would be when its command begins."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self._requests.close()
        for descriptor in (self._woken, self._wake, *self._tell.values()):
            os.close(descriptor)
        for descriptor, place in ((stdin, 0), (stderr, 2)):
            os.dup2(descriptor, place)
            os.close(descriptor)
        sys.argv[1:] = words

    def _tell_ends(self) -> None:
        while self._tell:
            process, status = os.waitpid(-1, os.WNOHANG)
            if not process:
                return
            tell = self._tell.pop(process)
            # Whoever asked for the process may be gone.
            with suppress(BrokenPipeError):
                os.write(tell, b"%d\n" % os.waitstatus_to_exitcode(status))
            os.close(tell)


def main() -> None:
    requests = socket.socket(fileno=int(sys.argv[1]))
    del sys.argv[1]
    cli.prepare(sys.argv[1:])
    if ForkServer(requests).serve():
        cli.main(prepared=True)


if __name__ == "__main__":
    main()
