"""Tells of callers that open a connection and never prove who they are.

gRPC ends a TLS handshake that fails without a word to the server's own code. But it asks for the server's certificate
at the beginning of each handshake, and the caller of each call has ended one. A handshake that is not followed by a
call has failed, or its caller wanted nothing.
"""

import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final

REPEAT_S: Final = 30.0
"""How often it is said at most, however many callers there are."""
MAX_UNDER_WAY: Final = 10_000
MAX_CALLERS: Final = 4096

logger = logging.getLogger(__name__)


class Handshakes:
    """Counts handshakes that began and those that led to a call; safe to use from several threads.

    `patience_s` is how long a caller may take from the one to the other.
    """

    def __init__(self, *, patience_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._patience_s = patience_s
        self._clock = clock
        self._lock = threading.Lock()
        self._began: deque[float] = deque(maxlen=MAX_UNDER_WAY)
        self._callers: OrderedDict[str, None] = OrderedDict()
        self._failed = 0
        self._told_s = clock() - REPEAT_S

    def begin(self) -> None:
        """Notes that a caller has opened a connection."""
        with self._lock:
            self._began.append(self._clock())

    def succeed(self, caller: str) -> None:
        """Notes a call; `caller` is the caller's address and port, the same for all calls of a connection."""
        with self._lock:
            if caller in self._callers:
                return
            self._callers[caller] = None
            if len(self._callers) > MAX_CALLERS:
                self._callers.popitem(last=False)
            if self._began:
                self._began.popleft()

    def tell(self) -> None:
        """Logs how many callers have failed since it was last said, if it is time to say so."""
        with self._lock:
            now_s = self._clock()
            while self._began and now_s - self._began[0] > self._patience_s:
                self._began.popleft()
                self._failed += 1
            failed = self._failed
            if not failed or now_s - self._told_s < REPEAT_S:
                return
            self._failed, self._told_s = 0, now_s
        logger.warning(
            "%d connections were opened by callers that did not prove that they belong to this federation: their "
            "certificate is of another authority, has expired or is missing, or they do not take this server's; such a "
            "party needs a kit of this federation",
            failed,
        )
