"""Time to a certified model within 1 % of the optimum, beside the time that the HyFDCA paper's figures give.

Ours is run by real processes with TLS, masks and set-up, over a relay that delays every message, until the duality gap
is below 1 % of the optimum: once with all parties in every round, which stands beside all fractions of the paper, and
in each setting with its fraction of the parties. The paper's algorithm is simulated until its loss is within 1 %, which
nobody certifies, and each of its rounds is counted with the printed seconds of computation and encryption and 4.5 round
trips; no set-up is counted. If it does not get there in the experiment's number of rounds, all of these rounds count:
its real time is longer.
"""

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from fenchel_common.algorithms.hyfdca.settings import HyfdcaSettings
from fenchel_deploy.papers.algorithms import (
    CORRECTIVE,
    HYFDCA,
    OURS,
    OURS_SOME,
    PRACTICAL,
    TITLES,
    parsed_settings,
    settings_of,
)
from fenchel_deploy.papers.costs import PRINTED_TRIPS
from fenchel_deploy.papers.definitions import SettingPlan
from fenchel_deploy.papers.journal import ReadRow, Row
from fenchel_deploy.papers.processes import measured_by_processes
from fenchel_deploy.papers.simulation import SimulatedHyfdca
from fenchel_deploy.papers.work import Chart, Table, Unit, Work
from fenchel_deploy.wan import PROFILES_S

GOAL: Final = 1e-2
LOOK_EVERY: Final = 10
MOST_OF_OURS: Final = 400


class Certified:
    """Times to the goal. Options: `profile`, the network; `some_from`, the least fraction of parties of ours."""

    columns = (
        "setting", "algorithm", "certified", "rounds", "reached", "relative_loss", "setup_s", "rounds_s", "total_s",
        "printed_iteration_s", "took_s",
    )  # fmt: skip

    def units(self, work: Work) -> list[Unit]:
        """Ours with all parties once for each number of parties, the others in each setting."""
        settings, algorithms = work.experiment.settings, work.experiment.algorithms
        whole = {str(one.parties): one.model_copy(update={"fraction": 1.0}) for one in settings}
        least = float(work.experiment.options.get("some_from", 0.0))
        # Runs with some of the parties take longest.
        given = [
            *((setting, OURS) for setting in whole.values() if OURS in algorithms),
            *((setting, algorithm) for setting in settings for algorithm in algorithms if algorithm in PRACTICAL),
            *((setting, OURS_SOME) for setting in settings if OURS_SOME in algorithms and setting.fraction >= least),
        ]
        return [
            Unit(
                f"{setting.label} / {algorithm}",
                partial(_measured if algorithm in CORRECTIVE else _estimated, work, setting, algorithm),
            )
            for setting, algorithm in given
        ]

    def tables(self, _work: Work, rows: Sequence[ReadRow]) -> list[Table]:
        headings = ["setting", "algorithm", "rounds", "reached", "set-up s", "rounds s", "total s", "times ours"]
        shown = ["rounds", "reached", "setup_s", "rounds_s", "total_s"]
        ours = {_parties(row): float(row["total_s"]) for row in rows if row["algorithm"] == OURS}
        cells = [
            [row["setting"], TITLES[row["algorithm"]], *(row[name] for name in shown), _ratio(row, ours)]
            for row in rows
        ]
        return [Table("Time to 1 % of the optimum", headings, cells)]

    def charts(self, _work: Work, _rows: Sequence[ReadRow]) -> list[Chart]:
        return []


def _parties(row: ReadRow) -> str:
    """A setting's label without its fraction."""
    return row["setting"].rpartition(", ")[0]


def _ratio(row: ReadRow, ours: Mapping[str, float]) -> str:
    own = ours.get(_parties(row))
    return "" if own is None else f"{float(row['total_s']) / own:.3g}"


def _measured(work: Work, setting: SettingPlan, algorithm: str) -> Sequence[Row]:
    began = time.monotonic()
    problem = work.problem
    goal = GOAL * problem.optimum.primal
    cost = measured_by_processes(
        problem.shards(setting, seed=0),
        algorithm,
        settings_of(algorithm, setting, problem),
        overlap=problem.overlap,
        profile=_profile(work),
        rounds=MOST_OF_OURS,
        gap=goal,
    )
    row: Row = {
        "setting": setting.label, "algorithm": algorithm, "certified": cost.gap is not None, "rounds": cost.rounds,
        "reached": cost.gap is not None and cost.gap <= goal,
        "relative_loss": None if cost.gap is None else GOAL * cost.gap / goal, "setup_s": cost.setup_s,
        "rounds_s": cost.rounds_s, "total_s": cost.total_s, "took_s": time.monotonic() - began,
    }  # fmt: skip
    return [row]


def _estimated(work: Work, setting: SettingPlan, algorithm: str) -> Sequence[Row]:
    began = time.monotonic()
    problem = work.problem
    settings = parsed_settings(algorithm, settings_of(algorithm, setting, problem), seed=0)
    assert isinstance(settings, HyfdcaSettings)
    run = SimulatedHyfdca(problem.training, problem.shards(setting, seed=0), settings)
    rounds, error = 0, float("inf")
    while rounds < work.experiment.rounds and error > GOAL:
        run.round()
        rounds += 1
        if rounds % LOOK_EVERY == 0 or rounds <= LOOK_EVERY:
            error = problem.relative_loss(run.model())
    iteration_s = setting.printed["hyfdca_compute_s"] + setting.printed["hyfdca_encryption_s"]
    iteration_s += PRINTED_TRIPS[HYFDCA] * PROFILES_S[_profile(work)]
    row: Row = {
        "setting": setting.label, "algorithm": algorithm, "certified": False, "rounds": rounds,
        "reached": error <= GOAL, "relative_loss": error, "rounds_s": rounds * iteration_s,
        "total_s": rounds * iteration_s, "printed_iteration_s": iteration_s, "took_s": time.monotonic() - began,
    }  # fmt: skip
    return [row]


def _profile(work: Work) -> str:
    return str(work.experiment.options.get("profile", "us-singapore"))
