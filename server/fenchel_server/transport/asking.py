"""The transport over an engine that carries requests and replies: the server asks each party, and the party answers.

A request is a list of the server's messages, a reply a list of the client's; each reply begins with a hello, which says
which process answers. A task goes in one request, and its result comes in the reply to it or, if the work takes longer,
to one of the requests that follow. The engine authenticates: a reply must come from the party that was asked.
"""

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from google.protobuf.message import DecodeError

from fenchel.v1.federation_pb2 import ClientMessage, Heartbeat, ServerMessage
from fenchel.v1.federation_pb2 import Receipt as ReceiptMessage
from fenchel_common.dismissal import Dismissal, UnfitData
from fenchel_common.errors import FenchelError, PeerSilent, ProtocolViolation
from fenchel_common.identity import LiveKit
from fenchel_common.ids import ClientId
from fenchel_common.wire.chunks import MAX_BODY_BYTES
from fenchel_common.wire.frames import (
    PROTOCOL_VERSION,
    TaskKey,
    dismissal_to_proto,
    key_from_proto,
    key_to_proto,
    task_frames,
)
from fenchel_server.rounds.transport import Gathered, PhaseId, Receive
from fenchel_server.transport.mailbox import Mailbox
from fenchel_server.transport.outbox import Delivery, Outbox, OutboxClosed, Verdict, Welcome
from fenchel_server.transport.resultreader import ResultReader
from fenchel_server.transport.servicer import MAX_INCARNATION_CHARACTERS, VERDICTS

HEARTBEAT_S: Final = 15.0
SILENCE_S: Final = 50.0
ANSWER_S: Final = 20.0
"""The most time for a reply; a party that works answers sooner, without a result."""
PAUSE_S: Final = 0.5
"""The pause before a party that did not answer is asked again."""

logger = logging.getLogger(__name__)


class Ask(Protocol):
    """Sends a request to one party over the engine."""

    def __call__(self, client: ClientId, request: Sequence[bytes], *, timeout_s: float) -> Sequence[bytes] | None:
        """The party's reply; None if none came in time. Several threads call it at once, one for each party."""
        ...


@dataclass(frozen=True, slots=True)
class Reply:
    """A party's reply: which process answers, the task it has in hand, and the messages of its result."""

    incarnation: str
    in_hand: TaskKey | None
    results: Sequence[ClientMessage]


def reply_from_bytes(reply: Sequence[bytes]) -> Reply:
    """A reply; `ProtocolViolation` if it has no hello of this version, or other messages than those of a result."""
    try:
        messages = [ClientMessage.FromString(encoded) for encoded in reply]
    except DecodeError as error:
        raise ProtocolViolation(str(error)) from None
    if not messages or messages[0].WhichOneof("kind") != "hello":
        raise ProtocolViolation("a reply does not begin with a hello")
    hello = messages[0].hello
    if hello.protocol_version != PROTOCOL_VERSION:
        raise ProtocolViolation(
            f"its process speaks version {hello.protocol_version} of the protocol, this server version"
            f" {PROTOCOL_VERSION}; install the same Fenchel version on both sides"
        )
    if not 1 <= len(hello.incarnation) <= MAX_INCARNATION_CHARACTERS:
        raise ProtocolViolation(f"the incarnation must have 1 to {MAX_INCARNATION_CHARACTERS} characters")
    if any(message.WhichOneof("kind") not in ("result", "chunk") for message in messages[1:]):
        raise ProtocolViolation("a reply has other messages than a hello and a result")
    in_hand = key_from_proto(hello.in_hand) if hello.HasField("in_hand") else None
    return Reply(hello.incarnation, in_hand, messages[1:])


class AskingTransport:
    """A `Listener` that asks every party of the roster, each from a thread of its own; it has no port."""

    port = 0

    def __init__(self, kit: LiveKit, ask: Ask) -> None:
        self._mailbox = Mailbox(silence_s=SILENCE_S)
        self._stopped = threading.Event()
        self._threads = [
            threading.Thread(
                target=_Visits(party, self._mailbox, ask, self._stopped).run, name=f"ask {party}", daemon=True
            )
            for party in kit.look().roster.names
        ]
        for thread in self._threads:
            thread.start()

    def gather(
        self,
        phase: PhaseId,
        tasks: Mapping[ClientId, bytes],
        *,
        deadline_s: float,
        limits: Mapping[ClientId, int] | None = None,
        receive: Receive | None = None,
    ) -> Gathered:
        return self._mailbox.gather(phase, tasks, deadline_s=deadline_s, limits=limits, receive=receive)

    def present(self) -> frozenset[ClientId]:
        return self._mailbox.present()

    def owed(self) -> Mapping[ClientId, PhaseId]:
        return self._mailbox.owed()

    def wait_for(self, clients: frozenset[ClientId], *, timeout_s: float) -> frozenset[ClientId]:
        return self._mailbox.wait_for(clients, timeout_s=timeout_s)

    def incarnation(self, client: ClientId) -> str | None:
        return self._mailbox.incarnation(client)

    def port_bytes(self) -> None:
        """There is no port."""

    def tend(self) -> None:
        """There are no connections."""

    def dismiss(self, reason: str, *, unfit: Mapping[str, UnfitData] | None = None) -> None:
        self._mailbox.dismiss(reason, unfit=unfit or {}, timeout_s=ANSWER_S)

    def wait_dismissed(self, clients: frozenset[ClientId], *, timeout_s: float) -> frozenset[ClientId]:
        return self._mailbox.wait_dismissed(clients, timeout_s=timeout_s)

    def set_serving(self, serving: bool) -> None:
        """The engine has health checks of its own."""

    def set_missing(self, missing: Mapping[ClientId, float]) -> None:
        """As `set_serving`."""

    def stop(self, *, grace_s: float = 0.0) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join(grace_s)


