"""A client's work in a round of an averaging algorithm: what it is given, what it returns, what the round changes."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.codec import Among, together
from fenchel_common.algorithms.averaging.rails import Positions
from fenchel_common.ids import ClientId, RoundId

Array = NDArray[np.float64]
State = Mapping[str, Array]

PRODUCTS_FIELD: Final = "products"
FIGURES_FIELD: Final = "figures"


def vector_field(name: str) -> str:
    """The field of a result that has the returned vector of this name."""
    return f"vectors.{name}"


def checkpoint_field(name: str) -> str:
    """The field of a result that restates the state's vector of this name."""
    return f"checkpoint.{name}"


@dataclass(frozen=True, slots=True)
class Job:
    """A client's work in a round.

    Attributes
    ----------
    told
        The server's public numbers.
    weight
        The weight of the vectors in the sums; `AveragingClient` multiplies the vectors by it.
    coordinates
        The coordinates to which the summed vectors are cut down; None for all.
    kept
        The client's own vectors as it last returned them; zero before that.
    rng
        A generator that gives the same numbers in every repetition of the round.
    """

    round_id: RoundId
    told: Mapping[str, float]
    weight: float
    coordinates: Positions | None
    kept: State
    rng: np.random.Generator


@dataclass(frozen=True, slots=True)
class Contribution:
    """The result of a client's work in a round: vectors of `Vectors.returned`, numbers of `Vectors.reported`."""

    vectors: State
    reported: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Update:
    """The sums of a round's weighted vectors, zero at coordinates that no client gave.

    `told` are the server's public numbers, `weights` is the total weight of the clients that gave each coordinate.
    """

    round_id: RoundId
    told: Mapping[str, float]
    sums: State
    weights: Array

    def mean(self, name: str, otherwise: Array) -> Array:
        """The weighted mean at coordinates that some client gave, `otherwise` elsewhere."""
        given = self.weights > 0.0
        return np.divide(self.sums[name], self.weights, out=otherwise.copy(), where=given)


def trained_among(trainers: Collection[ClientId]) -> Among:
    """Of the holders of a block, those that train; of all parties if there are no holders."""
    return together(lambda holders: [client for client in holders or trainers if client in trainers])
