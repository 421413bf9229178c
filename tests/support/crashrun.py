"""Runs a toy run many times, each time in a process that kills itself (SIGKILL) at the next point, then resumes it.

    python -m support.crashrun rounds|storage STATE_ROOT

`rounds` dies before each effect and after each event of the driver. `storage` dies before each statement that writes,
before and after each commit, and before each flush or removal of a file. Prints, as a JSON list, what each resumed run
came to. The processes are forks of this one, which starts no thread, so that a point costs milliseconds.
"""

import json
import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from fenchel_server.rounds.driver import Driver, Watcher
from fenchel_server.store import RoundRecord, SqliteStore
from support.records import RUN
from support.toydrive import toy_transport
from support.toyrun import ToyParts, toy_config

RESULT = "result.json"
MOST_POINTS = 500


class Countdown:
    """Called again and again; kills this process at call number `point`, counted from 0."""

    def __init__(self, point: int) -> None:
        self.left = point

    def __call__(self, *_: object) -> None:
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self.left -= 1


def figures_of(record: RoundRecord) -> dict[str, Any]:
    """A round's metrics but for its phases: a resumed run syncs its clients where an undisturbed one need not."""
    metrics: dict[str, Any] = json.loads(record.metrics)
    metrics.pop("phases", None)
    return metrics


def work(state: Path, *, watch: Watcher = lambda _: None) -> None:
    """Serves the toy run from its stored state to its end."""
    with SqliteStore.serve(state) as store:
        if not store.runs():
            store.create_run(RUN, name="toy", config=toy_config())
        if store.pending():
            transport = toy_transport()
            Driver(RUN, ToyParts(), store=store, transport=transport, watch=watch).drive()
        snapshot, record = store.snapshot(RUN), store.run(RUN)
        assert snapshot is not None
        result = {
            "status": record.status,
            "reason": record.reason,
            "rounds": [(committed.round_id, figures_of(committed)) for committed in store.rounds(RUN)],
            "snapshot": snapshot.state.decode(),
            "transcript": [record.decode() for record in snapshot.transcript],
            "files": sorted(path.name for path in (state / "snapshots").iterdir()),
        }
    (state / RESULT).write_text(json.dumps(result))


def deadly_work(state: Path, countdown: Countdown) -> None:
    """Does `work`, counting down at each write to disk; the countdown kills this process."""
    connect, fsync, unlink = sqlite3.connect, os.fsync, Path.unlink

    class DeadlyConnection(sqlite3.Connection):
        def __init__(self, *given: Any, **options: Any) -> None:
            super().__init__(*given, **options)
            self.writes = False
            self.set_trace_callback(self.trace)

        def trace(self, statement: str) -> None:
            harmless = statement.startswith(("BEGIN", "SELECT", "PRAGMA"))
            self.writes = not harmless and (self.writes or not statement.startswith("COMMIT"))
            if self.writes:
                countdown()

    def deadly_fsync(handle: int) -> None:
        countdown()
        fsync(handle)

    def deadly_unlink(path: Path, missing_ok: bool = False) -> None:
        countdown()
        unlink(path, missing_ok=missing_ok)

    with (
        mock.patch.object(sqlite3, "connect", partial(connect, factory=DeadlyConnection)),
        mock.patch.object(os, "fsync", deadly_fsync),
        mock.patch.object(Path, "unlink", deadly_unlink),
    ):
        work(state)


def survives(life: Callable[[], None]) -> bool:
    """Runs `life` in a process of its own, and returns whether the process ended by itself."""
    child = os.fork()
    if child == 0:
        try:
            life()
        except BaseException as error:
            sys.excepthook(type(error), error, error.__traceback__)
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return False
    assert os.waitstatus_to_exitcode(status) == 0
    return True


def main(mode: str, root: Path) -> None:
    results = []
    for point in range(MOST_POINTS):
        state, countdown = root / str(point), Countdown(point)
        life = partial(work, state, watch=countdown) if mode == "rounds" else partial(deadly_work, state, countdown)
        unharmed = survives(life)
        if not unharmed:
            assert survives(partial(work, state))
        results.append(json.loads((state / RESULT).read_text()))
        if unharmed:
            break
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
