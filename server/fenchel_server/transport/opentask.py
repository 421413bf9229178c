"""A client's task in the phase under way, and how long the server waits for those that are open.

A task progresses when a further chunk of it or of its result passes over the connection, and when its client says that
it has worked on it. A phase goes on while an open task has progressed within the deadline. It has a limit all the same,
so that a client that says for ever that it works holds up nobody for ever.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

MOST_DEADLINES: Final = 30
"""The limit of a phase is so many times its deadline."""


@dataclass(slots=True)
class OpenTask:
    """One client's task; it is settled once its result has come, or a reason why there will be none."""

    body: bytes
    limit_bytes: int | None = None
    result: bytes | None = None
    absence: str | None = None
    settled_at: float | None = None
    progressed_s: float | None = None
    """When the task last progressed, by the monotonic clock."""
    bytes_up: int = 0
    bytes_down: int = 0

    @property
    def settled(self) -> bool:
        return self.result is not None or self.absence is not None

    def absence_at(self, now_s: float, *, began_s: float, deadline_s: float) -> str:
        """Why there is no result of a task that is still open when its phase ends."""
        if self.progressed_s is None:
            return f"no result within {deadline_s:g} s"
        if now_s - self.progressed_s >= deadline_s:
            return f"no result, and no sign of work within {deadline_s:g} s"
        return f"no result within {now_s - began_s:.0f} s, although it works"


def seconds_left(tasks: Iterable[OpenTask], now_s: float, *, began_s: float, deadline_s: float) -> float:
    """How long to wait for the tasks that are not settled, if nothing happens; 0 or less once the phase is over."""
    unsettled = [task for task in tasks if not task.settled]
    if not unsettled:
        return 0.0
    last_s = max(began_s if task.progressed_s is None else task.progressed_s for task in unsettled)
    return min(last_s + deadline_s, began_s + MOST_DEADLINES * deadline_s) - now_s
