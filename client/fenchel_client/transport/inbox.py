"""Takes the server's messages that concern tasks to the desk, whichever way they came."""

import logging

from fenchel.v1.federation_pb2 import VERDICT_ACCEPTED, VERDICT_DUPLICATE, Receipt, ServerMessage, Task
from fenchel_client.connection import TaskLimit
from fenchel_client.desk import Assignment, Desk, Outcome
from fenchel_common.errors import BodyTooLarge, FenchelError, ProtocolViolation, Refusal
from fenchel_common.wire.chunks import BodyReader
from fenchel_common.wire.frames import TaskKey, key_from_proto

logger = logging.getLogger(__name__)


class Inbox:
    """The task that is coming in on one connection; the thread that reads the connection calls `take`."""

    def __init__(self, desk: Desk, limit: TaskLimit) -> None:
        self._desk = desk
        self._limit = limit
        self._task: TaskKey | None = None
        self._body: BodyReader | None = None

    def take(self, message: ServerMessage) -> None:
        """Takes a task, a chunk of its body, a receipt or a heartbeat; any other kind is a `ProtocolViolation`."""
        kind = message.WhichOneof("kind")
        if kind == "task":
            self._open_task(message.task)
        elif kind == "chunk":
            if self._body is None:
                raise ProtocolViolation("the server sent a chunk that belongs to no task")
            self._body.add(message.chunk)
            self._offer_if_whole()
        elif kind == "receipt":
            self._take_receipt(message.receipt)
        elif kind != "heartbeat":
            raise ProtocolViolation(f"the server sent a message of unknown kind {kind!r}")

    def _open_task(self, task: Task) -> None:
        if self._body is not None:
            raise ProtocolViolation("the server sent a task before the body of the previous one was whole")
        self._task = key_from_proto(task.key)
        try:
            limit_bytes = self._limit(self._task)
            self._body = BodyReader(task.body, what=f"the task of {self._task.phase}", limit_bytes=limit_bytes)
        except BodyTooLarge as error:
            self._decline(task, error, public_reason=str(error))
        except Refusal as refusal:
            self._decline(task, refusal, public_reason=refusal.public_reason)
        self._offer_if_whole()

    def _decline(self, task: Task, error: FenchelError, *, public_reason: str) -> None:
        """Refuses a task; its body is read and not kept."""
        key = key_from_proto(task.key)
        logger.error("task %s cannot be taken: %s", key, error)
        self._desk.decline(Outcome(key, refusal=public_reason))
        self._body = BodyReader(task.body, limit_bytes=task.body.size, keep=False)

    def _offer_if_whole(self) -> None:
        if self._body is None or self._task is None or not self._body.complete:
            return
        if self._body.kept:
            self._desk.offer(Assignment(self._task, self._body.body()))
        self._task = self._body = None

    def _take_receipt(self, receipt: Receipt) -> None:
        key = key_from_proto(receipt.key)
        if receipt.verdict not in (VERDICT_ACCEPTED, VERDICT_DUPLICATE):
            logger.warning("the result of %s came too late: the server no longer waits for it", key)
        self._desk.drop(key)
