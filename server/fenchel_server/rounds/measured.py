"""A transport that takes the parties' results out of their envelopes, and adds what each party spent on its task."""

from collections.abc import Mapping
from dataclasses import replace

from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId
from fenchel_common.setup import Spent
from fenchel_common.wire.setup import phase_result_from_bytes
from fenchel_server.rounds.transport import Absence, Gathered, PhaseId, WrappedTransport


class MeasuredTransport(WrappedTransport):
    """Wraps the transport that reaches the parties; a result whose envelope cannot be read counts as an absence."""

    def gather(
        self,
        phase: PhaseId,
        tasks: Mapping[ClientId, bytes],
        *,
        deadline_s: float,
        limits: Mapping[ClientId, int] | None = None,
    ) -> Gathered:
        gathered = self._transport.gather(phase, tasks, deadline_s=deadline_s, limits=limits)
        results: dict[ClientId, bytes] = {}
        spent: dict[ClientId, Spent] = {}
        absences = dict(gathered.absences)
        for client, envelope in gathered.results.items():
            try:
                results[client], spent[client] = phase_result_from_bytes(envelope)
            except InvalidInput as error:
                absences[client] = Absence(client, f"rejected: {error}")
        return replace(gathered, results=results, absences=absences, spent=spent)
