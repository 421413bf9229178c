"""The console that tables and views are printed on."""

import sys
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from fenchel_deploy.cli.output import printable

PIPE_WIDTH = 160
"""Columns of a table that goes to a file or a pipe, which have no width of their own."""


class PlainConsole(Console):
    """Prints strings as they are: none is markup, and none reaches the terminal as an escape sequence."""

    def render_str(self, text: str, *, style: Any = "", justify: Any = None, overflow: Any = None, **_: Any) -> Text:
        return Text(printable(text, keep="\n"), style=style, justify=justify, overflow=overflow)


def terminal(file: TextIO | None = None) -> PlainConsole:
    """A console as wide as the terminal that `file`, by default stdout, is; wide enough for tables if it is none."""
    console = PlainConsole(file=file or sys.stdout)
    return console if console.is_terminal else PlainConsole(file=file or sys.stdout, width=PIPE_WIDTH)
