"""What a client says of its work: the round, where its model is, what to mend, and for whom the federation waits."""

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from fenchel_client.misfits import OwnIds, unfit_data
from fenchel_client.party import Party
from fenchel_client.session import SessionEnd
from fenchel_client.statefolder import MODEL
from fenchel_client.task import Task
from fenchel_client.transport.health import ask_health
from fenchel_common.errors import DataUnfit, FenchelError, RunLocked
from fenchel_common.identity import Address, Kit, LiveKit
from fenchel_common.setup import FINISH, LABELS
from fenchel_common.wire.frames import TaskKey
from fenchel_common.wire.labels import labels_compared_from_bytes
from fenchel_common.wire.setup import phase_result_from_bytes
from fenchel_deploy.cli.times import clock_time
from fenchel_deploy.logs import Place

ROUND_EVERY_S = 10.0
"""Rounds are told at most this often, because small ones take milliseconds."""
FIRST_ASK_S = 5.0
ASK_EVERY_S = 30.0
"""A client without a task asks the server this often for whom it waits."""
ANSWER_S = 10.0
LABELS_DIFFER = (
    "labels of samples that other parties hold too differ; the log above says how many: correct them together with the "
    "other parties, and start the run anew"
)

log = logging.getLogger(__name__)


class Progress:
    """Tells of a party's tasks, and remembers whether one is in work and when the last one ended."""

    def __init__(self, state: Path) -> None:
        self._state = state
        self._round: tuple[str, int] | None = None
        self._told_s = -ROUND_EVERY_S
        self._at_work = False
        self._ended_s = time.monotonic()

    def idle_for_s(self) -> float:
        """The seconds since the last task ended; 0 while one is in work."""
        return 0.0 if self._at_work else time.monotonic() - self._ended_s

    @contextmanager
    def on(self, task: Task) -> Iterator[None]:
        """Tells of the task inside the `with` statement."""
        self._at_work = True
        self._begin(task)
        try:
            yield
            if task.phase == FINISH:
                path = self._state / f"{task.run}{MODEL}"
                log.info("run %s is over; this party's part of the model is in %s", task.run, path)
        finally:
            self._at_work, self._ended_s = False, time.monotonic()

    def _begin(self, task: Task) -> None:
        now_s, place = time.monotonic(), (task.run, task.round)
        known = self._round
        if place == known or (known and known[0] == task.run and now_s - self._told_s < ROUND_EVERY_S):
            return
        self._round, self._told_s = place, now_s
        log.info("run %s: %s", task.run, f"round {task.round}" if task.round else "the set-up begins")


class WatchedParty:
    """A party whose tasks are told. `ids` are those of its samples; only their count and form are kept."""

    def __init__(self, party: Party, place: Place, progress: Progress, *, ids: Sequence[str]) -> None:
        self._party = party
        self._ids = OwnIds.of(ids)
        self._place = place
        self._progress = progress
        self._failure: DataUnfit | RunLocked | None = None

    def handle(self, task: Task) -> bytes:
        """The party's answer; it raises as `Party.handle` does."""
        self._place.move(run=task.run, round_id=task.round, phase=task.phase)
        self._failure = None
        try:
            with self._progress.on(task):
                result = self._party.handle(task)
        except (DataUnfit, RunLocked) as error:
            self._failure = error
            raise
        if task.phase == LABELS and labels_compared_from_bytes(phase_result_from_bytes(result)[0]):
            self._failure = DataUnfit(LABELS_DIFFER, public_reason="its labels differ from those of others")
        return result

    def task_limit(self, key: TaskKey) -> int:
        """As `Party.task_limit`, which is where a locked run is refused first."""
        try:
            return self._party.task_limit(key)
        except RunLocked as error:
            self._failure = error
            raise

    def failure_at(self, end: SessionEnd) -> DataUnfit | RunLocked | None:
        """Why this party could not take part in the last run when the session ended; None if it could.

        Its data do not fit the run or those of others, its labels differ from those of others, or the run is locked.
        """
        if end.unfit is not None:
            return unfit_data(end.unfit, self._ids, self._party.feature_names())
        return self._failure


@contextmanager
def waits_told(progress: Progress, kit: LiveKit, address: Address | None) -> Iterator[None]:
    """While the context lasts, tells now and then for whom the federation waits, if this party has no task."""
    ended = threading.Event()

    def follow() -> None:
        pause_s = FIRST_ASK_S
        while not ended.wait(pause_s):
            pause_s = ASK_EVERY_S
            if progress.idle_for_s() >= FIRST_ASK_S:
                _tell_waits(kit.look(), address)

    follower = threading.Thread(target=follow, name="waits", daemon=True)
    follower.start()
    try:
        yield
    finally:
        ended.set()


def _tell_waits(kit: Kit, address: Address | None) -> None:
    try:
        found = ask_health(kit, address=address, timeout_s=ANSWER_S).missing
    except FenchelError:  # The session tells of a server that cannot be reached.
        return
    if found:
        names = ", ".join(f"{party} (not connected since {clock_time(since)})" for party, since in found.items())
        log.info("waiting for %s", names)
