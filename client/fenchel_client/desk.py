"""What lies between the thread that works and the connection: the task to do and the result to hand in.

The desk outlives connections. The server has at most one task open for a client, so whatever it sends replaces what
went before. A result stays until the server has acknowledged it or moved on, and is handed in again, the same
bytes, on every new connection until then.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from fenchel_common.wire.frames import TaskKey


@dataclass(frozen=True, slots=True)
class Assignment:
    """A task as it came in."""

    key: TaskKey
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a task: a body, or the public reason for there being none."""

    key: TaskKey
    body: bytes | None = field(default=None, repr=False)
    refusal: str = ""


class Desk:
    """Thread-safe; every wait ends when the session ends."""

    def __init__(self) -> None:
        # Reentrant, because a signal handler may end the session while its own thread holds the lock.
        self._changed = threading.Condition(threading.RLock())
        self._in_hand: TaskKey | None = None
        self._assignment: Assignment | None = None
        self._outcome: Outcome | None = None
        self._ended = False

    @property
    def in_hand(self) -> TaskKey | None:
        """The task that waits, is in work, or whose result is not acknowledged."""
        with self._changed:
            return self._in_hand

    @property
    def outcome(self) -> Outcome | None:
        """The result to hand in."""
        with self._changed:
            return self._outcome

    @property
    def ended(self) -> bool:
        with self._changed:
            return self._ended

    def offer(self, assignment: Assignment) -> None:
        """Takes in a task; one that is in hand already changes nothing."""
        with self._changed:
            if assignment.key != self._in_hand:
                self._in_hand = assignment.key
                self._assignment = assignment
                self._outcome = None
                self._changed.notify_all()

    def take(self, *, wait: bool) -> Assignment | None:
        """The task to do next; None when there is none (yet, without `wait`) or the session has ended."""
        with self._changed:
            if wait:
                self._changed.wait_for(lambda: self._assignment or self._ended)
            if self._ended:
                return None
            assignment, self._assignment = self._assignment, None
            return assignment

    def finish(self, outcome: Outcome) -> bool:
        """Puts down what became of a task; False if the server has gone on and nobody waits for it."""
        with self._changed:
            if outcome.key != self._in_hand:
                return False
            self._outcome = outcome
            self._changed.notify_all()
            return True

    def decline(self, outcome: Outcome) -> None:
        """Puts down the refusal of a task whose body was never taken in."""
        with self._changed:
            self._in_hand = outcome.key
            self._assignment = None
            self._outcome = outcome
            self._changed.notify_all()

    def drop(self, key: TaskKey) -> None:
        """Forgets a task whose result the server has, or wants no more."""
        with self._changed:
            if key == self._in_hand:
                self._in_hand = self._assignment = self._outcome = None

    def end(self) -> None:
        """Ends the session."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def wait(self, until: Callable[[], object], *, timeout_s: float) -> None:
        """Waits for a condition, which `wake` has tested again, for the end of the session, or for the timeout."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended or until(), timeout=timeout_s)

    def wake(self) -> None:
        with self._changed:
            self._changed.notify_all()
