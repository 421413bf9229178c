"""What the round driver knows about the way to the clients: fan these tasks out, gather what comes back in time."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from fenchel_common.ids import ClientId, RoundId, RunId
from fenchel_common.leakage import Ledger
from fenchel_common.setup import Spent


@dataclass(frozen=True, slots=True)
class PhaseId:
    """Identifies a phase; with a client it identifies a task, under which results are idempotent.

    `attempt` tells apart repetitions of a phase, for instance after a restart of the server.
    """

    run: RunId
    round: RoundId
    phase: str
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class Absence:
    """A client that gave no result in a phase, and why, in words fit for the record."""

    client: ClientId
    reason: str


@dataclass(frozen=True, slots=True)
class Exchange:
    """Of one client in one phase: seconds from the beginning until its result was whole, and bytes of its messages."""

    seconds: float
    bytes_up: int
    bytes_down: int


@dataclass(frozen=True, slots=True)
class Gathered:
    """The outcome of a phase: every client that had a task is in exactly one of the two mappings.

    The bytes are those of the messages that carried this phase's tasks and results, as serialised. `exchanges` has
    them for each client, and `spent` is what the parties say they spent on their tasks, where the transport knows.
    `seen` counts the values in tasks and results, where the transport knows what they are.
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
    """One way to reach the clients. Bodies are opaque; one phase is open at a time."""

    def gather(
        self,
        phase: PhaseId,
        tasks: Mapping[ClientId, bytes],
        *,
        deadline_s: float,
        limits: Mapping[ClientId, int] | None = None,
    ) -> Gathered:
        """Gives each client its task and returns when all have answered, or when the deadline has passed.

        `limits` has the most bytes of a client's result. Who announces more is left out, with the reason. For a client
        that is not named the transport's own limit holds, which nobody may exceed.
        """
        ...

    def present(self) -> frozenset[ClientId]:
        """The clients that are attached and alive now."""
        ...

    def wait_for(self, clients: frozenset[ClientId], *, timeout_s: float) -> frozenset[ClientId]:
        """Those of `clients` that are present once all of them are, or once time is out."""
        ...

    def incarnation(self, client: ClientId) -> str | None:
        """Changes when the client's process restarts, and with that loses its state; None before it first came."""
        ...

    def dismiss(self, reason: str) -> None:
        """Tells all clients, also those that come later, that the run is over. Final."""
        ...


class WrappedTransport:
    """Base of transports that change what another transport gathers, and leave everything else to it."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def present(self) -> frozenset[ClientId]:
        return self._transport.present()

    def wait_for(self, clients: frozenset[ClientId], *, timeout_s: float) -> frozenset[ClientId]:
        return self._transport.wait_for(clients, timeout_s=timeout_s)

    def incarnation(self, client: ClientId) -> str | None:
        return self._transport.incarnation(client)

    def dismiss(self, reason: str) -> None:
        self._transport.dismiss(reason)


class Listener(Transport, Protocol):
    """A transport that is open for clients to come, as the server process knows it."""

    @property
    def port(self) -> int:
        """Where clients reach it."""
        ...

    def set_serving(self, serving: bool) -> None:
        """Says, to those who check or watch the server's health, whether it can run a round now."""
        ...

    def wait_dismissed(self, clients: frozenset[ClientId], *, timeout_s: float) -> frozenset[ClientId]:
        """After `dismiss`: those of `clients` that have not come to hear it once all have, or once time is out."""
        ...

    def stop(self, *, grace_s: float = 0.0) -> None:
        """Closes, once calls have ended or the grace is over; returns when all is closed. Final."""
        ...
