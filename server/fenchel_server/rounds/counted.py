"""A transport that counts the values in tasks and results, by class of visibility, and the bytes of ciphertext."""

from collections.abc import Mapping
from dataclasses import replace

from fenchel_common.algorithms.settings import AlgorithmSettings
from fenchel_common.ids import ClientId
from fenchel_common.leakage import Direction, Ledger
from fenchel_common.wire.catalogue import messages_of
from fenchel_common.wire.counting import Content, content_of
from fenchel_server.rounds.transport import Exchange, Gathered, PhaseId, Receive, Transport, WrappedTransport


class CountedTransport(WrappedTransport):
    """Wraps a transport that gives the parties' results without their envelopes, and adds `Gathered.seen`
    and the bytes of ciphertext in `Gathered.exchanges`.

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
        counts: dict[ClientId, Content] = {}

        def count(client: ClientId, body: memoryview) -> None:
            counts[client] = content_of(messages.result, body, inside=messages.inside)
            if receive is not None:
                receive(client, body)
            results[client] = b"" if receive is not None else bytes(body)

        gathered = self._transport.gather(phase, tasks, deadline_s=deadline_s, limits=limits, receive=count)
        seen = Ledger()
        # Parties with the same task share its bytes.
        made = {
            name: content_of(messages.task, body, inside=messages.inside)
            for name, body in {id(body): body for body in tasks.values()}.items()
        }
        sent = {client: made[id(body)] for client, body in tasks.items()}
        for direction, contents in ((Direction.DOWN, sent), (Direction.UP, counts)):
            for client, content in contents.items():
                seen.add(client, direction, content.tally)
        exchanges = {
            client: _with_ciphertext(exchange, sent[client], counts.get(client))
            for client, exchange in gathered.exchanges.items()
        }
        in_order = {client: results[client] for client in gathered.results}
        return replace(gathered, results=in_order, seen=seen, exchanges=exchanges)


def _with_ciphertext(exchange: Exchange, task: Content, result: Content | None) -> Exchange:
    """The exchange with its bytes of ciphertext; a task that its party never got has none on the wire."""
    down = task.ciphertext_bytes if exchange.bytes_down > task.ciphertext_bytes else 0
    return replace(exchange, ciphertext_down=down, ciphertext_up=0 if result is None else result.ciphertext_bytes)
