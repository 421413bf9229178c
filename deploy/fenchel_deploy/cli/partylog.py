"""What a client says of its work: the round, where its model is, what to mend, and for whom the federation waits."""

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fenchel_client.misfits import OwnIds, unfit_data
from fenchel_client.party import Party
from fenchel_client.session import SessionEnd
from fenchel_client.task import Task
from fenchel_client.transport.health import ask_health
from fenchel_common.errors import DataUnfit, FenchelError, RunLocked
from fenchel_common.identity import Address, Kit, LiveKit
from fenchel_common.model.folder import SUFFIX
from fenchel_common.setup import FINISH, LABELS
from fenchel_common.wire.frames import TaskKey
from fenchel_common.wire.labels import labels_compared_from_bytes
from fenchel_common.wire.setup import phase_result_from_bytes
from fenchel_deploy.cli.logs import LogFormat
from fenchel_deploy.logs import Place
from fenchel_deploy.times import clock_time

ROUND_EVERY_S = 10.0
"""Rounds are told at most this often, because small ones take milliseconds."""
FIRST_ASK_S = 5.0
ASK_EVERY_S = 30.0
"""A client asks the server for whom it waits after so long without a task, and then this often until it has one."""
LOOK_S = 1.0
ANSWER_S = 10.0
LABELS_DIFFER = (
    "labels of samples that other parties hold too differ; the log above says how many: correct them together with the "
    "other parties, and start the run anew"
)

Tell = Callable[[Mapping[str, Any]], None]

log = logging.getLogger(__name__)


class Progress:
    """Logs a party's tasks, and remembers whether one is in work and when the last one ended.

    `gap` gives the last duality gap of the run at work that the party knows.
    """

    def __init__(self, state: Path, gap: Callable[[], float | None] = lambda: None) -> None:
        self._state = state
        self._gap = gap
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
                path = self._state / f"{task.run}{SUFFIX}"
                log.info("run %s is over; this party's part of the model is in %s", task.run, path)
        finally:
            self._at_work, self._ended_s = False, time.monotonic()

    def _begin(self, task: Task) -> None:
        now_s, place = time.monotonic(), (task.run, task.round)
        told = self._round
        if place == told or (told and told[0] == task.run and now_s - self._told_s < ROUND_EVERY_S):
            return
        self._round, self._told_s = place, now_s
        gap = self._gap() if task.round else None
        known = "" if gap is None else f", gap {gap:.3e} so far"
        log.info("run %s: %s", task.run, f"round {task.round}{known}" if task.round else "the set-up begins")


class WatchedParty:
    """A party whose tasks are told: in its log, and as events to `tell`."""

    def __init__(self, party: Party, place: Place, progress: Progress, tell: Tell = lambda _: None) -> None:
        self._party = party
        self._place = place
        self._progress = progress
        self._tell = tell
        self._begun: str | None = None
        self._began_s = time.monotonic()
        self._worked_s = 0.0
        self._failure: DataUnfit | RunLocked | None = None

    def handle(self, task: Task) -> bytes:
        """The party's answer; it raises as `Party.handle` does."""
        self._place.move(run=task.run, round_id=task.round, phase=task.phase)
        self._failure = None
        began_s = time.monotonic()
        self._tell({"event": "phase", "run": task.run, "round": task.round, "phase": task.phase})
        try:
            with self._progress.on(task):
                result = self._party.handle(task)
            self._worked_s += time.monotonic() - began_s
            self._tell_work(task)
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
            return unfit_data(end.unfit, OwnIds.of(self._party.ids), self._party.feature_names())
        return self._failure

    def _tell_work(self, task: Task) -> None:
        kept, spent = self._party.kept, self._party.spent
        if kept is not None and self._begun != task.run:
            self._begun, config = task.run, kept.config
            certified = config.algorithm_settings().profile.certified
            self._tell(
                {
                    "event": "begins",
                    "run": task.run,
                    "name": config.name,
                    "round": task.round,
                    "algorithm": config.algorithm,
                    "privacy": config.privacy,
                    "cipher": config.cipher_in_use,
                    "key_bits": config.key.bits,
                    "key_fingerprint": None,
                    "gap_target": config.stop.gap if certified else None,
                    "rounds_limit": config.stop.rounds,
                }
            )
        total_s = time.monotonic() - self._began_s
        inside_s = spent.encrypt_s + spent.decrypt_s + spent.serialise_s
        seconds = {
            "total": total_s,
            "encrypt": spent.encrypt_s,
            "decrypt": spent.decrypt_s,
            "serialise": spent.serialise_s,
            "parties": max(self._worked_s - inside_s, 0.0),
            "wait": max(total_s - self._worked_s, 0.0),
        }
        event = {"event": "worked", "run": task.run, "round": task.round, "gap": self._party.last_gap}
        self._tell({**event, "seconds": seconds})


@contextmanager
def own_view(party: str, log_format: LogFormat) -> Iterator[Tell]:
    """Whom the party's work is told beside its log: on a terminal the live view, elsewhere nobody."""
    if log_format is LogFormat.JSON or not sys.stderr.isatty():
        yield lambda _: None
        return
    # A client without a terminal needs neither the memory nor the time to load these.
    from fenchel_deploy.cli.console import PlainConsole
    from fenchel_deploy.cli.liveview import can_draw, drawn
    from fenchel_deploy.cli.story import RunStory

    console = PlainConsole(stderr=True)
    if not can_draw(console):
        yield lambda _: None
        return
    with drawn(RunStory(party, "waiting for a task"), console) as tell:
        yield tell


@contextmanager
def waits_told(
    progress: Progress, kit: LiveKit, address: Address | None, tell: Tell = lambda _: None
) -> Iterator[None]:
    """While the context lasts, tells now and then for whom the federation waits, if this party has no task."""
    ended = threading.Event()

    def follow() -> None:
        next_s = FIRST_ASK_S
        while not ended.wait(LOOK_S):
            idle_s = progress.idle_for_s()
            if idle_s < FIRST_ASK_S:
                next_s = FIRST_ASK_S
            elif idle_s >= next_s:
                next_s = idle_s + ASK_EVERY_S
                _tell_waits(kit.look(), address, tell)

    follower = threading.Thread(target=follow, name="waits", daemon=True)
    follower.start()
    try:
        yield
    finally:
        ended.set()


def _tell_waits(kit: Kit, address: Address | None, tell: Tell) -> None:
    try:
        found = ask_health(kit, address=address, timeout_s=ANSWER_S).missing
    except FenchelError:  # The session tells of a server that cannot be reached.
        return
    if found:
        names = ", ".join(f"{party} (not connected since {clock_time(since)})" for party, since in found.items())
        log.info("waiting for %s", names)
        tell({"event": "waiting", "run": None, "for": list(found), "since": dict(found)})
