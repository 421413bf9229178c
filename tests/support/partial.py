"""Runs of corrective HyFDCA with some of the parties in one process, and checks that several tests use."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.partial.client import PartialClient
from fenchel_client.algorithms.partial.state import PartyState
from fenchel_common.algorithms import SETTINGS
from fenchel_common.algorithms.partial.settings import PartialSettings
from fenchel_common.data.partition import partition
from fenchel_common.ids import ClientId
from fenchel_deploy.inprocess.layouts import IN_CLEAR
from fenchel_server.contract import RoundReport
from support.keys import MASKS, cipher, run_key
from support.problems import Problem
from support.simulation import Simulation

Array = NDArray[np.float64]

FIXED_POINT = 2e-9


def settings(case: Problem, participation: str, **values: object) -> PartialSettings:
    chosen = {"loss": case.loss.name, **case.label_settings, "lambda": case.lambda_, "privacy": "paper"}
    parsed = SETTINGS["hyfdca"].parse({**chosen, "participation": participation, "stop": {"gap": None}, **values})
    assert isinstance(parsed, PartialSettings)
    return parsed


def simulation(case: Problem, grid: tuple[int, int], participation: str, **values: object) -> Simulation:
    return Simulation.of(partition(case.data, grid=grid), settings(case, participation, **values))


def at_level(
    case: Problem, grid: tuple[int, int], participation: str, level: str, *, labels: str = "all", **values: Any
) -> Simulation:
    """A run with a real key of 2048 bits, with masks, or in clear."""
    shards = partition(case.data, grid=grid, labels="first" if labels == "first" else "all")
    chosen = settings(case, participation, privacy="sealed" if level == "masks" else level, **values)
    if level in ("plain", "masks"):
        return Simulation.of(shards, chosen, key=MASKS if level == "masks" else IN_CLEAR)
    return Simulation.of(shards, chosen, cipher=cipher(), key=run_key())


def states_of(run: Simulation) -> Mapping[ClientId, PartyState]:
    """The newest state of each party that has one."""
    halves = {name: half for name, half in run.clients.items() if isinstance(half, PartialClient)}
    return {name: list(half._states.values())[-1] for name, half in halves.items() if half._states}


class Rises:
    """Watches a run: what the parties know in common must be the same bits, and D must never fall.

    D is that of the combined dual variables as the parties bound it, which is D itself with the hinge loss. Every
    certificate must bound the error of its model, and P of the certified model must not rise.
    """

    def __init__(self, run: Simulation, case: Problem) -> None:
        self._run, self._case = run, case
        self._dual, self._certified = -np.inf, np.inf
        self.certificates = 0

    def check(self) -> RoundReport:
        """After a round."""
        run, case, report = self._run, self._case, self._run.reports[-1]
        newest = max((state.round_id for state in states_of(run).values()), default=0)
        there = {name: state for name, state in states_of(run).items() if state.round_id == newest}
        common = {(state.memory.names, state.memory.gram.tobytes()) for state in there.values()}
        assert len(common) <= 1
        for state in list(there.values())[:1]:
            anchor = state.memory.anchor
            dual = anchor.conjugate_part - case.lambda_ / 2.0 * float(state.memory.gram[0, 0])
            assert dual >= self._dual - FIXED_POINT
            assert dual <= case.optimum + FIXED_POINT
            self._dual = dual
        metrics = report.metrics
        if metrics.gap is not None:
            assert metrics.primal is not None
            assert metrics.dual is not None
            assert metrics.gap_error is not None
            self.certificates += 1
            assert metrics.primal <= self._certified + FIXED_POINT
            self._certified = metrics.primal
            assert metrics.dual <= case.optimum + metrics.gap_error
            assert error_of(run, case) <= metrics.gap
        return report


def error_of(run: Simulation, case: Problem) -> float:
    """How far the model that the run would release now is from the optimum."""
    return case.primal(run.weights(case.data.features)) - case.optimum
