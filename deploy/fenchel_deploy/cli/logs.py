"""The log of a process on stderr: one line an entry, as text or as JSON."""

import json
import logging
import sys
from enum import StrEnum
from types import TracebackType
from typing import Annotated

import typer

from fenchel_deploy.cli.output import printable
from fenchel_deploy.logs import Place, entry_of

TEXT_FORMAT = "%(asctime)s %(levelname)s %(message)s"


class LogFormat(StrEnum):
    """The forms of a log's entries."""

    TEXT = "text"
    JSON = "json"


LogFormatOption = Annotated[
    LogFormat,
    typer.Option(
        help="How the log is written to stderr: as text, or as JSON with run, round, phase and party on every line."
    ),
]


VERBOSE = "--verbose"
VerboseOption = Annotated[
    bool, typer.Option(VERBOSE, help="Log more, such as the words of gRPC and OpenSSL about failed connections.")
]


def log_to_stderr(form: LogFormat = LogFormat.TEXT, place: Place | None = None, *, verbose: bool = False) -> None:
    """Sends the log of this process to stderr, one line an entry; `place` says where the process is in its work."""
    handler = _StderrHandler()
    formatter = _JsonFormatter(place or Place()) if form is LogFormat.JSON else _PrintableFormatter(TEXT_FORMAT)
    handler.setFormatter(formatter)
    logging.basicConfig(level=logging.DEBUG if verbose else logging.INFO, handlers=[handler])


def log_line(message: str, level: int = logging.INFO) -> str:
    """A line in the form of the log, for what a command says without logging it."""
    entry = logging.LogRecord("", level, "", 0, "%s", (message,), None)
    return _PrintableFormatter(TEXT_FORMAT).format(entry)


class _StderrHandler(logging.Handler):
    """Writes to what `sys.stderr` is at the moment: a live view takes its place, and puts the lines above itself."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()
        except Exception:  # as every handler does: a log that cannot be written must not end the process
            self.handleError(record)


class _PrintableFormatter(logging.Formatter):
    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is the base class's
        return printable(super().formatMessage(record))

    def formatException(  # noqa: N802 - the name is the base class's
        self,
        ei: tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None],
    ) -> str:
        return printable(super().formatException(ei), keep="\n")


class _JsonFormatter(logging.Formatter):
    def __init__(self, place: Place) -> None:
        super().__init__()
        self._place = place

    def format(self, record: logging.LogRecord) -> str:
        entry = entry_of(record, self._place, record.getMessage())
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry)
