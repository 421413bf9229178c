"""One connection to the server, from hello to its end.

The thread that calls `run` reads. gRPC's own thread sends the messages of `_outgoing`, which sleeps until there is a
result or a heartbeat is due.
"""

import logging
import time
from collections.abc import Callable, Iterator

import grpc

from fenchel.v1 import federation_pb2_grpc
from fenchel.v1.federation_pb2 import (
    ClientMessage,
    Heartbeat,
    Hello,
    ServerMessage,
    Welcome,
)
from fenchel_client.connection import TaskLimit
from fenchel_client.desk import Desk, Outcome
from fenchel_client.transport.inbox import Inbox
from fenchel_common.dismissal import Dismissal
from fenchel_common.errors import (
    CertificateReplaced,
    FenchelError,
    NotOnRoster,
    PeerSilent,
    ProtocolVersionMismatch,
    ProtocolViolation,
    RosterExpired,
    ServerUnavailable,
    TransientError,
)
from fenchel_common.wire.frames import (
    PROTOCOL_VERSION,
    TaskKey,
    dismissal_from_proto,
    key_to_proto,
    refusal_frame,
    result_frames,
)
from fenchel_common.wire.status import error_of_call, roster_version_of
from fenchel_common.wire.trouble import FOREIGN_KEY

WELCOME_S = 30.0
"""The time that the server may take to answer the hello."""
SILENT_HEARTBEATS = 3.5
"""After so many heartbeat intervals without a message, the server counts as gone."""
WORK_S = 0.05
"""The CPU time between two heartbeats from which on a party with a task works on it. Waiting takes a tenth of it."""

logger = logging.getLogger(__name__)


