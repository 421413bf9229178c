"""How commands print data, so that text from others cannot control the terminal."""

import json
from enum import StrEnum

import typer


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
