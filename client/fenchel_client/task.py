"""What the server asks of a party, and what answers it, whatever carries both."""

from collections.abc import Callable
from dataclasses import dataclass, field

from fenchel_common.ids import RoundId, RunId


@dataclass(frozen=True, slots=True)
class Task:
    """What the server asks of the party; the body's meaning is between the halves of the algorithm."""

    run: RunId
    round: RoundId
    phase: str
    body: bytes = field(repr=False)
    attempt: int = 0


Handler = Callable[[Task], bytes]
"""Gives the result of a task; a `Refusal` that it raises goes to the server in its own public words."""
