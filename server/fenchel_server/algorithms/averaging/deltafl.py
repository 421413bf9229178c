"""Δ-FL at the server: the clients with the largest losses, and the mean of their models, weighted by rows."""

from collections.abc import Mapping, Sequence

from fenchel_common.algorithms.averaging.deltafl import DeltaflSettings
from fenchel_common.ids import ClientId, RoundId
from fenchel_server.algorithms.averaging.descent import DescentServer
from fenchel_server.algorithms.averaging.plan import Numbers, Plan


class DeltaflServer(DescentServer[DeltaflSettings]):
    """The server half of Δ-FL."""

    def plan(self, round_id: RoundId, trainers: Sequence[ClientId], surveys: Mapping[ClientId, Numbers]) -> Plan:
        """Chooses clients by falling loss, until they have the fraction α of the rows of all trainers."""
        del round_id
        rows = {client: self.layout.samples_of(client) for client in trainers}
        weights = dict.fromkeys(trainers, 0.0)
        wanted = self.settings.alpha * sum(rows.values())
        chosen_rows = 0
        for client in sorted(trainers, key=lambda name: -surveys[name]["loss"]):
            if chosen_rows >= wanted:
                break
            weights[client] = rows[client] / self.layout.sample_count
            chosen_rows += rows[client]
        return Plan(weights=weights)
