"""The interface of the parts in which one run differs from another."""

from collections.abc import Mapping
from typing import Protocol

from fenchel_common.ids import ClientId
from fenchel_server.contract import AlgorithmServer, PhaseRequest, ServerState
from fenchel_server.release import Release
from fenchel_server.rounds.setup import SetupServer
from fenchel_server.store import SetupRecord


class RunParts(Protocol):
    """The parts in which one run differs from another; the driver does the rest.

    The methods have no effects. `setup` always means the record that the committed set-up gave.
    """

    @property
    def clients(self) -> frozenset[ClientId]:
        """The clients of all parties that take part; the same during the whole run."""
        ...

    def setup(self, attempt: int) -> SetupServer:
        """A fresh set-up; called at the beginning of each attempt at the set-up, with its number."""
        ...

    def restore(self, setup: SetupRecord, snapshot: ServerState) -> AlgorithmServer:
        """The algorithm in the state of `snapshot`; called at the beginning of an attempt, after the set-up.

        Raises `StateDamaged` if the snapshot does not fit the set-up.
        """
        ...

    def finish(self, setup: SetupRecord, algorithm: AlgorithmServer) -> PhaseRequest:
        """The last phase, which gives each party its part of the model; called after the last committed round."""
        ...

    def limits(self, phase: str, setup: SetupRecord) -> Mapping[ClientId, int]:
        """For each client the most bytes of its result in a phase of training or in the last phase."""
        ...

    def released(self, setup: SetupRecord, results: Mapping[ClientId, bytes]) -> Release | None:
        """The model as released in `results`, the results of the last phase; None if the server must not get it.

        A model that is not whole is no error: the `Release` then has a reason and no weights.
        """
        ...
