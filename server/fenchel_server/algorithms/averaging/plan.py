"""What an algorithm on the averaging rails decides in a round, from public numbers alone."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fenchel_common.algorithms.averaging.rails import Positions
from fenchel_common.ids import ClientId

Numbers = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Plan:
    """What the clients shall do in a round.

    Attributes
    ----------
    told
        Numbers for every client, public.
    weights
        With what weight each client's vectors count; 1 for a client that is not named. One of weight 0 is not asked.
    coordinates
        The coordinates that the summed vectors cover, ascending; all of them if None. For horizontal shards.
    memory
        The server's own numbers from now on; as they were if None.
    """

    told: Numbers = field(default_factory=dict)
    weights: Mapping[ClientId, float] = field(default_factory=dict)
    coordinates: Positions | None = None
    memory: Numbers | None = None


@dataclass(frozen=True, slots=True)
class Closing:
    """The numbers that go with the round's sums to the clients, and the server's own from now on."""

    told: Numbers = field(default_factory=dict)
    memory: Numbers | None = None
