"""The console that tables and views are printed on."""

from typing import Any

from rich.console import Console
from rich.text import Text

from fenchel_deploy.cli.output import printable

PIPE_WIDTH = 160
"""Columns of a table that goes to a file or a pipe, which have no width of their own."""


class PlainConsole(Console):
    """Prints a string as one line of text: none is markup, and none reaches the terminal as an escape sequence."""

    def render_str(self, text: str, *, style: Any = "", justify: Any = None, overflow: Any = None, **_: Any) -> Text:
        return Text(printable(text), style=style, justify=justify, overflow=overflow)


def terminal() -> PlainConsole:
    """A console on stdout: as wide as the terminal, or wide enough for tables if it is none."""
    console = PlainConsole()
    return console if console.is_terminal else PlainConsole(width=PIPE_WIDTH)
