"""The phase loop: fan a phase out, hand the results to the server half, and again until it has its outcome."""

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
        """The next phase, or the outcome."""
        ...


def run_phases(first: PhaseRequest, server: Phased[T], answer: Answer) -> T:
    """The outcome to which the phases lead, from the one that `server` has opened.

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
