"""What the client's session knows about an algorithm: tasks go in, results come out."""

from typing import Protocol


class AlgorithmClient(Protocol):
    """The client half of an algorithm: no sockets, clocks, files or randomness of its own."""

    def opening(self) -> bytes:
        """What the algorithm needs from this client before the first round."""
        ...

    def answer(self, phase: str, body: bytes) -> bytes:
        """The result of one task."""
        ...
