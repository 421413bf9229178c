"""A party's session with the server: connect, work, hand in, and again, until dismissed or stopped.

The thread that calls `run` works on the tasks; a second one keeps the connection, so that heartbeats go on while a
task is in work, and a lost connection is made anew without the work being lost.
"""

import gc
import logging
import secrets
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import Enum

from fenchel_client.connection import Connection, Dial, TaskLimit
from fenchel_client.desk import Assignment, Desk, Outcome
from fenchel_client.retry import Backoff
from fenchel_client.task import Handler, Task
from fenchel_common.errors import (
    BodyTooLarge,
    CertificateReplaced,
    FenchelError,
    ProtocolViolation,
    Refusal,
    TransientError,
)
from fenchel_common.identity import Kit, LiveKit
from fenchel_common.wire.chunks import MAX_BODY_BYTES

INTERNAL_REFUSAL = "internal error"
"""What the server is told of a failure that is not a refusal: the party's own log has the details."""
CLOSING_S = 10.0
"""How long an ended session waits for its connection to close."""

logger = logging.getLogger(__name__)


IdleFactory = Callable[[], AbstractContextManager[object]]


class EndKind(Enum):
    """How a session ended that did not fail."""

    DISMISSED = "dismissed"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class SessionEnd:
    kind: EndKind
    reason: str


def answer(handler: Handler, task: Task) -> tuple[bytes | None, str]:
    """The handler's result and an empty text, or None and the public reason for there being none.

    Only a `Refusal` says why, in its own public words; any other failure is logged here and told to nobody.
    """
    try:
        return handler(task), ""
    except Refusal as refusal:
        logger.error("refused %s of round %d: %s", task.phase, task.round, refusal)
        return None, refusal.public_reason
    except Exception:
        logger.exception("failed in %s of round %d", task.phase, task.round)
        return None, INTERNAL_REFUSAL


class Session:
    """Serves one party until the server dismisses it, `stop` is called, or the server refuses it for good.

    `idle` makes a context that is entered whenever there is nothing to do and left as soon as a task has come: the
    place for work in advance, which must stop promptly. `limit` says how long a task may be; it is called by the thread
    that keeps the connection, while another task may be in work.
    """

    def __init__(
        self,
        kit: Kit | LiveKit,
        handler: Handler,
        *,
        dial: Dial,
        idle: IdleFactory | None = None,
        limit: TaskLimit = lambda _: MAX_BODY_BYTES,
        backoff: Backoff | None = None,
    ) -> None:
        self._kit = LiveKit.of(kit)
        self._handler = handler
        self._idle = idle or nullcontext
        self._dial = dial
        self._limit = limit
        self._backoff = backoff or Backoff()
        self._incarnation = secrets.token_hex(16)
        self._desk = Desk()
        self._connection: Connection | None = None
        self._end: SessionEnd | None = None
        self._failure: BaseException | None = None
        self._last_trouble = ""

    def run(self) -> SessionEnd:
        """Works until the session ends; raises the `PermanentError` that no further attempt can cure."""
        connection = threading.Thread(target=self._stay_connected, name="connection", daemon=True)
        connection.start()
        try:
            while self._work_once():
                pass
        finally:
            self.stop()
            connection.join(CLOSING_S)
            # What is left of a connection may take a lock when it is freed, as gRPC's calls do. Freed at the
            # interpreter's end, it would wait for ever if a thread was frozen with that lock in hand.
            gc.collect()
        if self._failure is not None:
            raise self._failure
        return self._end or SessionEnd(EndKind.STOPPED, "stopped at this party")

    def stop(self) -> None:
        """Ends the session once the task in work is done; may be called from any thread or signal handler."""
        self._desk.end()
        connection = self._connection
        if connection is not None:
            connection.cancel()

    def _next_assignment(self) -> Assignment | None:
        assignment = self._desk.take(wait=False)
        if assignment is not None or self._desk.ended:
            return assignment
        with self._idling():
            return self._desk.take(wait=True)

    def _idling(self) -> AbstractContextManager[object]:
        """The work in advance; none if it cannot even begin, which is no reason to leave the federation."""
        try:
            return self._idle()
        except Exception:
            logger.exception("work in advance failed")
            return nullcontext()

    def _work_once(self) -> bool:
        """Does the next task, and lets go of its body and result: the next one may be as long again."""
        assignment = self._next_assignment()
        if assignment is None:
            return False
        key = assignment.key
        task = Task(run=key.run, round=key.round, phase=key.phase, body=assignment.body, attempt=key.attempt)
        body, refusal = answer(self._handler, task)
        if not self._desk.finish(Outcome(key, body, refusal)):
            logger.warning("the result of %s came too late: the server has gone on", key)
        return True

    def _stay_connected(self) -> None:
        try:
            while not self._desk.ended:
                self._connect_once()
        except BaseException as error:
            self._failure = error
        finally:
            self._desk.end()

    def _connect_once(self) -> None:
        kit = self._kit.look()
        try:
            with self._dial(
                kit,
                self._desk,
                incarnation=self._incarnation,
                limit=self._limit,
                outdated=lambda: self._kit.look() is not kit,
            ) as connection:
                self._connection = connection
                try:
                    reason = connection.run()
                except (ProtocolViolation, BodyTooLarge):
                    raise  # The pauses grow: whatever else came, this server is not to be trusted with a busy line.
                except BaseException:
                    self._recover(connection)
                    raise
                self._recover(connection)
            if reason is not None:
                self._end = SessionEnd(EndKind.DISMISSED, reason)
                self._desk.end()
        except CertificateReplaced:
            if self._kit.look().certificate == kit.certificate:
                raise
        except (TransientError, ProtocolViolation, BodyTooLarge) as error:
            # A server that sends what the protocol does not allow is left, and tried again: it may be replaced.
            self._report(error)
            self._desk.wait(lambda: False, timeout_s=self._backoff.next_delay_s())

        except FenchelError:
            raise
        except Exception:
            # Whatever a server may have brought about: a party stays.
            logger.exception("the connection failed")
            self._desk.wait(lambda: False, timeout_s=self._backoff.next_delay_s())

    def _recover(self, connection: Connection) -> None:
        if connection.worked:
            self._backoff.reset()
            self._last_trouble = ""

    def _report(self, error: FenchelError) -> None:
        # A server that is down for hours is one line in the log, not thousands.
        trouble = f"{type(error).__name__}: {error}"
        level = logging.DEBUG if trouble == self._last_trouble else logging.WARNING
        self._last_trouble = trouble
        logger.log(level, "not connected (%s); trying again until it works", trouble)
