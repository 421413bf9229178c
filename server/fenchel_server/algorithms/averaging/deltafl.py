"""Δ-FL at the server: whose losses are in the tail, and the mean of their models by their rows."""

from collections.abc import Mapping, Sequence

from fenchel_common.algorithms.averaging.deltafl import DeltaflSettings
from fenchel_common.ids import ClientId, RoundId
from fenchel_server.algorithms.averaging.descent import DescentServer
from fenchel_server.algorithms.averaging.plan import Numbers, Plan


class DeltaflServer(DescentServer[DeltaflSettings]):
    """The server half of Δ-FL."""

    def plan(self, round_id: RoundId, trainers: Sequence[ClientId], surveys: Mapping[ClientId, Numbers]) -> Plan:
        """Parties from the largest loss down, until they hold the share α of the rows of those who are there."""
        del round_id
        rows = {client: self.samples_of(client) for client in trainers}
        weights = dict.fromkeys(trainers, 0.0)
        wanted = self.settings.alpha * sum(rows.values())
        held = 0
        for client in sorted(trainers, key=lambda name: -surveys[name]["loss"]):
            if held >= wanted:
                break
            weights[client] = rows[client] / self.layout.sample_count
            held += rows[client]
        return Plan(weights=weights)
