"""The console on which commands print tables and views."""

from typing import Any

from rich.console import Console
from rich.text import Text

from fenchel_deploy.cli.output import printable

PIPE_WIDTH = 160
"""Columns of a table that goes to a file or a pipe, which have no width of their own."""


class PlainConsole(Console):
    """Prints strings as plain text: markup is not interpreted, and escape sequences do not reach the terminal."""

    def render_str(self, text: str, *, style: Any = "", justify: Any = None, overflow: Any = None, **_: Any) -> Text:
        return Text(printable(text), style=style, justify=justify, overflow=overflow)


def terminal() -> PlainConsole:
    """A console on stdout, as wide as the terminal; `PIPE_WIDTH` columns if stdout is no terminal."""
    console = PlainConsole()
    return console if console.is_terminal else PlainConsole(width=PIPE_WIDTH)
