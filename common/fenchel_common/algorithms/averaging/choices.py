"""The server's choices in a round on the averaging rails, as they are on record.

Parties check them as far as they can: `check_plan` and `check_closing` of the algorithm's settings.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from fenchel_common.algorithms.averaging.rails import Positions
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId, RoundId

Numbers = Mapping[str, float]


@dataclass(frozen=True, slots=True, eq=False)
class RecordedPlan:
    """The plan of a round.

    Attributes
    ----------
    told
        Public numbers for the clients' work.
    weights
        For each client that may train, the weight of its vectors; a client of weight 0 does not train.
    coordinates
        The coordinates that the summed vectors cover, ascending; all of them if None.
    restating
        Whether the clients that train restate the state that enters the round.
    """

    weights: Mapping[ClientId, float]
    told: Numbers = field(default_factory=dict)
    coordinates: Positions | None = None
    restating: bool = False

    @property
    def trainers(self) -> tuple[ClientId, ...]:
        return tuple(client for client, weight in self.weights.items() if weight > 0.0)

    def check_weights(self, *, each: float = math.inf, together: float = math.inf) -> None:
        """Raises `InvalidInput` unless every weight is finite and from 0 to `each`, and their sum at most `together`.

        The sum may be larger by rounding errors.
        """
        if not all(0.0 <= weight <= each and math.isfinite(weight) for weight in self.weights.values()):
            raise InvalidInput(f"plan.weights: must lie between 0 and {each:g}")
        if sum(self.weights.values()) > together * (1.0 + 1e-9):
            raise InvalidInput(f"plan.weights: must not be more than {together:g} together")

    def check_equal_weights(self) -> None:
        """Raises `InvalidInput` unless every weight is exactly 1."""
        if any(weight != 1.0 for weight in self.weights.values()):
            raise InvalidInput("plan.weights: must all be 1")

    def check_weights_by_samples(self, occasion: "Occasion", *, some_rest: bool = False) -> None:
        """Raises `InvalidInput` unless the checking party's weight is exactly its samples ÷ all samples.

        The other weights must be above 0 and at most 1; their parties check them exactly. With `some_rest` any weight
        may be 0 instead.
        """
        self.check_weights(each=1.0)
        weights = {client: weight for client, weight in self.weights.items() if weight > 0.0 or not some_rest}
        if min(weights.values(), default=1.0) <= 0.0:
            raise InvalidInput("plan.weights: must be above 0 for each party that may train")
        if weights.get(occasion.party, occasion.fraction) != occasion.fraction:
            raise InvalidInput("plan.weights: this party's weight must be the number of its samples ÷ all samples")


@dataclass(frozen=True, slots=True)
class RoundChoices:
    """The choices at the beginning of a round.

    Attributes
    ----------
    present, active
        The clients that take part, and those of them that may train, in roster order.
    closing
        Whether the round measures the model as it is and changes nothing.
    plan
        None if nobody may train, and if a survey comes first.
    """

    present: tuple[ClientId, ...]
    active: tuple[ClientId, ...]
    closing: bool
    plan: RecordedPlan | None = None


@dataclass(frozen=True, slots=True)
class Occasion:
    """The facts by which a party checks a plan: K parties, N samples, and its own samples and m·width coordinates."""

    round_id: RoundId
    clients: int
    samples: int
    party: ClientId
    own_samples: int
    length: int

    @property
    def fraction(self) -> float:
        """The party's samples ÷ all samples."""
        return self.own_samples / self.samples


def check_repeated(told: Numbers, plan: RecordedPlan) -> None:
    """Raises `InvalidInput` unless the numbers at the end of a round repeat all numbers of its plan."""
    if any(told.get(name) != value for name, value in plan.told.items()):
        raise InvalidInput("told: the numbers of the plan must be the same at the end of the round")


def check_number(numbers: Numbers, name: str, *, least: float, most: float) -> None:
    """Raises `InvalidInput` unless the number is there and between the two bounds."""
    if not least <= numbers.get(name, math.nan) <= most:
        raise InvalidInput(f"told: {name} must be there and lie between {least:g} and {most:g}")
