"""The spans of a server, made of its events and of the phases of its transport."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

from opentelemetry.trace import INVALID_SPAN, Span, StatusCode

from fenchel_common.ids import ClientId
from fenchel_common.wire.frames import TaskKey
from fenchel_deploy.monitoring.tracer import Tracer, add_attributes
from fenchel_server.rounds.transport import Gathered, PhaseId, Receive, Transport, WrappedTransport

SPENT: Final = ("encrypt_s", "decrypt_s", "serialise_s", "compute_s")
"""What a party reports of its task, as far as its span has it."""
INTERRUPTED: Final = "interrupted"
"""The status of a run whose server ends before it."""

Add = Callable[[Gathered], None]


class ServerTraces:
    """The spans of one server process; `observe` takes its events, `around` sees the phases of its transport."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._run: Span = INVALID_SPAN
        self._round: Span | None = None
        self._round_began_ns = 0

    def observe(self, event: Mapping[str, Any]) -> None:
        """Takes an event of the server."""
        match event["event"]:
            case "begins":
                settings = {name: event[name] for name in ("algorithm", "privacy", "cipher")}
                self._run = self._tracer.begin_run(event["run"], settings)
                self._round_began_ns = time.time_ns()
            case "ready" | "round":
                self._end_round()
            case "ended":
                self.end(event["status"])

    def end(self, status: str = INTERRUPTED) -> None:
        """Ends the spans of the run under way, if there is one."""
        self._end_round()
        add_attributes(self._run, {"status": status})
        self._run.end()
        self._run = INVALID_SPAN

    def around(self, transport: Transport) -> Transport:
        """The transport, with a span for each of its phases."""
        return _TracedTransport(transport, self._phase)

    @contextmanager
    def _phase(self, phase: PhaseId) -> Iterator[Add]:
        """The span of a phase inside the `with` statement; the function takes what was gathered in it."""
        if self._round is None:
            began_ns = self._round_began_ns
            self._round = self._tracer.begin("round", self._run, {"round": phase.round}, at_ns=began_ns)
        span = self._tracer.begin_phase(TaskKey(phase.run, phase.round, phase.phase, phase.attempt), self._round)
        began_ns = time.time_ns()

        def add(gathered: Gathered) -> None:
            for client in sorted(gathered.results.keys() | gathered.absences.keys()):
                self._add_task(client, gathered, span, began_ns)

        try:
            yield add
        finally:
            span.end()

    def _add_task(self, client: ClientId, gathered: Gathered, phase: Span, began_ns: int) -> None:
        """The span of one party's task, from the beginning of the phase until its result was complete."""
        span = self._tracer.begin("task", phase, {"party": client}, at_ns=began_ns)
        exchange, spent = gathered.exchanges.get(client), gathered.spent.get(client)
        took_s = gathered.seconds
        if exchange is not None:
            add_attributes(span, {"bytes_up": exchange.bytes_up, "bytes_down": exchange.bytes_down})
        if client in gathered.absences:
            span.set_status(StatusCode.ERROR, "absent")
        elif exchange is not None:
            took_s = exchange.seconds
        if spent is not None:
            add_attributes(span, {name: getattr(spent, name) for name in SPENT})
        span.end(began_ns + round(took_s * 1e9))

    def _end_round(self) -> None:
        if self._round is not None:
            self._round.end()
        self._round, self._round_began_ns = None, time.time_ns()


class _TracedTransport(WrappedTransport):
    """A transport whose phases are observed."""

    def __init__(self, transport: Transport, observed: Callable[[PhaseId], AbstractContextManager[Add]]) -> None:
        super().__init__(transport)
        self._observed = observed

    def gather(
        self,
        phase: PhaseId,
        tasks: Mapping[ClientId, bytes],
        *,
        deadline_s: float,
        limits: Mapping[ClientId, int] | None = None,
        receive: Receive | None = None,
    ) -> Gathered:
        with self._observed(phase) as add:
            gathered = self._transport.gather(phase, tasks, deadline_s=deadline_s, limits=limits, receive=receive)
            add(gathered)
        return gathered
