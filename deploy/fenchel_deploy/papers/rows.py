"""Algorithms over parties of whole rows: the figures and tables of the DualFL, SCAFF-PD and FedSGM papers.

Every run is one of real halves in one process, in clear, which give the same model as under a cipher. The option `runs`
names the runs, each with an algorithm and its settings; the option `cases` has settings for all runs that know them,
and α or σ for the data. What is measured depends on the split of the problem:

    even         the relative error (E(θ) − E*)/E* of the model, and the factor by which it falls in a round
    stratified   f and g of the iterate, and the rounds with g above ε (`violations`)
    dirichlet    the mean accuracy over the parties on their rows that never train, and of the worst and best fifth
    made         the squared distance from the saddle point
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms import ALGORITHMS as CLIENT_HALVES
from fenchel_common.algorithms import SETTINGS
from fenchel_common.algorithms.settings import AlgorithmSettings
from fenchel_common.objectives import correct_predictions
from fenchel_deploy.papers.algorithms import MOST_ROUNDS
from fenchel_deploy.papers.definitions import SettingPlan
from fenchel_deploy.papers.journal import Cell, ReadRow, Row
from fenchel_deploy.papers.metering import MeteredHalves
from fenchel_deploy.papers.rowproblems import Dealt, RowProblem, dealt
from fenchel_deploy.papers.work import Chart, Panel, Series, Table, Unit, Work, tried
from fenchel_server.algorithms import ALGORITHMS as SERVER_HALVES
from fenchel_server.algorithms.averaging.descent import accuracy_spread

Array = NDArray[np.float64]
Values = Mapping[str, Any]

CURVE, EARLY, END = "curve", "early", "end"
EARLY_ROUND: Final = 5
ROUNDING: Final = 1e-9
"""A relative error below this is one of fixed point or of E*."""
OF_THE_DATA: Final = frozenset({"alpha", "sigma"})
MEASURES: Final = {
    "even": ("relative_error",),
    "stratified": ("objective", "constraint"),
    "dirichlet": ("average", "worst_20"),
    "made": ("distance",),
}


class RowRuns:
    """Runs over parties of whole rows."""

    columns = (
        "setting", "case", "algorithm", "seed", "point", "round", "relative_error", "distance", "objective",
        "constraint", "violations", "swing", "average", "worst_20", "best_20", "decay", "sent_bytes", "printed_average",
        "printed_worst_20", "took_s",
    )  # fmt: skip

    def units(self, work: Work) -> list[Unit]:
        options = work.experiment.options
        return [
            self._unit(work, setting, case, algorithm, seed)
            for setting in work.experiment.settings
            for case in options.get("cases", {"": {}})
            for algorithm in options["runs"]
            for seed in work.experiment.seeds
        ]

    def _unit(self, work: Work, setting: SettingPlan, case: str, algorithm: str, seed: int) -> Unit:
        def measure() -> Sequence[Row]:
            began = time.monotonic()
            options, problem = work.experiment.options, work.problem
            assert isinstance(problem, RowProblem), "the splits of this kind are of whole rows"
            chosen = options.get("cases", {}).get(case, {})
            given = dealt(problem, setting.party_count, chosen, seed=seed)
            settings = _settings(problem, options["runs"][algorithm], chosen, seed=seed)
            halves = _halves(given, settings, options["runs"][algorithm]["algorithm"])
            course = _run(problem, given, halves, work)
            common: dict[str, Cell] = {"setting": setting.label, "case": case, "algorithm": algorithm, "seed": seed}
            printed = options.get("printed", {}).get(case, {}).get(algorithm)
            if printed is not None:
                common |= {"printed_average": printed[0], "printed_worst_20": printed[1]}
            took_s = time.monotonic() - began
            early = [point for point in course.points if point["round"] == EARLY_ROUND]
            rows = [*((CURVE, point) for point in course.points), *((EARLY, point) for point in early)]
            found = [{**common, "point": kind, **point, "took_s": took_s} for kind, point in rows]
            return [*found, {**common, "point": END, **course.points[-1], **course.summary(), "took_s": took_s}]

        def trial() -> float:
            problem, run = work.problem, work.experiment.options["runs"][algorithm]
            assert isinstance(problem, RowProblem), "the splits of this kind are of whole rows"
            chosen = work.experiment.options.get("cases", {}).get(case, {})

            def start() -> Callable[[], object]:
                given = dealt(problem, setting.party_count, chosen, seed=seed)
                return _halves(given, _settings(problem, run, chosen, seed=seed), run["algorithm"]).metered_round

            return tried(start, work.experiment.rounds)

        parts = (setting.label, case, algorithm, f"seed {seed}")
        return Unit(" / ".join(part for part in parts if part), measure, trial)

    def tables(self, _work: Work, rows: Sequence[ReadRow]) -> list[Table]:
        ends = [row for row in rows if row["point"] == END]
        shown = [name for name in self.columns[6:-1] if any(row[name] for row in ends)]
        words = [name.replace("_", " ") for name in shown]
        headings = ["parties, fraction", "case", "algorithm", "seed", "rounds", *words]
        names = ["setting", "case", "algorithm", "seed", "round", *shown]
        return [Table("At the end of each run", headings, [[row[name] for name in names] for row in ends])]

    def charts(self, work: Work, rows: Sequence[ReadRow]) -> list[Chart]:
        seed = str(work.experiment.seeds[0])
        curves = [row for row in rows if row["point"] == CURVE and row["seed"] == seed]
        places = list(dict.fromkeys((row["setting"], row["case"]) for row in curves))
        panels = [
            _panel(place, [row for row in curves if (row["setting"], row["case"]) == place], value)
            for place in places
            for value in MEASURES[work.experiment.problem.split]
        ]
        return [Chart("curves", work.experiment.title, panels, min(3, len(panels)))] if panels else []


@dataclass
class Course:
    """The points of a run."""

    points: list[dict[str, Cell]] = field(default_factory=list)

    def summary(self) -> dict[str, Cell]:
        """How fast the error falls after the first rounds, and how much the constraint swings in the second half."""
        found: dict[str, Cell] = {}
        measured = [one for one in self.points if "relative_error" in one]
        errors = [(_value(one, "round"), _value(one, "relative_error")) for one in measured]
        usable = [(at, error) for at, error in errors if at >= EARLY_ROUND and error > ROUNDING]
        if len(usable) > 1:
            (first, before), (last, after) = usable[0], usable[-1]
            found["decay"] = float((after / before) ** (1.0 / (last - first)))
        constraints = [_value(one, "constraint") for one in self.points if "constraint" in one]
        if constraints:
            found["swing"] = float(np.abs(np.diff(constraints[len(constraints) // 2 :])).mean())
        return found


def _settings(problem: RowProblem, run: Values, case: Values, *, seed: int) -> AlgorithmSettings:
    entry = SETTINGS[run["algorithm"]]
    known = entry.parameters()
    values = {"loss": problem.plan.loss, "lambda": problem.plan.lambda_, "classes": problem.plan.classes}
    values |= {name: value for name, value in case.items() if name not in OF_THE_DATA}
    own = {name: value for name, value in run.items() if name != "algorithm"}
    chosen = {name: value for name, value in values.items() if name in known} | own
    stop = {"gap": None, "rounds": MOST_ROUNDS}
    every = 1 if problem.plan.split == "stratified" else 0
    return entry.parse({**chosen, "measure_every": every, "privacy": "plain", "seed": seed, "stop": stop})


def _halves(given: Dealt, settings: AlgorithmSettings, name: str) -> MeteredHalves:
    family = settings.family.name
    return MeteredHalves(
        given.shards, settings, client_half=CLIENT_HALVES[family][name], server_half=SERVER_HALVES[family][name]
    )


def _run(problem: RowProblem, given: Dealt, halves: MeteredHalves, work: Work) -> Course:
    rounds, points = work.experiment.rounds, int(work.experiment.options.get("points", 50))
    wanted = {EARLY_ROUND, *np.unique(np.linspace(1, rounds, points).round().astype(int)).tolist()}
    course = Course()
    for number in range(1, rounds + 1):
        cost = halves.metered_round()
        if number in wanted:
            theta = halves.weights(problem.training.features)
            found = _measured(problem, given, theta, halves.reports[-1].metrics.figures)
            course.points.append({"round": number, **found, "sent_bytes": cost.sent_bytes})
    return course


def _measured(problem: RowProblem, given: Dealt, theta: Array, figures: Mapping[str, Any]) -> dict[str, Cell]:
    split = problem.plan.split
    if split == "stratified":
        return {name: float(figures[name]) for name in ("objective", "constraint", "violations")}
    if given.solution is not None:
        return {"distance": float(((theta - given.solution) ** 2).sum())}
    if split == "even":
        return {"relative_error": problem.energy(theta) / problem.least - 1.0}
    X, y = problem.training.X, problem.training.y
    correct = [correct_predictions(X[rows] @ theta, y[rows]) / len(rows) for rows in given.held_out if len(rows)]
    return {name.removesuffix("_accuracy"): 100.0 * value for name, value in accuracy_spread(correct).items()}


def _panel(place: tuple[str, str], curves: Sequence[ReadRow], value: str) -> Panel:
    series = [
        Series(name, [float(row["round"]) for row in own], [float(row[value]) for row in own])
        for name in dict.fromkeys(row["algorithm"] for row in curves)
        if (own := [row for row in curves if row["algorithm"] == name and row[value]])
    ]
    title = " / ".join(part for part in place if part)
    return Panel(title, "round", value.replace("_", " "), series, logarithmic=value in ("relative_error", "distance"))


def _value(point: Mapping[str, Cell], name: str) -> float:
    value = point[name]
    assert isinstance(value, int | float)
    return float(value)
