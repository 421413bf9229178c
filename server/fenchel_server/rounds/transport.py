"""The interface between the round driver and a transport: send the tasks of a phase, gather the results in time."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from fenchel_common.dismissal import UnfitData
from fenchel_common.ids import ClientId, RoundId, RunId
from fenchel_common.leakage import Ledger
from fenchel_common.setup import Spent


@dataclass(frozen=True, slots=True)
class PhaseId:
    """Identifies a phase; with a client it identifies a task, under which results are idempotent.

    `attempt` distinguishes repetitions of a phase, for instance after a restart of the server.
    """

    run: RunId
    round: RoundId
    phase: str
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class Absence:
    """A client that gave no result in a phase, and the reason, in words for the record."""

    client: ClientId
    reason: str


@dataclass(frozen=True, slots=True)
class Exchange:
    """One client's exchange in one phase: the seconds until its result was complete, and the bytes of its messages.

    `ciphertext_up` and `ciphertext_down` are those of the bytes that are encrypted vectors; 0 if the transport does not
    read messages.
    """

    seconds: float
    bytes_up: int
    bytes_down: int
    ciphertext_up: int = 0
    ciphertext_down: int = 0


@dataclass(frozen=True, slots=True)
class PortBytes:
    """Bytes that came in and went out at the server's port since it listens, as the kernel counts them."""

    up: int
    down: int


Receive = Callable[[ClientId, memoryview], None]
"""Takes a client's result when it has come; several threads may call it at once."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """The outcome of a phase: every client that had a task is in exactly one of the two mappings.

    A result that was given to a `Receive` is empty here. The bytes are those of the serialised messages that carried
    this phase's tasks and results. `exchanges` has them for each client. `spent` has the time and memory that each
    party reports for its task; it is empty if the transport does not read envelopes. `seen` counts the values in tasks
    and results; it is empty if the transport does not count them.
    """

    results: Mapping[ClientId, bytes]
    absences: Mapping[ClientId, Absence]
    bytes_up: int
    bytes_down: int
    seconds: float
    spent: Mapping[ClientId, Spent] = field(default_factory=dict)
    exchanges: Mapping[ClientId, Exchange] = field(default_factory=dict)
    seen: Ledger = field(default_factory=Ledger)


class Transport(Protocol):
    """One way to reach the clients, which does not interpret the bodies of tasks and results.

    The caller calls `gather` only after it has returned for the phase before, and `dismiss` after the last phase.
    """

    def gather(
        self,
        phase: PhaseId,
        tasks: Mapping[ClientId, bytes],
        *,
        deadline_s: float,
        limits: Mapping[ClientId, int] | None = None,
        receive: Receive | None = None,
    ) -> Gathered:
        """Gives each client its task, and returns when all clients have answered or those that have not stand still.

        Parameters
        ----------
        phase
            A phase that was never gathered before: a repetition has another `attempt`.
        tasks
            The body of each client's task. A client that attaches before the deadline still gets its task.
        deadline_s
            After so many seconds without a result or a sign of work, a client stands still. A transport that sees no
            work counts from the beginning; one that does bounds the time of a phase all the same.
        limits
            The most bytes of each client's result. A client that announces more is absent, with the reason. The
            transport's own limit holds too, and is the only one for a client that is not named.
        receive
            Called with each result as soon as it has come, in any thread, and never after `gather` has returned; the
            transport then drops the result. Without it, the results are in `Gathered.results`.

        Returns
        -------
        Gathered
            The results in time, and an absence for every other client. Clients that fail raise no error.

        Raises
        ------
        Exception
            An error that `receive` raised.
        """
        ...

    def present(self) -> frozenset[ClientId]:
        """The clients that are attached now and have given a sign of life lately."""
        ...

    def wait_for(self, clients: frozenset[ClientId], *, timeout_s: float) -> frozenset[ClientId]:
        """Waits until all of `clients` are present, or for `timeout_s`; returns those of them that are present then."""
        ...

    def incarnation(self, client: ClientId) -> str | None:
        """The name of the client's present process; None if the client never attached.

        It changes when the process restarts and so loses its state.
        """
        ...

    def port_bytes(self) -> PortBytes | None:
        """The bytes of all connections so far; None if there is no port, or the kernel does not count."""
        ...

    def dismiss(self, reason: str, *, unfit: Mapping[str, UnfitData] | None = None) -> None:
        """Tells all clients, also those that attach later, that all runs are over. Cannot be undone.

        Each client in `unfit` is told how its data kept the last run from beginning.
        """
        ...


class WrappedTransport:
    """Base of transports that change the result of another transport's `gather`; a subclass defines `gather` itself."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def present(self) -> frozenset[ClientId]:
        return self._transport.present()

    def wait_for(self, clients: frozenset[ClientId], *, timeout_s: float) -> frozenset[ClientId]:
        return self._transport.wait_for(clients, timeout_s=timeout_s)

    def incarnation(self, client: ClientId) -> str | None:
        return self._transport.incarnation(client)

    def port_bytes(self) -> PortBytes | None:
        return self._transport.port_bytes()

    def dismiss(self, reason: str, *, unfit: Mapping[str, UnfitData] | None = None) -> None:
        self._transport.dismiss(reason, unfit=unfit)


class Listener(Transport, Protocol):
    """A transport to which clients connect, as the server process uses it."""

    @property
    def port(self) -> int:
        """The TCP port to which clients connect."""
        ...

    def owed(self) -> Mapping[ClientId, PhaseId]:
        """The clients that owe a result of the phase under way, and that phase; may be called from any thread."""
        ...

    def tend(self) -> None:
        """Called about once a second: reads counts that end with a connection, and tells of callers that failed."""
        ...

    def set_serving(self, serving: bool) -> None:
        """Sets what the server's health checks report: whether the server can run a round now."""
        ...

    def set_missing(self, missing: Mapping[ClientId, float]) -> None:
        """Sets the parties for whom a run waits, and since when they are missing, in seconds since 1970.

        The answers to health checks name them. May be called from any thread.
        """
        ...

    def wait_dismissed(self, clients: frozenset[ClientId], *, timeout_s: float) -> frozenset[ClientId]:
        """Waits until all of `clients` have been told of the dismissal, or for `timeout_s`; returns those not told yet.

        Called after `dismiss`.
        """
        ...

    def stop(self, *, grace_s: float = 0.0) -> None:
        """Closes the listener and returns when all connections are closed; cannot be undone.

        Connections have `grace_s` to end by themselves.
        """
        ...
