"""Where the models of the algorithms go, over rounds and over time: Figures 3 and 5 to 8 of the HyFDCA paper.

The baselines and HyFDCA are simulated without encryption, with their rounds and messages as they are, and ours runs by
its real halves. The seconds of a round are measured as for Tables 6 to 8, with real ciphertexts; time is rounds times
seconds, as if each party had a machine of its own.

The loss is relative to the centralized optimum, (P(w) − P*)/P*, of the model that the server has; the accuracy is that
on samples that never train.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fenchel_common.algorithms.averaging.fedavg import LocalSgdSettings
from fenchel_common.algorithms.dual import DualSettings
from fenchel_common.algorithms.hyfdca.settings import HyfdcaSettings
from fenchel_common.algorithms.settings import AlgorithmSettings
from fenchel_common.data.shard import Shard
from fenchel_deploy.inprocess.halves import hyfdca_halves
from fenchel_deploy.papers.algorithms import ALGORITHMS, CORRECTIVE, HYFDCA, TITLES, parsed_settings, settings_of
from fenchel_deploy.papers.costs import round_cost
from fenchel_deploy.papers.definitions import SettingPlan
from fenchel_deploy.papers.journal import Cell, ReadRow, Row
from fenchel_deploy.papers.problems import Problem
from fenchel_deploy.papers.simulation import Simulated, SimulatedAveraging, SimulatedHyfdca
from fenchel_deploy.papers.work import Chart, Panel, Series, Table, Unit, Work, tried
from fenchel_deploy.wan import PROFILES_S

Array = NDArray[np.float64]

CURVE: Final = "curve"
EQUAL_ROUNDS: Final = "equal rounds"
EQUAL_TIME: Final = "equal time"
LATENCY: Final = "us-singapore"
POINTS: Final = 60
AVERAGED: Final = 5
"""The summary of a run is the mean of so many of its last points, as in the paper's metrics."""


class Curves:
    """Curves of loss and accuracy.

    Every run has the experiment's number of rounds; with the option `time_s` it goes on while that many seconds at
    257.5 ms are not over, for at most `most_rounds` rounds. Ours ends at the option `ours_rounds`. The bounds of
    `Costs` hold for the measurement of a round, which has `cost_rounds` rounds.
    """

    columns = (
        "setting", "algorithm", "seed", "point", "round", "relative_loss", "zero_loss", "accuracy", "seconds_0",
        "seconds_257", "seconds_800", "round_s", "trips", "took_s",
    )  # fmt: skip

    def units(self, work: Work) -> list[Unit]:
        """What the paper compares, and then ours, whose rounds take longest here."""
        most = int(work.experiment.options.get("ours_most_parties", 0))
        return [
            self._unit(work, setting, algorithm, seed)
            for ours in (False, True)
            for setting in work.experiment.settings
            for algorithm in work.experiment.algorithms
            for seed in work.experiment.seeds
            if (algorithm in CORRECTIVE) == ours and (not ours or setting.party_count <= most)
        ]

    def _unit(self, work: Work, setting: SettingPlan, algorithm: str, seed: int) -> Unit:
        def measure() -> Sequence[Row]:
            began = time.monotonic()
            cost, _, _ = round_cost(work, setting, algorithm)
            work_s = cost.compute_s + cost.encryption_s + cost.server_s
            latencies = {"0": 0.0, "257": PROFILES_S[LATENCY], "800": PROFILES_S["geo"]}
            seconds = {name: work_s + cost.trips * latency_s for name, latency_s in latencies.items()}
            rounds, in_time = _lengths(work, algorithm, seconds["257"])
            points = list(_run(work.problem, setting, algorithm, seed, max(rounds, in_time)))
            took_s = time.monotonic() - began
            common: dict[str, Cell] = {
                "setting": setting.label, "algorithm": algorithm, "seed": seed, "trips": cost.trips,
                "round_s": work_s, "took_s": took_s,
                "zero_loss": work.problem.relative_loss(np.zeros(len(work.problem.training.features))),
            }  # fmt: skip
            found = [_row(common, CURVE, point, seconds) for point in points]
            found.append(_row(common, EQUAL_ROUNDS, _summary(points, rounds), seconds))
            if in_time:
                found.append(_row(common, EQUAL_TIME, _summary(points, in_time), seconds))
            return found

        def trial() -> float:
            options = work.experiment.options
            own = int(options.get("ours_rounds", 20)) if algorithm in CORRECTIVE else work.experiment.rounds
            most = own if algorithm in CORRECTIVE or "time_s" not in options else int(options.get("most_rounds", own))
            return tried(lambda: _started(work.problem, setting, algorithm, seed).round, max(own, most))

        return Unit(f"{setting.label} / {algorithm} / seed {seed}", measure, trial)

    def tables(self, _work: Work, rows: Sequence[ReadRow]) -> list[Table]:
        headings = ["setting", "algorithm", "seed", "at", "rounds", "relative loss", "accuracy", "s at 257.5 ms"]
        shown = ["seed", "point", "round", "relative_loss", "accuracy", "seconds_257"]
        cells = [
            [row["setting"], TITLES[row["algorithm"]], *(row[name] for name in shown)]
            for row in rows
            if row["point"] != CURVE
        ]
        return [Table("After equally many rounds, and after the same time", headings, cells)]

    def charts(self, work: Work, rows: Sequence[ReadRow]) -> list[Chart]:
        curves = [row for row in rows if row["point"] == CURVE and row["seed"] == str(work.experiment.seeds[0])]
        found = []
        if work.experiment.algorithms == (HYFDCA,):
            found.append(_together(work, curves))
        else:
            for key, title, column, label in (
                ("rounds", "Over rounds", "round", "round"),
                ("time", "Over time at 257.5 ms", "seconds_257", "seconds"),
            ):
                panels = [
                    _panel(setting.label, curves, value, column, label)
                    for value in ("relative_loss", "accuracy")
                    for setting in work.experiment.settings
                ]
                found.append(Chart(key, title, panels, len(work.experiment.settings)))
        return found


