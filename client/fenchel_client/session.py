"""A party's session with the server: it connects, works on tasks and hands in results, until dismissed or stopped.

The thread that calls `run` works on the tasks. A second thread keeps the connection, so that heartbeats continue while
a task is in work, and a new connection replaces a lost one without loss of work.
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
from fenchel_common.dismissal import UnfitData
from fenchel_common.errors import (
    BodyTooLarge,
    CertificateNotValidNow,
    CertificateReplaced,
    FenchelError,
    ProtocolViolation,
    Refusal,
    TransientError,
    WrongAuthority,
)
from fenchel_common.identity import Kit, LiveKit
from fenchel_common.wire.chunks import MAX_BODY_BYTES

INTERNAL_REFUSAL = "internal error"
"""The public reason for every failure that is not a `Refusal`; the party's own log has the details."""
CERTIFICATE_TRIES = 6
"""After so many connections in a row that failed for a certificate that will never do, the session ends."""
CLOSING_S = 10.0
"""The time that an ended session waits for its connection to close."""

logger = logging.getLogger(__name__)


IdleFactory = Callable[[], AbstractContextManager[object]]


class EndKind(Enum):
    """The way in which a session ended without failure."""

    DISMISSED = "dismissed"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class SessionEnd:
    """`unfit`: what the server found wrong with this party's data when it dismissed the party, if anything."""

    kind: EndKind
    reason: str
    unfit: UnfitData | None = None


def answer(handler: Handler, task: Task) -> tuple[bytes | None, str]:
    """The handler's result and an empty text, or None and the public reason of a refusal.

    Only a `Refusal` has a public reason of its own; any other failure is logged here and gives `INTERNAL_REFUSAL`.
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

    Parameters
    ----------
    handler
        Gives the result of a task; called by the thread that calls `run`, one task at a time.
    dial
        Makes a connection; called for each attempt.
    idle
        Makes a context for work in advance: entered when there is no task, left as soon as a task comes. The work must
        stop promptly.
    limit
        Gives the most bytes of a task; called by the thread that keeps the connection, also while a task is in work.
    backoff
        Gives the delays between attempts.
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
        self._certificate_failures = 0

    def run(self) -> SessionEnd:
        """Works until the session ends; raises the `PermanentError` that ended it, if another attempt is no use."""
        connection = threading.Thread(target=self._stay_connected, name="connection", daemon=True)
        connection.start()
        try:
            while self._work_once():
                pass
        finally:
            self.stop()
            connection.join(CLOSING_S)
            # Objects of a connection may take a lock when they are freed, as gRPC's calls do. If they were freed at the
            # interpreter's end, they would wait for ever for a lock that a frozen thread has.
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

    @property
    def connected(self) -> bool:
        """Whether the server has sent anything after its welcome on the present connection."""
        connection = self._connection
        return connection is not None and connection.worked

    def _next_assignment(self) -> Assignment | None:
        assignment = self._desk.take(wait=False)
        if assignment is not None or self._desk.ended:
            return assignment
        with self._idling():
            return self._desk.take(wait=True)

    def _idling(self) -> AbstractContextManager[object]:
        """The context for work in advance; if it cannot be made, the session continues without it."""
        try:
            return self._idle()
        except Exception:
            logger.exception("work in advance failed")
            return nullcontext()

    def _work_once(self) -> bool:
        """Does the next task, and keeps neither its body nor its result; False if the session has ended."""
        assignment = self._next_assignment()
        if assignment is None:
            return False
        key = assignment.key
        task = Task(run=key.run, round=key.round, phase=key.phase, body=assignment.body, attempt=key.attempt)
        body, refusal = answer(self._handler, task)
        if not self._desk.finish(Outcome(key, body, refusal)):
            logger.warning("the result of %s came too late: the server no longer waits for it", key)
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
                    dismissal = connection.run()
                except (ProtocolViolation, BodyTooLarge):
                    raise  # Without `_recover`, the delays grow: a server that breaks the protocol is not tried often.
                except BaseException:
                    self._recover(connection)
                    raise
                finally:
                    self._connection = None
                self._recover(connection)
            if dismissal is not None:
                self._end = SessionEnd(EndKind.DISMISSED, dismissal.reason, dismissal.unfit)
                self._desk.end()
        except CertificateReplaced:
            if self._kit.look().certificate == kit.certificate:
                raise
        except (WrongAuthority, CertificateNotValidNow) as error:
            # Tried again a few times, because another server may have answered at the address for a moment.
            self._certificate_failures += 1
            if self._certificate_failures >= CERTIFICATE_TRIES:
                raise
            self._report(error)
            self._desk.wait(lambda: False, timeout_s=self._backoff.next_delay_s())
        except (TransientError, ProtocolViolation, BodyTooLarge) as error:
            # A server that breaks the protocol is left and tried again later: another one may replace it.
            self._report(error)
            self._desk.wait(lambda: False, timeout_s=self._backoff.next_delay_s())

        except FenchelError:
            raise
        except Exception:
            # No message of a server may end the party's process.
            logger.exception("the connection failed")
            self._desk.wait(lambda: False, timeout_s=self._backoff.next_delay_s())

    def _recover(self, connection: Connection) -> None:
        if connection.worked:
            self._backoff.reset()
            self._last_trouble = ""
            self._certificate_failures = 0

    def _report(self, error: FenchelError) -> None:
        # A server that is down for hours gives one line in the log, not thousands.
        trouble = str(error)
        level = logging.DEBUG if trouble == self._last_trouble else logging.WARNING
        self._last_trouble = trouble
        logger.log(level, "not connected: %s; trying again", trouble)
