"""What the kinds of measurements share: an experiment with its problem, and its units of work."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, Protocol

from fenchel_deploy.papers.definitions import Experiment
from fenchel_deploy.papers.journal import ReadRow, Row
from fenchel_deploy.papers.problems import Problem, load_problem
from fenchel_deploy.papers.rowproblems import load_rows

Tell = Callable[[str], None]

OF_PARTS: Final = ("quadrants", "nonzeros")
"""The splits whose parties have parts of rows."""


@dataclass(frozen=True)
class Work:
    """An experiment to carry out, with the folder of data sets."""

    name: str
    experiment: Experiment
    data: Path | None
    tell: Tell

    @cached_property
    def problem(self) -> Problem:
        plan = self.experiment.problem
        return load_problem(plan, self.data) if plan.split in OF_PARTS else load_rows(plan, self.data)


@dataclass(frozen=True, slots=True)
class Unit:
    """A piece of an experiment that is measured at once, and its rows written at once.

    `trial` makes two of its rounds, and says how many seconds all of them would take if they were like the second.
    """

    key: str
    measure: Callable[[], Sequence[Row]]
    trial: Callable[[], float] | None = None


def tried(start: Callable[[], Callable[[], object]], rounds: int) -> float:
    """The seconds of so many rounds if all are like the second; `start` begins a run and returns what makes a round."""
    make_round = start()
    make_round()
    began = time.monotonic()
    make_round()
    return rounds * (time.monotonic() - began)


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the page: headings and cells as text."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Series:
    """A line, or the bars of one colour."""

    label: str
    x: Sequence[float]
    y: Sequence[float]


@dataclass(frozen=True, slots=True)
class Panel:
    """One set of axes of a figure."""

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    logarithmic: bool = False


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure: panels in rows of `across`, as lines or as stacked bars over the labels `at`."""

    key: str
    title: str
    panels: Sequence[Panel]
    across: int
    at: Sequence[str] = ()


class Kind(Protocol):
    """A kind of measurement."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of its rows."""
        ...

    def units(self, work: Work) -> list[Unit]:
        """The units of an experiment, in the order in which they are measured."""
        ...

    def tables(self, _work: Work, rows: Sequence[ReadRow]) -> list[Table]:
        """The tables of its page, printed beside measured."""
        ...

    def charts(self, work: Work, rows: Sequence[ReadRow]) -> list[Chart]:
        """The figures of its page, in the paper's layout."""
        ...
