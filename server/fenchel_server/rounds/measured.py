"""A transport that takes the parties' results out of their envelopes, and adds what each party spent on its task."""

from collections.abc import Mapping
from dataclasses import replace

from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId
from fenchel_common.setup import Spent
from fenchel_common.wire.setup import phase_result_from_bytes
from fenchel_server.rounds.transport import Absence, Gathered, PhaseId, Receive, WrappedTransport


class MeasuredTransport(WrappedTransport):
    """Wraps the transport that reaches the parties; a result whose envelope cannot be read counts as an absence."""

    def gather(
        self,
        phase: PhaseId,
        tasks: Mapping[ClientId, bytes],
        *,
        deadline_s: float,
        limits: Mapping[ClientId, int] | None = None,
        receive: Receive | None = None,
    ) -> Gathered:
        results: dict[ClientId, bytes] = {}
        spent: dict[ClientId, Spent] = {}
        unreadable: dict[ClientId, Absence] = {}

        def open_envelope(client: ClientId, envelope: memoryview) -> None:
            try:
                body, spent[client] = phase_result_from_bytes(envelope)
            except InvalidInput as error:
                unreadable[client] = Absence(client, f"rejected: {error}")
                return
            if receive is not None:
                receive(client, body)
            results[client] = b"" if receive is not None else bytes(body)

        gathered = self._transport.gather(phase, tasks, deadline_s=deadline_s, limits=limits, receive=open_envelope)
        in_order = {client: results[client] for client in gathered.results if client in results}
        return replace(gathered, results=in_order, absences={**gathered.absences, **unreadable}, spent=spent)
