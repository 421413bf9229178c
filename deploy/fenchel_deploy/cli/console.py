"""The console on which commands print tables and views."""

import threading
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.text import Text

from fenchel_deploy.cli.output import printable

PIPE_WIDTH = 160
"""Columns of a table that goes to a file or a pipe, which have no width of their own."""


class PlainConsole(Console):
    """Prints strings as plain text: markup is not interpreted, and escape sequences do not reach the terminal.

    One thread prints at a time, from the first look at what is on the screen to the last byte that is written. Rich
    locks these steps one by one: a live view, which is redrawn with each line that is printed, would be wiped off by
    its height before another thread's line.
    """

    def __init__(self, **options: Any) -> None:
        self._printing = threading.RLock()
        super().__init__(**options)

    def __enter__(self) -> Self:
        self._printing.acquire()
        super().__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            super().__exit__(kind, error, trace)
        finally:
            self._printing.release()

    def render_str(self, text: str, *, style: Any = "", justify: Any = None, overflow: Any = None, **_: Any) -> Text:
        return Text(printable(text), style=style, justify=justify, overflow=overflow)


def terminal() -> PlainConsole:
    """A console on stdout, as wide as the terminal; `PIPE_WIDTH` columns if stdout is no terminal."""
    console = PlainConsole()
    return console if console.is_terminal else PlainConsole(width=PIPE_WIDTH)
