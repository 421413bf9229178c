"""The desk between a session's working thread and its connection: the task to do and the result to hand in.

The desk outlives connections. The server has at most one task open for a client, so a new task replaces the one
before. A result stays on the desk until the server has acknowledged it or sent another task. Until then every new
connection hands in the same bytes again.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from fenchel_common.wire.frames import TaskKey


@dataclass(frozen=True, slots=True)
class Assignment:
    """A task as the server sent it."""

    key: TaskKey
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a task: the body of a result, or the public reason of a refusal."""

    key: TaskKey
    body: bytes | None = field(default=None, repr=False)
    refusal: str = ""


class Desk:
    """Thread-safe; every wait ends when the session ends."""

    def __init__(self) -> None:
        # Reentrant, because a signal handler may end the session while its own thread has the lock.
        self._changed = threading.Condition(threading.RLock())
        self._in_hand: TaskKey | None = None
        self._assignment: Assignment | None = None
        self._outcome: Outcome | None = None
        self._ended = False

    @property
    def in_hand(self) -> TaskKey | None:
        """The task that waits, is in work, or has a result that is not acknowledged; None without such a task."""
        with self._changed:
            return self._in_hand

    @property
    def outcome(self) -> Outcome | None:
        """The outcome to hand in; None without one."""
        with self._changed:
            return self._outcome

    @property
    def ended(self) -> bool:
        with self._changed:
            return self._ended

    def offer(self, assignment: Assignment) -> None:
        """Puts a task on the desk; has no effect if that task is in hand already."""
        with self._changed:
            if assignment.key != self._in_hand:
                self._in_hand = assignment.key
                self._assignment = assignment
                self._outcome = None
                self._changed.notify_all()

    def take(self, *, wait: bool) -> Assignment | None:
        """The task to do next; None if the session has ended or, without `wait`, if there is no task yet."""
        with self._changed:
            if wait:
                self._changed.wait_for(lambda: self._assignment or self._ended)
            if self._ended:
                return None
            assignment, self._assignment = self._assignment, None
            return assignment

    def finish(self, outcome: Outcome) -> bool:
        """Puts the outcome of a task on the desk; False if the task is not in hand any more."""
        with self._changed:
            if outcome.key != self._in_hand:
                return False
            self._outcome = outcome
            self._changed.notify_all()
            return True

    def decline(self, outcome: Outcome) -> None:
        """Puts the refusal of a task on the desk whose body was not accepted."""
        with self._changed:
            self._in_hand = outcome.key
            self._assignment = None
            self._outcome = outcome
            self._changed.notify_all()

    def drop(self, key: TaskKey) -> None:
        """Removes a task whose result the server has, or no longer waits for."""
        with self._changed:
            if key == self._in_hand:
                self._in_hand = self._assignment = self._outcome = None

    def end(self) -> None:
        """Ends the session."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def wait(self, until: Callable[[], object], *, timeout_s: float) -> None:
        """Waits until the condition is true, the session ends or the time is up; `wake` makes it test the condition."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended or until(), timeout=timeout_s)

    def wake(self) -> None:
        with self._changed:
            self._changed.notify_all()
