"""Log entries as mappings that know where the process is in its work, and a file with the last errors of a process.

The file is in the state folder, for `fenchel doctor`. People send its content to others, so it has less than the log:
of a `Refusal`, whose message is for the party's own operator, only the public reason; of other failures the places in
the code, without messages of foreign packages; and no entry that is marked as `PRIVATE`.
"""

import json
import logging
import time
import traceback
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from fenchel_common.errors import FenchelError, Refusal

LAST_ERRORS_FILE: Final = "last-errors.jsonl"
MAX_ENTRIES: Final = 50
MAX_CHARACTERS: Final = 1000
"""The most characters of an entry's message in the file of last errors."""
MAX_FRAMES: Final = 5
WRITE_EVERY_S: Final = 1.0
"""The file is written at most this often, so that whoever causes many warnings does not cause as many writes."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Place:
    """Where a process is in its work: who it is, and the run, round and phase under way; None if there is none."""

    party: str | None = None
    run: str | None = None
    round: int | None = None
    phase: str | None = None

    def move(self, *, run: str | None, round_id: int | None = None, phase: str | None = None) -> None:
        """Notes what the process works on from now on."""
        self.run, self.round, self.phase = run, round_id, phase


def entry_of(record: logging.LogRecord, place: Place, message: str) -> dict[str, Any]:
    """A log entry as a mapping, with `message` in place of the record's own."""
    return {
        "time": datetime.fromtimestamp(record.created, tz=UTC).isoformat(timespec="milliseconds"),
        "level": record.levelname,
        "logger": record.name,
        **asdict(place),
        "message": message,
    }


class LastErrors(logging.Handler):
    """Keeps the last warnings and errors of a process, and those of the processes before it, in a file."""

    def __init__(self, folder: Path, place: Place) -> None:
        super().__init__(logging.WARNING)
        self._path = folder / LAST_ERRORS_FILE
        self._place = place
        self._entries = deque(read_last_errors(folder), MAX_ENTRIES)
        self._written_s = -WRITE_EVERY_S
        self._unwritten = False

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(record, "private", False):
            return
        self._entries.append(entry_of(record, self._place, _shareable(record)[:MAX_CHARACTERS]))
        self._unwritten = True
        if time.monotonic() - self._written_s >= WRITE_EVERY_S:
            self._write()

    def close(self) -> None:
        if self._unwritten:
            self._write()
        super().close()

    def _write(self) -> None:
        scratch = self._path.with_suffix(".new")
        text = "".join(json.dumps(entry) + "\n" for entry in self._entries)
        # A process that cannot write the file goes on: its log has the entry too.
        with suppress(OSError):
            scratch.touch(mode=0o600)
            scratch.write_text(text, encoding="utf-8")
            scratch.replace(self._path)
        self._written_s, self._unwritten = time.monotonic(), False


@contextmanager
def last_errors_kept(folder: Path, place: Place) -> Iterator[None]:
    """Keeps the errors inside the `with` statement in `folder`, and the one that ends it too. Makes the folder."""
    with suppress(OSError):  # whoever uses the folder next says what is wrong with it
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    handler = LastErrors(folder, place)
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    except FenchelError as error:
        handler.handle(log.makeRecord(log.name, logging.CRITICAL, "", 0, "ended: %s", (error,), None))
        raise
    finally:
        root.removeHandler(handler)
        handler.close()


def read_last_errors(folder: Path) -> list[Mapping[str, Any]]:
    """The entries of the file in a state folder, oldest first; none if there is no file, or nothing readable in it."""
    try:
        lines = (folder / LAST_ERRORS_FILE).read_text(encoding="utf-8").splitlines()
        return [entry for line in lines if isinstance(entry := json.loads(line), dict)]
    except (OSError, ValueError):
        return []


def _shareable(record: logging.LogRecord) -> str:
    """The entry's message without what is for the party's own operator alone."""
    args = record.args if isinstance(record.args, tuple) else ()
    public = tuple(arg.public_reason if isinstance(arg, Refusal) else arg for arg in args)
    message = str(record.msg) % public if public else record.getMessage()
    error = record.exc_info[1] if record.exc_info else None
    if error is None:
        return message
    frames = traceback.extract_tb(error.__traceback__)[-MAX_FRAMES:]
    where = ", ".join(f"{Path(frame.filename).name}:{frame.lineno} in {frame.name}" for frame in frames)
    return f"{message}: {type(error).__name__} at {where}"
