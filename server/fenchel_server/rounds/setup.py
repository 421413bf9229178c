"""The set-up of a run, round 0: the same shape as an algorithm, phase by phase, ending in what all agreed on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from fenchel_common.ids import ClientId
from fenchel_server.contract import PhaseRequest
from fenchel_server.store import SetupRecord


@dataclass(frozen=True, slots=True)
class SetupDone:
    """The set-up's outcome: what is kept for the whole run, and the algorithm's state before round 1.

    `warnings` are for people to read before round 1, and hold no sample id and no value.
    """

    record: SetupRecord
    snapshot: bytes
    warnings: tuple[str, ...] = ()


class SetupServer(Protocol):
    """The server's half of the set-up. Pure: no sockets, clocks or files.

    Every client that a phase asks must answer it, or the set-up is begun anew with a fresh object.
    """

    def begin(self) -> PhaseRequest:
        """The first phase."""
        ...

    def advance(self, phase: str, results: Mapping[ClientId, bytes]) -> PhaseRequest | SetupDone:
        """The next phase, or the outcome. `ResultRejected` names a client whose result is not acceptable."""
        ...

    def limits(self, phase: str) -> Mapping[ClientId, int]:
        """For each client the most bytes of its result in the phase under way."""
        ...
