"""A transport that counts the values in tasks and results, by class of visibility."""

from collections.abc import Mapping
from dataclasses import replace

from fenchel_common.algorithms.settings import AlgorithmSettings
from fenchel_common.ids import ClientId
from fenchel_common.leakage import Direction, Ledger
from fenchel_common.wire.catalogue import messages_of
from fenchel_common.wire.counting import values_in
from fenchel_server.rounds.transport import Gathered, PhaseId, Transport, WrappedTransport


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
    ) -> Gathered:
        messages = messages_of(phase.phase, self._settings)
        gathered = self._transport.gather(phase, tasks, deadline_s=deadline_s, limits=limits)
        seen = Ledger()
        for client, body in tasks.items():
            seen.add(client, Direction.DOWN, values_in(messages.task, body, inside=messages.inside))
        for client, body in gathered.results.items():
            seen.add(client, Direction.UP, values_in(messages.result, body, inside=messages.inside))
        return replace(gathered, seen=seen)
