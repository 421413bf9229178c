"""Choosing among trials with competing metrics, as section 7.3 of the HyFDCA paper's supplement does.

Values are drawn at random with even density over their logarithms. Trials that another trial beats in every metric, or
equals in all but some that it beats, are left out: what remains is the Pareto front. Among the front, grey relational
analysis chooses (Wang and Rangaiah, Ind. Eng. Chem. Res. 56, 2017):

    F_ij = (f_ij − worst_j)/(best_j − worst_j), so that the best value of each metric is 1
    Δ_ij = 1 − F_ij
    grade_i = mean over j of (min Δ + max Δ)/(Δ_ij + max Δ)

and the trial with the largest grade is chosen. A metric in which all trials of the front agree does not count.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

AVERAGED: Final = 5
PROGRESS: Final = 0.9


@dataclass(frozen=True, slots=True)
class Range:
    """The bounds of a hyper-parameter; whole numbers are rounded up."""

    low: float
    high: float
    whole: bool = False

    def drawn(self, rng: np.random.Generator) -> int | float:
        """A value with even density over its logarithm."""
        value = float(10.0 ** rng.uniform(np.log10(self.low), np.log10(self.high)))
        return int(np.ceil(value)) if self.whole else value


@dataclass(frozen=True, slots=True)
class Metrics:
    """The seven metrics of a trial; `accuracy` is to be large, all others small."""

    runtime_0: float
    runtime_257: float
    runtime_800: float
    last_losses: float
    accuracy: float
    volatility: float
    rounds_to_90: float

    @classmethod
    def of(cls, losses: Sequence[float], accuracies: Sequence[float], *, work_s: float, trips: float) -> "Metrics":
        """The metrics of a trial from its losses and accuracies, round by round from the start, and a round's cost."""
        values = np.asarray(losses, dtype=np.float64)
        goal = values[0] - PROGRESS * (values[0] - values.min())
        steps = np.diff(values)
        return cls(
            work_s,
            work_s + trips * 0.2575,
            work_s + trips * 0.8,
            float(values[-AVERAGED:].mean()),
            float(max(accuracies)),
            float(steps.std()) if len(steps) else 0.0,
            float(np.argmax(values <= goal)),
        )

    @property
    def costs(self) -> Array:
        """The metrics with signs so that small is good."""
        return np.array(
            [
                self.runtime_0, self.runtime_257, self.runtime_800, self.last_losses, -self.accuracy, self.volatility,
                self.rounds_to_90,
            ]
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Trial:
    """Drawn values and what came of them; `metrics` is None for a trial that diverged."""

    values: Mapping[str, int | float]
    metrics: Metrics | None


@dataclass(frozen=True, slots=True)
class Judged:
    """A trial with its grade among the Pareto front; None outside the front."""

    trial: Trial
    grade: float | None
    chosen: bool = False


def diverged(losses: Sequence[float]) -> bool:
    """Whether a trial ends worse than it began, or with a loss that is no number."""
    return not np.isfinite(losses).all() or float(np.mean(losses[-AVERAGED:])) > losses[0]


def judged(trials: Sequence[Trial]) -> list[Judged]:
    """The trials in their order, with grades on the Pareto front; the first with the largest grade is chosen."""
    kept = [number for number, trial in enumerate(trials) if trial.metrics is not None]
    costs = np.array([metrics.costs for trial in trials if (metrics := trial.metrics) is not None])
    front = [kept[position] for position in pareto_front(costs)] if kept else []
    grades = dict(zip(front, grey_grades(costs[pareto_front(costs)]).tolist(), strict=True)) if front else {}
    best = max(grades, key=lambda number: grades[number]) if grades else None
    return [Judged(trial, grades.get(number), number == best) for number, trial in enumerate(trials)]


def pareto_front(costs: Array) -> list[int]:
    """The rows of `costs` (trials, metrics) that no other row dominates: at most as large in all, smaller in one."""
    return [
        number
        for number, own in enumerate(costs)
        if not any((other <= own).all() and (other < own).any() for other in costs)
    ]


def grey_grades(costs: Array) -> Array:
    """The grey relational grade of each row of `costs` (trials, metrics), small is good; 1 is the ideal."""
    best, worst = costs.min(axis=0), costs.max(axis=0)
    counted = worst > best
    if not counted.any():
        return np.ones(len(costs))
    distance = (costs[:, counted] - best[counted]) / (worst[counted] - best[counted])
    return np.asarray(((distance.min() + distance.max()) / (distance + distance.max())).mean(axis=1))
