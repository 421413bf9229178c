"""The contract between the round driver and the server halves: a round is a chain of phases that ends in a report.

The driver and the server halves import this module, and neither imports the other.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from fenchel_common.ids import ClientId, RoundId
from fenchel_common.metrics import RoundMetrics
from fenchel_common.wire.parsing import Body


@dataclass(frozen=True, slots=True)
class PhaseRequest:
    """A phase to send to the clients; `tasks` has the serialised body of the task of each client that takes part."""

    phase: str
    tasks: Mapping[ClientId, bytes]


class Outcome(StrEnum):
    """Why the algorithm wants no further round."""

    CONVERGED = "converged"
    FINISHED = "finished"
    DIVERGED = "diverged"


@dataclass(frozen=True, slots=True)
class RoundReport:
    """The end of a round; with an `outcome` it is the end of the run too, and `reason` says why in words."""

    metrics: RoundMetrics
    outcome: Outcome | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ServerState:
    """The whole durable state of a server half between two rounds.

    `records` are those of the run from the first on; between two states of one run only the last ones differ. `own` is
    the rest, whose size does not grow with the rounds.
    """

    records: tuple[bytes, ...]
    own: bytes


class AlgorithmServer(Protocol):
    """The server half of an algorithm: no sockets, clocks or files, and only seeded randomness.

    The caller begins round t + 1 only after round t has ended in a report, or after the half was restored from a
    snapshot. A half that has raised an error is not used again; the caller restores one from the last snapshot.
    """

    def begin_round(
        self,
        round_id: RoundId,
        available: frozenset[ClientId],
        restarted: frozenset[ClientId],
        *,
        attempt: int,
        closing: bool = False,
    ) -> PhaseRequest:
        """Begins a round.

        Parameters
        ----------
        round_id
            The last round that has ended, plus 1.
        available
            The clients that are attached. The round asks no other client.
        restarted
            The available clients that have lost their state since the last round. An algorithm that was restored from
            a snapshot cannot know the state of the other clients before they have answered.
        attempt
            The number of the attempt at the run; a round that is begun again has a higher one.
        closing
            Whether the round is the last one of a run that is to stop: it certifies the model and changes nothing.

        Returns
        -------
        PhaseRequest
            The first phase of the round.

        Raises
        ------
        InvalidInput
            If `round_id` does not follow the last round.
        """
        ...

    def receive(self, phase: str, client: ClientId, result: Body) -> None:
        """Takes one result of the phase under way: reads it, adds its vectors to the sums so far, and drops it.

        Any thread may call it as results come, and several at once; at most once for a client, and not during another
        method. The outcome of the phase does not depend on the order of the calls. A malformed result raises no error:
        `advance` leaves its client out, and the sums have nothing of it.

        Parameters
        ----------
        phase
            The name of the phase that was requested last.
        client
            A client that has a task in the phase.
        result
            The body of its result.

        Raises
        ------
        InvalidInput
            If `phase` is not under way.
        FenchelError
            If the result contradicts others. The run then fails.
        """
        ...

    def advance(self, phase: str, results: Mapping[ClientId, bytes]) -> PhaseRequest | RoundReport:
        """Ends the phase under way, when all its results have come; called once for each phase.

        Parameters
        ----------
        phase
            The name of the phase that was requested last.
        results
            The bodies of results that were not given to `receive`. A client without any result is absent.

        Returns
        -------
        PhaseRequest | RoundReport
            The next phase of the round, or the report with which the round ends.

        Raises
        ------
        ResultRejected
            If the result of one client, or its absence, makes it impossible to continue the round; the round can be
            tried again.
        InvalidInput
            If `phase` is not under way, or if results contradict each other. The run then fails.
        """
        ...

    def snapshot(self) -> ServerState:
        """The whole durable state; called between two rounds, and before the first one.

        A half restored from it continues like this one, except that it must learn again what each client knows.
        """
        ...

    def last_state(self, client: ClientId) -> bytes:
        """The message from which a client makes its part of the final model, without any memory of earlier rounds.

        Called between two rounds, when the run ends.
        """
        ...
