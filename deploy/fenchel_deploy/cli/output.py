"""How commands print what they found."""

from enum import StrEnum


class Format(StrEnum):
    """The forms in which a command can print its data on stdout."""

    TABLE = "table"
    JSON = "json"
