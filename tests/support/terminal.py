"""Terminals for commands: one in memory, of which every screen can be looked at, and one of tmux, as people use."""

import fcntl
import os
import pty
import shlex
import struct
import subprocess
import termios
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyte

LINES = 50
READ_BYTES = 1 << 12
REDRAW = b"\r\x1b[2K"
"""With this the view begins to wipe itself off, to be drawn anew: before it, the screen is whole."""

OVER = "over"
"""The channel on which a terminal of tmux says that its command has ended."""


def environment() -> dict[str, str]:
    """This process's environment without a width, which would count for more than that of the terminal."""
    return {name: value for name, value in os.environ.items() if name != "COLUMNS"} | {"TERM": "xterm-256color"}


class Terminal:
    """The screen of a command that runs on a pseudo-terminal."""

    def __init__(self, controller: int, *, columns: int) -> None:
        self._controller = controller
        self._screen = pyte.HistoryScreen(columns, LINES, history=10_000)
        self._stream = pyte.ByteStream(self._screen)
        self._pending = b""

    def screens(self) -> Iterator[list[str]]:
        """The lines on the screen each time before it is drawn anew, and at the end of the command."""
        while piece := self._read():
            self._pending += piece
            # Nothing is lost if the caller looks at no further screen now, and at more of them later.
            while REDRAW in self._pending:
                content, _, self._pending = self._pending.partition(REDRAW)
                self._stream.feed(content)
                lines = self.lines
                self._stream.feed(REDRAW)
                yield lines
        self._stream.feed(self._pending)
        self._pending = b""
        yield self.lines

    def _read(self) -> bytes:
        try:
            return os.read(self._controller, READ_BYTES)
        except OSError:  # the kernel's way to say that nobody has the other side open any more
            return b""

    def until(self, shown: Callable[[list[str]], bool]) -> list[str]:
        """The first screen of which `shown` holds; fails if the command ends before."""
        for lines in self.screens():
            if shown(lines):
                return lines
        raise AssertionError("the command ended before that was on the screen:\n" + "\n".join(self.lines))

    @property
    def lines(self) -> list[str]:
        """What is on the screen, without trailing blanks and empty lines."""
        return [line.rstrip() for line in self._screen.display if line.strip()]


@contextmanager
def on_terminal(
    command: Sequence[str | Path], *, columns: int, stdout: int | None = None
) -> Iterator[tuple[Terminal, "subprocess.Popen[bytes]"]]:
    """Starts a command whose stderr, and stdout unless told otherwise, are a terminal of that many columns."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, columns, 0, 0))
    process = subprocess.Popen(
        list(command),
        stdin=terminal,
        stdout=terminal if stdout is None else stdout,
        stderr=terminal,
        env=environment(),
        start_new_session=True,
    )
    os.close(terminal)
    try:
        yield Terminal(controller, columns=columns), process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
        os.close(controller)


class Pane:
    """A command in a terminal of tmux."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    def tmux(self, *words: str) -> str:
        command = ["tmux", "-S", str(self._socket), "-f", "/dev/null", *words]
        return subprocess.run(
            command, env=environment(), capture_output=True, text=True, timeout=120, check=True
        ).stdout

    def ended(self) -> list[str]:
        """Waits for the end of the command, and returns what it left on the terminal, from the first line on.

        Its last line is "exit", with the command's exit code.
        """
        self.tmux("wait-for", OVER)
        written = self.tmux("capture-pane", "-p", "-S", "-")
        return [line.rstrip() for line in written.splitlines() if line.strip()]


@contextmanager
def in_tmux(command: Sequence[str | Path], *, columns: int, folder: Path) -> Iterator[Pane]:
    """Starts a command in a terminal of tmux of that many columns; `folder` is for its socket."""
    pane = Pane(folder / "tmux")
    line = f"{shlex.join(map(str, command))}; echo exit $?; tmux wait-for -S {OVER}; cat"
    pane.tmux("new-session", "-d", "-x", str(columns), "-y", str(LINES), line)
    try:
        yield pane
    finally:
        pane.tmux("kill-server")
