"""The interface between a session and its transport: one connection at a time, between the server and the desk."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from fenchel_client.desk import Desk
from fenchel_common.dismissal import Dismissal
from fenchel_common.identity import Kit
from fenchel_common.wire.frames import TaskKey

TaskLimit = Callable[[TaskKey], int]
"""Gives the most bytes that a task may have, or raises `Refusal`; called before any of its body is in memory."""


class Connection(Protocol):
    """One attempt to be connected: puts the server's tasks on the desk, and sends the results that lie there."""

    @property
    def worked(self) -> bool:
        """Whether the server sent anything after its welcome; read by the session after `run`."""
        ...

    def run(self) -> Dismissal | None:
        """Serves the connection until it ends.

        Called once, by the thread that keeps the connection. Results that the server has not acknowledged stay on the
        desk, for the next connection.

        Returns
        -------
        Dismissal or None
            The dismissal by the server; None if the desk's session has ended.

        Raises
        ------
        TransientError
            The connection ended, and the next attempt may succeed.
        PermanentError
            The connection ended, and no attempt can succeed. After a `ProtocolViolation` or `BodyTooLarge`, which the
            server has caused, the session tries again all the same.
        """
        ...

    def cancel(self) -> None:
        """Ends the connection at once; may be called from any thread and more than once, also after its end."""
        ...


class Dial(Protocol):
    """One way to reach the server; each call is one attempt."""

    def __call__(
        self, kit: Kit, desk: Desk, *, incarnation: str, limit: TaskLimit, outdated: Callable[[], bool]
    ) -> AbstractContextManager[Connection]:
        """A new connection, which is closed on leaving the context; called once the one before is closed.

        Parameters
        ----------
        kit
            The identity of the party, and the server's address.
        desk
            Outlives the connection.
        incarnation
            A random name of this process, which differs from that of every other process of the same party.
        limit
            Called for each task, by the thread that runs the connection.
        outdated
            Whether `kit` is no longer the newest one: the connection then ends, and the next one uses the newest kit.

        Raises
        ------
        InvalidInput, IdentityError
            The kit or the address cannot be used.
        """
        ...