class Link:
    """One attempt to be connected.

    Parameters
    ----------
    outdated
        Whether there is a newer kit than the one of this connection: the connection then ends, and the session makes
        another one.
    """

    def __init__(
        self,
        channel: grpc.Channel,
        desk: Desk,
        *,
        incarnation: str,
        roster_version: int,
        limit: TaskLimit,
        outdated: Callable[[], bool] = lambda: False,
        metadata: tuple[tuple[str, str], ...] = (),
    ) -> None:
        self._desk = desk
        self._incarnation = incarnation
        self._roster_version = roster_version
        self._outdated = outdated
        self._inbox = Inbox(desk, limit)
        self._open = True
        self._welcome: Welcome | None = None
        self._sent: Outcome | None = None
        self._given_up: TransientError | None = None
        self._last_heard_s = time.monotonic()
        self._worked_s = time.process_time()
        self._greeted_with: TaskKey | None = None
        self.worked = False
        """Whether the server sent anything after its welcome."""
        stub = federation_pb2_grpc.FederationStub(channel)
        self._calls = [stub.Attend(self._outgoing(), metadata=metadata)]
        """The call, until it ends; gRPC's sending thread keeps this object alive, so the call must not stay in it."""

    def run(self) -> Dismissal | None:
        """As for `Connection.run`."""
        (call,) = self._calls
        try:
            for message in call:
                self._last_heard_s = time.monotonic()
                if message.WhichOneof("kind") == "dismissal":
                    return dismissal_from_proto(message.dismissal)
                self._take(message)
            if self._desk.ended:
                return None
            raise ServerUnavailable("the server ended the connection")
        except grpc.RpcError:
            if self._desk.ended:
                return None
            raise self._given_up or self._refusal(call) from None
        finally:
            self._open = False
            self._desk.wake()
            self.cancel()
            self._calls.clear()

    def cancel(self) -> None:
        """As for `Connection.cancel`."""
        for call in self._calls:
            call.cancel()

    def _outgoing(self) -> Iterator[ClientMessage]:
        self._greeted_with = self._desk.in_hand
        yield ClientMessage(
            hello=Hello(
                protocol_version=PROTOCOL_VERSION,
                incarnation=self._incarnation,
                in_hand=key_to_proto(self._greeted_with) if self._greeted_with else None,
                roster_version=self._roster_version,
            )
        )
        self._desk.wait(lambda: self._welcome or not self._open, timeout_s=WELCOME_S)
        if self._welcome is None:
            if self._open and not self._desk.ended:
                self._give_up(PeerSilent("the server did not answer the hello"))
            return
        heartbeat_s = self._welcome.heartbeat_ms / 1000
        limit_bytes = self._welcome.max_body_bytes
        while True:
            self._desk.wait(lambda: not self._open or self._unsent(), timeout_s=heartbeat_s)
            if not self._open or self._desk.ended:
                return
            if time.monotonic() - self._last_heard_s > SILENT_HEARTBEATS * heartbeat_s:
                self._give_up(PeerSilent("nothing was heard from the server for too long"))
                return
            if self._outdated():
                self._give_up(ServerUnavailable("there is a newer kit, with which the party connects again"))
                return
            yield from self._due(limit_bytes)

    def _due(self, limit_bytes: int) -> Iterator[ClientMessage]:
        # A generator of its own, so that no variable keeps a long result in memory after it was sent.
        outcome = self._unsent()
        if outcome is None:
            yield ClientMessage(heartbeat=Heartbeat(working=self._works()))
        else:
            self._sent = outcome
            yield from result_messages(outcome, limit_bytes)

    def _works(self) -> bool:
        """Whether the party has worked on a task since the heartbeat before."""
        before_s, self._worked_s = self._worked_s, time.process_time()
        return self._desk.in_hand is not None and self._worked_s - before_s >= WORK_S

    def _unsent(self) -> Outcome | None:
        outcome = self._desk.outcome
        return None if outcome is self._sent else outcome

    def _give_up(self, reason: TransientError) -> None:
        self._given_up = reason
        self.cancel()

    def _refusal(self, call: grpc.Call) -> FenchelError:
        """The error that ended the call; if the two rosters differ, its message says what to do."""
        error = error_of_call(call)
        theirs = roster_version_of(call)
        if (
            isinstance(error, CertificateReplaced | NotOnRoster | RosterExpired)
            and theirs is not None
            and theirs < self._roster_version
        ):
            return ServerUnavailable(
                f"the server's roster is version {theirs}, this kit's is version {self._roster_version}, and names this"
                " party or another key for it; ask the operator to put the newest roster into the server's kit"
            )
        if isinstance(error, ServerUnavailable) and FOREIGN_KEY in (call.details() or ""):
            return ServerUnavailable(
                f"the server at this address has another key than the server of this kit's roster (version"
                f" {self._roster_version}): its kit or this kit is old; get the kit of the last"
                " `fenchel provision` from the operator"
            )
        return error

    def _take(self, message: ServerMessage) -> None:
        kind = message.WhichOneof("kind")
        if (kind == "welcome") is (self._welcome is not None):
            raise ProtocolViolation(f"the server sent a message of kind {kind!r} out of order")
        self.worked = kind != "welcome"
        if kind == "welcome":
            self._be_welcomed(message.welcome)
        else:
            self._inbox.take(message)
            if kind == "receipt":
                self._sent = None

    def _be_welcomed(self, welcome: Welcome) -> None:
        if welcome.protocol_version != PROTOCOL_VERSION:
            raise ProtocolVersionMismatch(
                f"this client speaks version {PROTOCOL_VERSION} of the protocol, the server version"
                f" {welcome.protocol_version}; install the same Fenchel version on both sides"
            )
        if welcome.heartbeat_ms == 0:
            raise ProtocolViolation("the server asks for heartbeats without pause")
        self._compare_rosters(welcome.roster_version)
        if self._greeted_with is not None and not welcome.in_hand_awaited:
            self._desk.drop(self._greeted_with)
        logger.info("attached to the server")
        self._welcome = welcome
        self._desk.wake()

    def _compare_rosters(self, theirs: int) -> None:
        if theirs > self._roster_version:
            logger.warning(
                "this kit is old: its roster is version %d, the server's is version %d; get roster.json and roster.sig"
                " of version %d from the operator and put them into the kit, without a restart",
                self._roster_version,
                theirs,
                theirs,
            )
        elif theirs < self._roster_version:
            logger.warning(
                "the server's kit is old: its roster is version %d, this kit's is version %d; ask the operator to"
                " put the newest into the server's kit",
                theirs,
                self._roster_version,
            )


def result_messages(outcome: Outcome, limit_bytes: int) -> Iterator[ClientMessage]:
    """The messages that hand in an outcome; a result over the server's limit becomes a refusal."""
    if outcome.body is None:
        yield refusal_frame(outcome.key, outcome.refusal)
    elif len(outcome.body) > limit_bytes:
        reason = f"the result of {len(outcome.body)} bytes is over the server's limit of {limit_bytes} bytes"
        logger.error("%s: %s", outcome.key, reason)
        yield refusal_frame(outcome.key, reason)
    else:
        yield from result_frames(outcome.key, outcome.body)
