"""What a demonstration needs of a federation, whether of processes or of containers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Event = Mapping[str, Any]
Tell = Callable[[Event], None]


class RunningFederation(Protocol):
    """A federation whose server and parties have been started, as processes or as containers."""

    def events(self) -> Iterator[Event]:
        """Yields the server's events as they come, until the server ends. Called once."""
        ...

    def wait(self) -> Mapping[str, int]:
        """Waits until every process has ended by itself, and returns the exit codes by name.

        Called after the last event. May raise if a process does not end in time.
        """
        ...

    def model(self, features: Sequence[str]) -> NDArray[np.float64]:
        """The whole model in the order of `features`, made of the parts in the parties' folders.

        Called after `wait`, for a run that ended with a model.
        """
        ...

    def log(self, name: str) -> str:
        """The log that the server or a party has written so far; empty if there is none."""
        ...
