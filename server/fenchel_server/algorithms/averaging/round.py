"""A round under way on the averaging rails."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from fenchel_common.algorithms.averaging.choices import RecordedPlan
from fenchel_common.algorithms.averaging.rails import Measurement
from fenchel_common.blocks import BlockVector, joined, summed
from fenchel_common.crypto.vectors import Vector, total
from fenchel_common.ids import ClientId
from fenchel_server.algorithms.averaging.answers import Expected
from fenchel_server.algorithms.averaging.plan import Numbers, Plan
from fenchel_server.algorithms.phased import RoundUnderWay


@dataclass(slots=True, kw_only=True)
class AveragingRound(RoundUnderWay):
    """A round on the averaging rails.

    Attributes
    ----------
    measuring
        Whether P(w) is measured: it is due, all clients are present, and none has failed so far.
    active
        The clients that train, or may train as long as there is no plan.
    plan, recorded
        The plan, and its form on record; None in a round without trainers, and before the end of a survey.
    pending
        The clients that have a task, and what is due of each.
    contributors
        The clients whose vectors are in the sums.
    figures
        The clients' encrypted figures.
    whole, numbers
        The measurement of all samples, and what each client told with it.
    """

    measuring: bool
    active: list[ClientId]
    plan: Plan = field(default_factory=Plan)
    recorded: RecordedPlan | None = None
    pending: dict[ClientId, Expected] = field(default_factory=dict)
    contributors: list[ClientId] = field(default_factory=list)
    figures: list[Vector] = field(default_factory=list)
    whole: Measurement | None = None
    numbers: dict[ClientId, Numbers] = field(default_factory=dict)

    @property
    def trainers(self) -> tuple[ClientId, ...]:
        """The clients that were to train, whether or not they have failed."""
        return () if self.recorded is None else self.recorded.trainers

    @property
    def all_figures(self) -> Vector:
        """The sum of all clients' figures, of which there must be some."""
        return total(self.figures)


def summed_vector(vectors: Iterable[BlockVector | None]) -> BlockVector:
    """The sums by block as one vector; at least one of `vectors` must not be None."""
    sums = summed(vectors)
    whole = joined(sorted(sums), sums)
    assert whole is not None, "at least one client gave a vector"
    return whole