class _Visits:
    """Asks one party until it has been dismissed or the transport stops."""

    def __init__(self, client: ClientId, mailbox: Mailbox, ask: Ask, stopped: threading.Event) -> None:
        self._client = client
        self._mailbox = mailbox
        self._ask = ask
        self._stopped = stopped

    def run(self) -> None:
        while not self._stopped.is_set():
            outbox = Outbox(self._client)
            try:
                visit = _Visit(self._mailbox, outbox, self._ask, self._stopped)
                if visit.begin():
                    visit.continue_until_over()
            except OutboxClosed:
                return
            except FenchelError as error:
                logger.warning("%s: %s", self._client, error)
            except Exception:
                logger.exception("%s could not be asked", self._client)
            finally:
                outbox.close()
                self._mailbox.detach(outbox)
            self._stopped.wait(PAUSE_S)


class _Visit:
    """The requests to one process of a party, from its first reply on."""

    def __init__(self, mailbox: Mailbox, outbox: Outbox, ask: Ask, stopped: threading.Event) -> None:
        self._mailbox = mailbox
        self._outbox = outbox
        self._client = outbox.client
        self._ask = ask
        self._stopped = stopped
        self._receipts: list[ServerMessage] = []
        self._incarnation = ""
        self._results = ResultReader(mailbox, self._client, most_bytes=MAX_BODY_BYTES, close=self._decided)

    def begin(self) -> bool:
        """Attaches the party; False if it does not answer."""
        reply = self._reply_to([ServerMessage(heartbeat=Heartbeat())])
        if reply is None:
            return False
        self._incarnation = reply.incarnation
        self._mailbox.attach(self._outbox, incarnation=reply.incarnation, in_hand=reply.in_hand)
        logger.info("%s is attached", self._client)
        if reply.in_hand is not None:
            self._take_results(reply)
            self._await(reply.in_hand)
        return True

    def continue_until_over(self) -> None:
        """Sends what the mailbox has for the party; raises `OutboxClosed` after its dismissal."""
        while not self._stopped.is_set():
            item = self._outbox.take(timeout_s=HEARTBEAT_S)
            match item:
                case Delivery(key=key, body=body):
                    if self._mailbox.awaits(self._client, key):
                        self._send(list(task_frames(key, body)), key=key)
                        self._await(key)
                case Dismissal():
                    self._send([ServerMessage(dismissal=dismissal_to_proto(item))])
                case None:
                    self._send([ServerMessage(heartbeat=Heartbeat())])
                case Welcome():
                    pass  # the hello that was answered by it has been taken already
                case _:
                    raise AssertionError(f"receipts do not go through the outbox: {item}")

    def _await(self, key: TaskKey) -> None:
        while self._mailbox.awaits(self._client, key) and not self._stopped.is_set():
            self._send([ServerMessage(heartbeat=Heartbeat())])

    def _send(self, messages: Sequence[ServerMessage], *, key: TaskKey | None = None) -> None:
        """Asks with these messages, again and again until there is a reply, and takes it."""
        messages = [*self._receipts, *messages]
        self._mailbox.count(self._client, key, down=sum(message.ByteSize() for message in messages))
        while (reply := self._reply_to(messages)) is None:
            if key is not None and not self._mailbox.awaits(self._client, key):
                return
            if self._outbox.closed or self._mailbox.silent(self._outbox):
                raise PeerSilent("gives no answer")
            if self._stopped.wait(PAUSE_S):
                raise OutboxClosed
        self._receipts = []
        self._mailbox.heard(self._outbox)
        if reply.incarnation != self._incarnation:
            raise PeerSilent("another process of it answers now")
        self._take_results(reply)

    def _reply_to(self, messages: Sequence[ServerMessage]) -> Reply | None:
        reply = self._ask(self._client, [message.SerializeToString() for message in messages], timeout_s=ANSWER_S)
        return None if reply is None else reply_from_bytes(reply)

    def _take_results(self, reply: Reply) -> None:
        try:
            for message in reply.results:
                self._results.take(message)
        except FenchelError as error:
            self._results.reject(error)
            raise

    def _decided(self, key: TaskKey, verdict: Verdict) -> None:
        self._receipts.append(ServerMessage(receipt=ReceiptMessage(key=key_to_proto(key), verdict=VERDICTS[verdict])))
