"""The way from a session to the server over an engine that carries requests and replies: the server asks, this answers.

A request is a list of the server's messages, a reply a list of the client's; each reply begins with a hello. While a
task is in work the reply waits for its result, up to `PATIENCE_S`; the server then asks again.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from google.protobuf.message import DecodeError

from fenchel.v1.federation_pb2 import ClientMessage, Hello, ServerMessage
from fenchel_client.connection import TaskLimit
from fenchel_client.desk import Desk
from fenchel_client.transport.inbox import Inbox
from fenchel_client.transport.link import result_messages
from fenchel_common.dismissal import Dismissal
from fenchel_common.errors import FenchelError, PeerSilent, ProtocolViolation, ServerUnavailable
from fenchel_common.identity import Kit
from fenchel_common.wire.chunks import MAX_BODY_BYTES
from fenchel_common.wire.frames import PROTOCOL_VERSION, dismissal_from_proto, key_to_proto

PATIENCE_S: Final = 2.0
SILENCE_S: Final = 50.0
"""Without a request for so long, the server counts as gone."""


class Reception:
    """Where the engine delivers requests; the connection of the moment answers them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._connection: Answering | None = None

    def answer(self, request: Sequence[bytes]) -> list[bytes] | None:
        """The reply to a request; None if the party is not connected, or the request is not one of this protocol."""
        with self._changed:
            connection = self._connection
        return None if connection is None else connection.answer(request)

    @contextmanager
    def dial(
        self, kit: Kit, desk: Desk, *, incarnation: str, limit: TaskLimit, outdated: Callable[[], bool]
    ) -> Iterator["Answering"]:
        """A `Dial`: the connection answers until it is closed."""
        connection = Answering(desk, incarnation, kit.roster.version, Inbox(desk, limit), outdated)
        with self._changed:
            self._connection = connection
        try:
            yield connection
        finally:
            with self._changed:
                self._connection = None


class Answering:
    """One connection: it lasts until the server dismisses the party, breaks the protocol or is silent for too long."""

    def __init__(
        self, desk: Desk, incarnation: str, roster_version: int, inbox: Inbox, outdated: Callable[[], bool]
    ) -> None:
        self._desk = desk
        self._incarnation = incarnation
        self._roster_version = roster_version
        self._inbox = inbox
        self._outdated = outdated
        self._one_at_a_time = threading.Lock()
        self._asked = False
        self._cancelled = False
        self._dismissal: Dismissal | None = None
        self._failure: FenchelError | None = None
        self.worked = False

    def run(self) -> Dismissal | None:
        """As for `Connection.run`."""
        while True:
            self._asked = False
            self._desk.wait(self._over, timeout_s=SILENCE_S)
            if self._dismissal is not None or self._desk.ended:
                return self._dismissal
            if self._failure is not None:
                raise self._failure
            if self._cancelled or self._outdated():
                raise ServerUnavailable("the connection is closed")
            if not self._asked:
                raise PeerSilent("the server has asked for nothing for too long")

    def cancel(self) -> None:
        """As for `Connection.cancel`."""
        self._cancelled = True
        self._desk.wake()

    def answer(self, request: Sequence[bytes]) -> list[bytes] | None:
        """The reply to a request; None if there is none, because this connection is over or must end."""
        with self._one_at_a_time:
            if self._over():
                return None
            self._asked = True
            try:
                for encoded in request:
                    self._take(ServerMessage.FromString(encoded))
            except (DecodeError, FenchelError) as error:
                self._failure = error if isinstance(error, FenchelError) else ProtocolViolation(str(error))
                self._desk.wake()
                return None
        # Without the lock: if the engine loses this reply, the server asks again while this thread still waits.
        if self._desk.in_hand is not None:
            self._desk.wait(lambda: self._over() or self._desk.outcome or not self._desk.in_hand, timeout_s=PATIENCE_S)
        return [message.SerializeToString() for message in self._reply()]

    def _over(self) -> bool:
        return self._dismissal is not None or self._failure is not None or self._cancelled or self._desk.ended

    def _take(self, message: ServerMessage) -> None:
        if message.WhichOneof("kind") == "dismissal":
            self._dismissal = dismissal_from_proto(message.dismissal)
            self._desk.wake()
        else:
            self._inbox.take(message)
        self.worked = True

    def _reply(self) -> Iterator[ClientMessage]:
        in_hand, outcome = self._desk.in_hand, self._desk.outcome
        yield ClientMessage(
            hello=Hello(
                protocol_version=PROTOCOL_VERSION,
                incarnation=self._incarnation,
                in_hand=key_to_proto(in_hand) if in_hand else None,
                roster_version=self._roster_version,
            )
        )
        if outcome is not None:
            yield from result_messages(outcome, MAX_BODY_BYTES)
