"""The set-up of a run, which is round 0: a chain of phases, like a round of an algorithm."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from fenchel_common.ids import ClientId
from fenchel_server.contract import PhaseRequest, ServerState
from fenchel_server.store import SetupRecord


@dataclass(frozen=True, slots=True)
class SetupDone:
    """The set-up's outcome: the record for the whole run, and the snapshot of the algorithm before round 1.

    `warnings` are for people to read before round 1, and contain no sample id and no value.
    """

    record: SetupRecord
    snapshot: ServerState
    warnings: tuple[str, ...] = ()


class SetupServer(Protocol):
    """The server's half of the set-up: no sockets, clocks or files.

    Every client that has a task in a phase must answer it. If one does not, or if a method raises an error, the caller
    drops this object, and begins the set-up again with a fresh one.
    """

    def begin(self) -> PhaseRequest:
        """The first phase; called once, before the other methods."""
        ...

    def advance(self, phase: str, results: Mapping[ClientId, bytes]) -> PhaseRequest | SetupDone:
        """Takes the results of the phase under way and gives the next phase or the outcome; called once a phase.

        Parameters
        ----------
        phase
            The name of the phase that was requested last.
        results
            The body of the result of every client that had a task.

        Raises
        ------
        ResultRejected
            If the result of one client does not fit its task; the set-up can be tried again.
        FenchelError
            If the set-up cannot succeed, for instance because labels differ. The run then fails.
        """
        ...

    def limits(self, phase: str) -> Mapping[ClientId, int]:
        """For each client the most bytes of its result in the phase under way; called before the phase is sent."""
        ...
