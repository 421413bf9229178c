"""A round under way on the averaging rails."""

from dataclasses import dataclass, field

from fenchel_common.algorithms.averaging.choices import RecordedPlan
from fenchel_common.algorithms.averaging.rails import Measurement
from fenchel_common.algorithms.averaging.settings import AveragingSettings
from fenchel_common.crypto.vectors import Vector
from fenchel_common.ids import ClientId
from fenchel_server.algorithms.averaging.answers import Expected
from fenchel_server.algorithms.averaging.plan import Numbers, Plan
from fenchel_server.algorithms.certificate import fit_figures
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
        The sum of the clients' encrypted figures so far; None if there are none.
    whole, numbers
        The measurement of all samples, and what each client told with it.
    """

    measuring: bool
    active: list[ClientId]
    plan: Plan = field(default_factory=Plan)
    recorded: RecordedPlan | None = None
    pending: dict[ClientId, Expected] = field(default_factory=dict)
    contributors: list[ClientId] = field(default_factory=list)
    figures: Vector | None = None
    whole: Measurement | None = None
    numbers: dict[ClientId, Numbers] = field(default_factory=dict)

    @property
    def trainers(self) -> tuple[ClientId, ...]:
        """The clients that were to train, whether or not they have failed."""
        return () if self.recorded is None else self.recorded.trainers

    def fit(self, settings: AveragingSettings) -> tuple[float | None, dict[str, float]]:
        """The accuracy, and the figures that take its place in regression; none of both without a measurement."""
        if self.whole is None:
            return None, {}
        found = settings.fit_of(self.whole)
        return found.accuracy, fit_figures(found)

    def add_figures(self, figures: Vector | None) -> None:
        """Adds the figures that came in a phase, if there are any."""
        if figures is not None:
            self.figures = figures if self.figures is None else self.figures.plus(figures)
