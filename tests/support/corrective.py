"""Corrective HyFDCA federations in one process, at any privacy level, and checks that several tests use."""

from dataclasses import replace
from typing import Any, Final

import numpy as np
from google.protobuf.message import Message
from numpy.typing import NDArray

from fenchel.v1 import corrective_pb2 as pb
from fenchel_client.algorithms.corrective.client import CorrectiveClient
from fenchel_client.algorithms.corrective.points import Memory
from fenchel_common.algorithms.corrective.settings import CorrectiveSettings
from fenchel_common.data.partition import partition
from fenchel_common.data.shard import Shard
from fenchel_common.ids import ClientId
from fenchel_common.wire.corrective_snapshot import CorrectiveState
from fenchel_deploy.experiments.centralized import solve_centralized
from fenchel_deploy.inprocess.layouts import IN_CLEAR
from fenchel_server.algorithms.corrective.server import CorrectiveServer
from fenchel_server.contract import RoundReport
from support.keys import MASKS, cipher, run_key
from support.problems import Problem, problem
from support.simulation import Simulation

Array = NDArray[np.float64]

CASE: Final[dict[str, Any]] = {"rows": 60, "columns": 8, "lambda_": 0.01}
LOSSES: Final = ("hinge", "smoothed_hinge", "logistic")
LEVELS: Final = ("sealed", "paper", "plain")
PHASES: Final = ("inner_product", "local_dual", "primal")
FIRST, SECOND, LAST = ClientId("party-00"), ClientId("party-01"), ClientId("party-03")
FIXED_POINT: Final = 2e-9
"""What fixed point can take from D: a few units of 2^-32 for each of a handful of clients."""

RESULTS: Final[dict[str, type[Message]]] = {
    "inner_product": pb.CorrectiveProductResult,
    "local_dual": pb.CorrectiveDualResult,
    "primal": pb.CorrectivePrimalResult,
}


def settings(case: Problem, **values: object) -> CorrectiveSettings:
    chosen = {
        "loss": case.loss.name,
        **case.label_settings,
        "lambda": case.lambda_,
        "local": "corrective",
        "privacy": "paper",
        "stop": {"gap": None},
    }
    return CorrectiveSettings.parse({**chosen, **values})


def simulation(case: Problem, grid: tuple[int, int] = (2, 2), **values: object) -> Simulation:
    return Simulation.of(partition(case.data, grid=grid), settings(case, **values))


def at_level(
    case: Problem, grid: tuple[int, int], level: str, *, labels: str = "all", masked: bool = False, **values: object
) -> Simulation:
    """A run with a real key of 2048 bits or with masks, or in clear at the level plain."""
    shards = partition(case.data, grid=grid, labels="first" if labels == "first" else "all")
    chosen = settings(case, privacy=level, **values)
    if level == "plain" or masked:
        return Simulation.of(shards, chosen, key=MASKS if masked else IN_CLEAR)
    return Simulation.of(shards, chosen, cipher=cipher(), key=run_key())


def chained() -> tuple[Problem, list[Shard]]:
    """Three parties in a chain: the first two have samples in common, the last two others, and each has its own."""
    case = problem(**{**CASE, "rows": 120})
    parts = [(slice(70), slice(3)), (slice(40, 100), slice(3, 6)), (slice(80, 120), slice(6, 8))]
    full, X = np.asarray(case.data.X), np.zeros(case.data.X.shape)
    for rows, columns in parts:
        X[rows, columns] = full[rows, columns]
    data = replace(case.data, X=X)
    optimum = solve_centralized(X, data.y, loss=case.loss, lambda_=case.lambda_).primal
    shards = [
        Shard(tuple(case.ids[rows]), data.features[columns], X[rows, columns], data.y[rows]) for rows, columns in parts
    ]
    return replace(case, data=data, optimum=optimum), shards


def state_of(run: Simulation) -> CorrectiveState:
    assert isinstance(run.server, CorrectiveServer)
    (state,) = run.server._states
    return state


def halves_of(run: Simulation) -> dict[ClientId, CorrectiveClient]:
    return {name: half for name, half in run.clients.items() if isinstance(half, CorrectiveClient)}


def newest_memory(half: CorrectiveClient) -> Memory:
    """The memory that a client stored last."""
    return list(half._memories.values())[-1]


def error_of(run: Simulation, case: Problem) -> float:
    """How far the model that the run would release now is from the optimum."""
    return case.primal(run.weights(case.data.features)) - case.optimum


def combinations_of(run: Simulation, round_id: int) -> set[bytes]:
    """The hashes that clients told in a round."""
    return {
        pb.CorrectiveDualResult.FromString(result).combination
        for at, phase, _, _, result in run.messages
        if (at, phase) == (round_id, "local_dual")
    }


class Ascent:
    """Watches a run.

    D at the dual variables on record must not fall, and P of the best model must not rise, whoever is absent.
    Every certificate must bound the error, and none may be of a model that is worse than the one certified before. A
    round must claim to have updated samples if and only if it has moved dual variables.
    """

    def __init__(self, run: Simulation, case: Problem) -> None:
        self._run, self._case = run, case
        self._alpha = run.alpha(case.ids)
        self._dual = case.dual(self._alpha)
        self._checked = len(run.reports)
        self._certified = np.inf
        self._primal = self._recorded()
        self.certificates = 0

    def _recorded(self) -> float | None:
        """P of the best model; None while the run would end with another one."""
        if state_of(self._run).latest.pieces:
            return None
        return self._case.primal(self._run.weights(self._case.data.features))

    def check(self) -> RoundReport:
        """After a round."""
        report, case = self._run.reports[-1], self._case
        alpha = self._run.alpha(case.ids)
        reports = self._run.reports[self._checked :]
        assert any(one.metrics.samples_updated for one in reports) == (alpha != self._alpha).any()
        self._alpha, self._checked = alpha, len(self._run.reports)
        now = case.dual(alpha)
        assert now >= self._dual - FIXED_POINT
        self._dual = max(now, self._dual)
        if (primal := self._recorded()) is not None:
            assert self._primal is None or primal <= self._primal + FIXED_POINT
            self._primal = primal
        assert (case.data.y * alpha).min() >= 0.0
        assert (case.data.y * alpha).max() <= 1.0
        metrics = report.metrics
        if metrics.gap is not None:
            self.certificates += 1
            assert metrics.primal is not None
            assert metrics.primal <= self._certified + FIXED_POINT
            self._certified = metrics.primal
            assert metrics.dual is not None
            assert metrics.gap_error is not None
            assert metrics.dual <= case.optimum + metrics.gap_error
            assert error_of(self._run, case) <= metrics.gap
        return report
