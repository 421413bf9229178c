"""What the client's session knows about an algorithm: tasks go in, results come out."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fenchel_client.table import PartyTable
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import Cipher


class AlgorithmClient(Protocol):
    """The client half of an algorithm: no sockets, clocks, files or randomness of its own."""

    def preparation(self) -> bytes:
        """What the algorithm needs from this client before the first round."""
        ...

    def answer(self, phase: str, body: bytes) -> bytes:
        """The result of one task."""
        ...

    def final_model(self, state: bytes) -> NDArray[np.float64]:
        """The weights of this client's features by name, from the state that the server parts with."""
        ...


@runtime_checkable
class MayDiverge(Protocol):
    """The client half of an algorithm that answers, rather than fails, where its values outgrow the vectors."""

    @property
    def diverged(self) -> bool:
        """Whether the last answer says that they did."""
        ...


@runtime_checkable
class KnowsRows(Protocol):
    """The client half of an algorithm that learns how long its whole rows are, others' columns included."""

    @property
    def squared_norms(self) -> NDArray[np.float64] | None:
        """‖x_i‖² of this client's samples; None until it is known."""
        ...


class ClientHalf(Protocol):
    """How a client half is made. Each takes the settings of its own algorithm, with which the tables pair it."""

    def __call__(
        self,
        settings: Any,
        *,
        layout: ClientLayout,
        table: PartyTable,
        cipher: Cipher,
        key: RunKey,
        serialising: Callable[[], AbstractContextManager[None]],
    ) -> AlgorithmClient:
        """The half before its first task."""
        ...
