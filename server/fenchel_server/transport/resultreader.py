"""Takes a client's messages that concern results to the mailbox, whichever way they came."""

from collections.abc import Callable

from fenchel.v1.federation_pb2 import Chunk, ClientMessage, Result
from fenchel_common.errors import ProtocolViolation
from fenchel_common.ids import ClientId
from fenchel_common.wire.chunks import BodyReader
from fenchel_common.wire.frames import TaskKey, key_from_proto
from fenchel_server.transport.mailbox import Mailbox
from fenchel_server.transport.outbox import Verdict


class ResultReader:
    """The result that is coming in from one client; the thread that reads its messages calls `take`.

    `close` is called with the decision on each result that is complete or refused. A result of more than `most_bytes`,
    or of more than the phase allows, raises `BodyTooLarge`.
    """

    def __init__(
        self, mailbox: Mailbox, client: ClientId, *, most_bytes: int, close: Callable[[TaskKey, Verdict], None]
    ) -> None:
        self._mailbox = mailbox
        self._client = client
        self._most_bytes = most_bytes
        self._close = close
        self._key: TaskKey | None = None
        self._body: BodyReader | None = None
        self._verdict = Verdict.NOT_OPEN

    def take(self, message: ClientMessage) -> None:
        """Takes a result or a chunk of its body, and counts its bytes."""
        starts = message.WhichOneof("kind") == "result"
        if starts:
            if self._body is not None:
                raise ProtocolViolation("a result began before the body of the previous result was complete")
            self._key = key_from_proto(message.result.key)
        self._mailbox.count(self._client, self._key, up=message.ByteSize())
        if starts:
            self._begin(self._key_in_hand(), message.result)
        else:
            self._add(message.chunk)

    def reject(self, error: Exception) -> None:
        """Gives up the result that is coming in, because of the client's error."""
        if self._key is not None:
            self._mailbox.give_up(self._client, self._key, f"rejected: {error}")

    def _begin(self, key: TaskKey, result: Result) -> None:
        outcome = result.WhichOneof("outcome")
        if outcome is None:
            raise ProtocolViolation("a result has neither a body nor a refusal")
        if outcome == "refusal":
            self._end(self._mailbox.give_up(self._client, key, f"refused: {result.refusal}"))
            return
        self._verdict = self._mailbox.verdict(self._client, key)
        allowed, most = self._mailbox.result_limit(self._client, key), self._most_bytes
        self._body = BodyReader(
            result.body,
            what=f"the result of {key.phase}",
            limit_bytes=most if allowed is None else min(allowed, most),
            keep=self._verdict is Verdict.ACCEPTED,
        )
        self._finish_if_whole()

    def _add(self, chunk: Chunk) -> None:
        if self._body is None:
            raise ProtocolViolation("a chunk belongs to no result")
        self._body.add(chunk)
        if self._body.kept and chunk.index:
            self._mailbox.progressed(self._client)
        self._finish_if_whole()

    def _finish_if_whole(self) -> None:
        if self._body is None or not self._body.complete:
            return
        verdict = self._verdict
        if verdict is Verdict.ACCEPTED:
            verdict = self._mailbox.hand_in(self._client, self._key_in_hand(), self._body.body())
        self._end(verdict)

    def _end(self, verdict: Verdict) -> None:
        key, self._key, self._body = self._key_in_hand(), None, None
        self._close(key, verdict)

    def _key_in_hand(self) -> TaskKey:
        if self._key is None:
            raise ProtocolViolation("no result is under way")
        return self._key
