"""A transport that counts the values in tasks and results, by class of visibility."""

from collections.abc import Mapping
from dataclasses import replace

from fenchel_common.algorithms.settings import AlgorithmSettings
from fenchel_common.ids import ClientId
from fenchel_common.leakage import Direction, Ledger, Tally
from fenchel_common.wire.catalogue import messages_of
from fenchel_common.wire.counting import values_in
from fenchel_server.rounds.transport import Gathered, PhaseId, Receive, Transport, WrappedTransport


class CountedTransport(WrappedTransport):
    """Wraps a transport that gives the parties' results without their envelopes, and adds `Gathered.seen`.

    A task counts even if its party never got it: the server made the task, so it has seen the values in it.
    """

    def __init__(self, transport: Transport, settings: AlgorithmSettings) -> None:
        super().__init__(transport)
        self._settings = settings

    def gather(
        self,
        phase: PhaseId,
        tasks: Mapping[ClientId, bytes],
        *,
        deadline_s: float,
        limits: Mapping[ClientId, int] | None = None,
        receive: Receive | None = None,
    ) -> Gathered:
        messages = messages_of(phase.phase, self._settings)
        results: dict[ClientId, bytes] = {}
        counts: dict[ClientId, Tally] = {}

        def count(client: ClientId, body: bytes) -> None:
            counts[client] = values_in(messages.result, body, inside=messages.inside)
            if receive is not None:
                receive(client, body)
            results[client] = b"" if receive is not None else body

        gathered = self._transport.gather(phase, tasks, deadline_s=deadline_s, limits=limits, receive=count)
        seen = Ledger()
        for client, body in tasks.items():
            seen.add(client, Direction.DOWN, values_in(messages.task, body, inside=messages.inside))
        for client, tally in counts.items():
            seen.add(client, Direction.UP, tally)
        in_order = {client: results[client] for client in gathered.results}
        return replace(gathered, results=in_order, seen=seen)
