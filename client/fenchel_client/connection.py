"""What a session knows about the way to the server: one connection at a time, between the server and the desk."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from fenchel_client.desk import Desk
from fenchel_common.identity import Kit
from fenchel_common.wire.frames import TaskKey

TaskLimit = Callable[[TaskKey], int]
"""The most bytes that a task may have, or the `Refusal` of it. Is called before anything of the task's body is held."""


class Connection(Protocol):
    """One attempt to be connected: puts tasks on the desk and hands in the results that lie there."""

    @property
    def worked(self) -> bool:
        """Whether the server sent anything beyond its welcome."""
        ...

    def run(self) -> str | None:
        """Serves the connection until it ends; the reason if the server dismissed us, None if we were stopped.

        Raises the error of the tree that ended the connection otherwise: a `TransientError` if the next attempt may
        succeed, a `PermanentError` if none can. Is called once.
        """
        ...

    def cancel(self) -> None:
        """Breaks the connection off; may be called from any thread, also after its end."""
        ...


class Dial(Protocol):
    """One way to reach the server, over which each attempt makes a connection of its own."""

    def __call__(
        self, kit: Kit, desk: Desk, *, incarnation: str, limit: TaskLimit, outdated: Callable[[], bool]
    ) -> AbstractContextManager[Connection]:
        """A connection, which is closed on leaving the context.

        Parameters
        ----------
        incarnation
            Tells this process from others of the same party, before and after it.
        outdated
            Whether `kit` is no longer the one in use: the connection is then given up for the next one.
        """
        ...
