"""How commands print data and logs, so that text from others cannot control the terminal."""

import json
import logging
import sys
from enum import StrEnum
from types import TracebackType

import typer

LOG_FORMAT = "%(asctime)s %(levelname)s %(message)s"


class Format(StrEnum):
    """The forms in which a command can print its data on stdout."""

    TABLE = "table"
    JSON = "json"


def print_json(value: object) -> None:
    """Prints the value on stdout as JSON that people can read too."""
    typer.echo(json.dumps(value, indent=2))


def printable(text: str, *, keep: str = "") -> str:
    """The text with every control character, and every character that is not shown, written as an escape.

    Names, reasons and errors come from other parties: an escape sequence among them could hide or forge lines on the
    operator's screen. `keep` has further characters to leave as they are, such as line ends in a text of several lines.
    """
    return "".join(
        character if character.isprintable() or character in keep else character.encode("unicode_escape").decode()
        for character in text
    )


def log_to_stderr() -> None:
    """Sends the log of this process to stderr, one line an entry."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_PrintableFormatter(LOG_FORMAT))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


class _PrintableFormatter(logging.Formatter):
    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is the base class's
        return printable(super().formatMessage(record))

    def formatException(  # noqa: N802 - the name is the base class's
        self,
        ei: tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None],
    ) -> str:
        return printable(super().formatException(ei), keep="\n")
