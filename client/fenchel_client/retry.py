"""The delay before the next attempt to connect."""

import random

INITIAL_DELAY_S = 0.2
MAX_DELAY_S = 15.0


class Backoff:
    """Exponential back-off with a cap and jitter.

    Each delay is drawn from the upper half of its interval: long enough to spare a server that is down, spread
    enough that the clients of a server that comes back do not all connect at once.
    """

    def __init__(
        self,
        *,
        initial_s: float = INITIAL_DELAY_S,
        max_s: float = MAX_DELAY_S,
        randomness: random.Random | None = None,
    ) -> None:
        self._initial_s = initial_s
        self._max_s = max_s
        self._random = randomness or random.SystemRandom()
        self._ceiling_s = initial_s

    def next_delay_s(self) -> float:
        """The delay before the next attempt; the one after it may be twice as long."""
        ceiling_s = min(self._ceiling_s, self._max_s)
        self._ceiling_s = min(2 * ceiling_s, self._max_s)
        return ceiling_s * (1 + self._random.random()) / 2

    def reset(self) -> None:
        """Begins with the shortest delay again; called after a connection that worked."""
        self._ceiling_s = self._initial_s
