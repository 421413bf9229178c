"""The interface of the client half of an algorithm: tasks go in, results come out."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fenchel_client.crypto.plain import Cipher
from fenchel_client.crypto.seal import Seal
from fenchel_client.table import PartyTable
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.scoresums import ScoreFigures


class AlgorithmClient(Protocol):
    """The client half of an algorithm: no sockets, clocks, files or randomness of its own.

    The methods are called one at a time. The half may remember values from one task to the next. The server may repeat
    a round: its tasks then get results with the same values. A process that restarts makes a new half without memory,
    and the server sends it the state again.
    """

    def preparation(self) -> bytes:
        """The values that the algorithm needs from this client before the first round; empty if it needs none.

        Called once, before any task, if the half is made in a set-up; not called after a restart of the process.
        """
        ...

    def first_book(self) -> Any:
        """The book of this algorithm before the first record of the run; called once."""
        ...

    def answer(self, phase: str, body: bytes, book: Any) -> bytes:
        """The result of one task.

        Called for each task of a round, in the order in which the server sends them. The caller has set the stamp of
        the seal with which the half was made.

        Parameters
        ----------
        phase
            The name of a phase of this algorithm.
        body
            The task as the server sent it; not trusted.
        book
            What follows from all records up to this task, made from `first_book`. The half opens no sum but those of
            the contributions that the book names.

        Raises
        ------
        InvalidInput
            The body is no task of this phase, or does not fit this client's data and memory.
        CryptoError
            A vector cannot be opened, or a value does not fit into a vector.
        """
        ...

    def final_model(self, state: bytes, book: Any) -> NDArray[np.float64]:
        """(m,) or (m, classes) the weights of this client's features, sorted by name.

        Called after the last round, also at a half that has had no task.

        Parameters
        ----------
        state
            The state of the algorithm that the server sends in the phase `finish`; not trusted.
        book
            As for `answer`.

        Raises
        ------
        InvalidInput, CryptoError
            As for `answer`.
        """
        ...


@runtime_checkable
class MayDiverge(Protocol):
    """The client half of an algorithm whose answer reports values that are too large for the vectors."""

    @property
    def diverged(self) -> bool:
        """Whether the last answer reported such values; False before the first answer."""
        ...


@runtime_checkable
class KnowsRows(Protocol):
    """The client half of an algorithm that learns the norms of its whole rows, other parties' columns included."""

    @property
    def squared_norms(self) -> NDArray[np.float64] | None:
        """(n,) ‖x_i‖² of this client's samples; None until it is known, and the same from then on."""
        ...


@runtime_checkable
class KnowsGap(Protocol):
    """The client half of an algorithm that computes the duality gap itself, from sums over all parties."""

    def certified_gap(self, book: Any) -> float | None:
        """P − D of the model on record; None if this half did not open the sums that show it."""
        ...

    @property
    def last_gap(self) -> float | None:
        """The last P − D that this half computed, on record or not; None before the first."""
        ...


@runtime_checkable
class KnowsScores(Protocol):
    """The client half of an algorithm that measures the final model on this client's own samples."""

    @property
    def own_scores(self) -> ScoreFigures | None:
        """How well the model predicts the labels of this client's samples; None before the last round.

        None also for a client without labels, and for one that restarted after that round. Nobody else is told.
        """
        ...


@runtime_checkable
class KnowsModel(Protocol):
    """The client half of an algorithm without certificates that opens figures of all parties about the model."""

    def measured(self, book: Any) -> bool:
        """Whether this half opened such figures in the newest round on record, about the model on record."""
        ...


class ClientHalf(Protocol):
    """The constructor of a client half; `settings` are those of the algorithm under which `ALGORITHMS` lists it."""

    def __call__(
        self,
        settings: Any,
        *,
        layout: ClientLayout,
        table: PartyTable,
        cipher: Cipher,
        key: RunKey,
        seal: Seal,
        serialising: Callable[[], AbstractContextManager[None]],
    ) -> AlgorithmClient:
        """The half before its first task.

        Parameters
        ----------
        layout
            Which rows of `table` fill which blocks; already checked against the party's data.
        table
            The party's data; the half reads them and does not change them.
        cipher
            Encrypts the values that leave the party, decrypts those that come.
        key
            The key of the run's vectors by sample.
        seal
            Tags the vectors that leave the party, checks the tags of those that come.
        serialising
            Makes a context in which the half turns messages into values and values into messages; it is timed.

        Raises
        ------
        InvalidInput
            The data do not fit the algorithm, such as labels that the loss cannot use.
        """
        ...