@dataclass(frozen=True, slots=True)
class Point:
    """A model after some rounds."""

    round_id: int
    relative_loss: float
    accuracy: float


def simulated(problem: Problem, shards: Sequence[Shard], settings: AlgorithmSettings) -> Simulated:
    """An algorithm that is simulated, or ours by its real halves."""
    if isinstance(settings, HyfdcaSettings):
        return SimulatedHyfdca(problem.training, shards, settings)
    if isinstance(settings, LocalSgdSettings):
        return SimulatedAveraging(problem.training, shards, settings)
    assert isinstance(settings, DualSettings)
    return _RealHalves(problem, shards, settings)


class _RealHalves:
    """Corrective HyFDCA by its halves, in clear, which give the same model as under a cipher."""

    def __init__(self, problem: Problem, shards: Sequence[Shard], settings: DualSettings) -> None:
        self._federation = hyfdca_halves(shards, settings, overlap=problem.overlap)
        self._features = problem.training.features

    def round(self) -> None:
        self._federation.round()

    def model(self) -> Array:
        return self._federation.weights(self._features)


def _started(problem: Problem, setting: SettingPlan, algorithm: str, seed: int) -> Simulated:
    values = settings_of(algorithm, setting, problem)
    return simulated(problem, problem.shards(setting, seed=seed), parsed_settings(algorithm, values, seed=seed))


def _run(problem: Problem, setting: SettingPlan, algorithm: str, seed: int, rounds: int) -> list[Point]:
    """The points of a run; a run whose loss is no longer finite ends there."""
    run = _started(problem, setting, algorithm, seed)
    wanted = set(np.unique(np.linspace(1, rounds, POINTS).round().astype(int)).tolist())
    points = []
    for round_id in range(1, rounds + 1):
        run.round()
        if round_id in wanted:
            w = run.model()
            points.append(Point(round_id, problem.relative_loss(w), problem.accuracy(w)))
            if not np.isfinite(points[-1].relative_loss):
                break
    return points


def _lengths(work: Work, algorithm: str, seconds: float) -> tuple[int, int]:
    """The rounds of a run, and how many rounds the time allows; 0 without a time."""
    options = work.experiment.options
    if algorithm in CORRECTIVE:
        rounds = int(options.get("ours_rounds", 20))
        return rounds, rounds if "time_s" in options else 0
    if "time_s" not in options:
        return work.experiment.rounds, 0
    allowed = int(float(options["time_s"]) / seconds)
    return work.experiment.rounds, max(1, min(allowed, int(options.get("most_rounds", work.experiment.rounds))))


def _summary(points: Sequence[Point], rounds: int) -> Point:
    last = [point for point in points if point.round_id <= rounds][-AVERAGED:] or list(points[:1])
    losses, accuracies = ([getattr(one, name) for one in last] for name in ("relative_loss", "accuracy"))
    return Point(last[-1].round_id, float(np.mean(losses)), float(np.mean(accuracies)))


def _row(common: Mapping[str, Cell], kind: str, point: Point, seconds: Mapping[str, float]) -> dict[str, Cell]:
    return {
        **common,
        "point": kind,
        "round": point.round_id,
        "relative_loss": point.relative_loss,
        "accuracy": point.accuracy,
        **{f"seconds_{name}": point.round_id * each for name, each in seconds.items()},
    }


def _panel(setting: str, curves: Sequence[ReadRow], value: str, column: str, label: str) -> Panel:
    series = [
        _series(TITLES[algorithm], own, value, column)
        for algorithm in ALGORITHMS
        if (own := [row for row in curves if (row["setting"], row["algorithm"]) == (setting, algorithm)])
    ]
    return Panel(setting, label, value.replace("_", " "), series, logarithmic=value == "relative_loss")


def _together(work: Work, curves: Sequence[ReadRow]) -> Chart:
    """Figures 6 to 8: one algorithm, all settings in one panel."""

    def panel(value: str) -> Panel:
        series = [
            _series(setting.label, [row for row in curves if row["setting"] == setting.label], value, "round")
            for setting in work.experiment.settings
        ]
        return Panel(work.problem.training.name, "round", value.replace("_", " "), series, value == "relative_loss")

    return Chart("settings", "HyFDCA in all settings", [panel("relative_loss"), panel("accuracy")], 2)


def _series(label: str, rows: Sequence[ReadRow], value: str, column: str) -> Series:
    return Series(label, [float(row[column]) for row in rows], [float(row[value]) for row in rows])
