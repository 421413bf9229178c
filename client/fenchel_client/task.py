"""The task that the server gives a party, the handler that answers it, and the cluster that may do its heavy work."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from fenchel_client.crypto.blocks import Workers
from fenchel_client.crypto.keys import PrivateKey
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


class Cluster(Protocol):
    """Where the heavy work of tasks is done, if not in the process that has the task."""

    def workers(self, key: PrivateKey) -> Workers:
        """Workers that have this key."""
        ...
