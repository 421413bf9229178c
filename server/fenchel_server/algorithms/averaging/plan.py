"""The decisions of an algorithm on the averaging rails in a round, from public numbers alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fenchel_common.algorithms.averaging.choices import Numbers, RecordedPlan
from fenchel_common.algorithms.averaging.rails import Positions
from fenchel_common.ids import ClientId

__all__ = ["Closing", "Numbers", "Plan"]


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a round, made before the clients work.

    Attributes
    ----------
    told
        Public numbers, told to every client.
    weights
        The weight of each client's vectors; 1 for a client that is not named. A client of weight 0 does not train.
    coordinates
        The coordinates that the summed vectors cover, ascending; all of them if None. For horizontal shards.
    memory
        The new memory of the server; None keeps the old one.
    """

    told: Numbers = field(default_factory=dict)
    weights: Mapping[ClientId, float] = field(default_factory=dict)
    coordinates: Positions | None = None
    memory: Numbers | None = None

    def on_record(self, trainers: Sequence[ClientId], *, restating: bool) -> RecordedPlan:
        """The plan as the clients get it."""
        weights = {client: self.weights.get(client, 1.0) for client in trainers}
        return RecordedPlan(weights, self.told, self.coordinates, restating)


@dataclass(frozen=True, slots=True)
class Closing:
    """The end of a round: the numbers told to the clients with its sums, and the new memory; None keeps the old one."""

    told: Numbers = field(default_factory=dict)
    memory: Numbers | None = None
