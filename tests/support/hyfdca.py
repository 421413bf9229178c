"""HyFDCA federations in one process with local steps of the paper, for tests of their rounds."""

from collections.abc import Mapping
from typing import Any, Final

from fenchel_common.algorithms.hyfdca.settings import HyfdcaSettings
from fenchel_common.data.partition import partition
from fenchel_common.ids import ClientId
from support.halves import Absent
from support.problems import Problem
from support.simulation import Simulation

CASE: Final[dict[str, Any]] = {"rows": 120, "columns": 8, "lambda_": 0.05}
FIRST, LAST = ClientId("party-00"), ClientId("party-03")
GRIDS: Final = [(2, 2), (4, 1), (1, 4)]


def settings(case: Problem, *, stop: Mapping[str, object] | None = None, **values: object) -> HyfdcaSettings:
    """The paper's steps at the paper's level; `stop` changes the stopping rules."""
    chosen = {
        "loss": case.loss.name,
        **case.label_settings,
        "lambda": case.lambda_,
        "local": "paper",
        "privacy": "paper",
    }
    return HyfdcaSettings.parse({**chosen, "stop": {"gap": 1e-4, "rounds": 500, **(stop or {})}, **values})


def simulation(case: Problem, grid: tuple[int, int] = (2, 2), **values: Any) -> Simulation:
    return Simulation.of(partition(case.data, grid=grid), settings(case, **values))


def absent_in(round_id: int, phase: str, client: ClientId) -> Absent:
    return lambda at, during, who: (at, during, who) == (round_id, phase, client)
