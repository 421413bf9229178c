"""The task that the server gives a party, and the handler that answers it, independent of the transport."""

from collections.abc import Callable
from dataclasses import dataclass, field

from fenchel_common.ids import RoundId, RunId
from fenchel_common.records import Moment


@dataclass(frozen=True, slots=True)
class Task:
    """One task of a run; the two halves of the algorithm, or of the set-up, define the meaning of the body."""

    run: RunId
    round: RoundId
    phase: str
    body: bytes = field(repr=False)
    attempt: int = 0

    @property
    def moment(self) -> Moment:
        return Moment(self.attempt, self.round, self.phase)


Handler = Callable[[Task], bytes]
"""Gives the result of a task, or raises; the server learns the public reason of a `Refusal` and of no other error."""
