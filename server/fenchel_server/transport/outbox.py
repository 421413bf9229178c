"""The queue of items to be sent on one client's connection."""

import threading
from collections import deque
from dataclasses import dataclass
from enum import Enum

from fenchel_common.dismissal import Dismissal
from fenchel_common.errors import ProtocolViolation
from fenchel_common.ids import ClientId
from fenchel_common.wire.frames import TaskKey

MAX_WAITING = 64
"""One task and its receipts are normal; if more items wait, the client sends results and never reads."""


class Verdict(Enum):
    """The server's decision on a result that a client handed in."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    NOT_OPEN = "not awaited"


@dataclass(frozen=True, slots=True)
class Welcome:
    """The answer to a client's hello; says whether the server waits for the task that the client works on."""

    in_hand_awaited: bool


@dataclass(frozen=True, slots=True)
class Delivery:
    """A task for the client."""

    key: TaskKey
    body: bytes


@dataclass(frozen=True, slots=True)
class Receipt:
    """The decision on a result that the client handed in."""

    key: TaskKey
    verdict: Verdict


Item = Welcome | Delivery | Receipt | Dismissal


class OutboxClosed(Exception):
    """The outbox is closed and all its items have been taken."""


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
        """Adds an item; does nothing if the outbox is closed."""
        with self._changed:
            if self._closed:
                return
            if len(self._items) >= MAX_WAITING:
                self._end(ProtocolViolation(f"more than {MAX_WAITING} messages wait to be read"))
            else:
                self._items.append(item)
            self._changed.notify_all()

    def take(self, *, timeout_s: float) -> Item | None:
        """Waits for the next item and returns it, or None after `timeout_s`.

        Raises the error of a failed connection, and `OutboxClosed` if there will be no further item.
        """
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
        """Lets the connection end once the waiting items have been sent."""
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
