"""The phase loop: sends a phase's tasks, hands the results to the server half, and repeats until the outcome."""

from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from fenchel_common.ids import ClientId
from fenchel_server.contract import PhaseRequest

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Answer = Callable[[str, ClientId, bytes], bytes | None]
"""The result of a client's task in a phase; None if the client is absent."""


class Phased(Protocol[T_co]):
    """A server half of any kind: a set-up, an alignment, or the rounds of an algorithm."""

    def advance(self, phase: str, results: Mapping[ClientId, bytes]) -> PhaseRequest | T_co:
        """Takes the results of a phase, and returns the next phase, or the outcome after the last phase.

        Called once for each phase, in order; clients without a result are absent. May raise `FenchelError`.
        """
        ...


def run_phases(first: PhaseRequest, server: Phased[T], answer: Answer) -> T:
    """Runs phases, beginning with `first`, and returns the outcome. The caller must have got `first` from `server`.

    Clients answer one after another, in the order of the tasks. Errors of a client or of the server half are raised.
    """
    step: PhaseRequest | T = first
    while isinstance(step, PhaseRequest):
        results: dict[ClientId, bytes] = {}
        for client, body in step.tasks.items():
            result = answer(step.phase, client, body)
            if result is not None:
                results[client] = result
        step = server.advance(step.phase, results)
    return step
