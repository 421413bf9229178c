"""What waits to be sent on one client's connection."""

import threading
from collections import deque
from dataclasses import dataclass
from enum import Enum

from fenchel_common.errors import ProtocolViolation
from fenchel_common.ids import ClientId
from fenchel_common.wire.frames import TaskKey

MAX_WAITING = 64
"""One task and its receipts are normal; more waiting items mean a client that hands in and never reads."""


class Verdict(Enum):
    """What became of a result that a client handed in."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    NOT_OPEN = "not open"


@dataclass(frozen=True, slots=True)
class Welcome:
    in_hand_awaited: bool


@dataclass(frozen=True, slots=True)
class Delivery:
    key: TaskKey
    body: bytes


@dataclass(frozen=True, slots=True)
class Receipt:
    key: TaskKey
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Dismissal:
    reason: str


Item = Welcome | Delivery | Receipt | Dismissal


class OutboxClosed(Exception):
    """There will be no further items."""


class Outbox:
    """A bounded queue of items for one connection, which ends by closing or by failing."""

    def __init__(self, client: ClientId) -> None:
        self.client = client
        self._changed = threading.Condition(threading.Lock())
        self._items: deque[Item] = deque()
        self._closed = False
        self._failure: BaseException | None = None

    @property
    def closed(self) -> bool:
        with self._changed:
            return self._closed

    def put(self, item: Item) -> None:
        """Adds an item; a connection that is closed already takes no more and says nothing."""
        with self._changed:
            if self._closed:
                return
            if len(self._items) >= MAX_WAITING:
                self._end(ProtocolViolation(f"more than {MAX_WAITING} messages wait to be read"))
            else:
                self._items.append(item)
            self._changed.notify_all()

    def take(self, *, timeout_s: float) -> Item | None:
        """The next item; None when there was none in time."""
        with self._changed:
            self._changed.wait_for(lambda: self._items or self._closed, timeout=timeout_s)
            if self._failure is not None:
                raise self._failure
            if self._items:
                return self._items.popleft()
            if self._closed:
                raise OutboxClosed
            return None

    def withdraw(self) -> None:
        """Removes tasks that were not sent yet: their phase is over."""
        with self._changed:
            self._items = deque(item for item in self._items if not isinstance(item, Delivery))

    def close(self) -> None:
        """Lets the connection end once what waits has been sent."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """Ends the connection at once, with this error as its status."""
        with self._changed:
            self._end(error)
            self._changed.notify_all()

    def _end(self, error: BaseException) -> None:
        if not self._closed:
            self._closed = True
            self._failure = error
