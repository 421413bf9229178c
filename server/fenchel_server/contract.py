"""What the round driver and the server halves agree on: a round is a chain of phases that ends in a report.

Both sides import this module, and neither imports the other.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from fenchel_common.ids import ClientId, RoundId
from fenchel_common.metrics import RoundMetrics


@dataclass(frozen=True, slots=True)
class PhaseRequest:
    """A phase to fan out; `tasks` holds the serialised body for each client that takes part."""

    phase: str
    tasks: Mapping[ClientId, bytes]


class Outcome(StrEnum):
    """Why the algorithm wants no further round."""

    CONVERGED = "converged"
    FINISHED = "finished"
    DIVERGED = "diverged"


@dataclass(frozen=True, slots=True)
class RoundReport:
    """The end of a round; with an outcome it is the end of the run, and `reason` says why in words."""

    metrics: RoundMetrics
    outcome: Outcome | None = None
    reason: str = ""


class AlgorithmServer(Protocol):
    """The server half of an algorithm: no sockets, clocks or files, and only seeded randomness."""

    def begin_round(
        self,
        round_id: RoundId,
        available: frozenset[ClientId],
        restarted: frozenset[ClientId],
        *,
        closing: bool = False,
    ) -> PhaseRequest:
        """Begins a round with the clients that are there.

        Parameters
        ----------
        restarted
            Clients that have lost their state since the last round. An algorithm that was made from a snapshot must
            expect any state of the others, until they have shown theirs.
        closing
            Certify the model as it is and change nothing: the last round of a run that is to stop.
        """
        ...

    def advance(self, phase: str, results: Mapping[ClientId, bytes]) -> PhaseRequest | RoundReport:
        """Takes the results of a phase, without those of absent clients, and gives the next phase or the report."""
        ...

    def snapshot(self) -> bytes:
        """The whole durable state between two rounds."""
        ...

    def last_state(self, client: ClientId) -> bytes:
        """What a client's half makes the final model of, whatever the client remembers."""
        ...
