"""Choosing hyper-parameters by random search, the Pareto front and grey relational analysis: Tables 2 to 4.

The paper searched for five days for each data set and algorithm; the option `trials` says how many trials there are
here. Ranges are those of section 7.3 of the supplement. Rounds are simulated, and their seconds are measured with real
ciphertexts, as for Tables 6 to 8.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fenchel_deploy.papers.algorithms import FEDAVG, HYFDCA, HYFEM, IIC, TITLES, parsed_settings, settings_of
from fenchel_deploy.papers.choice import Judged, Range, judged
from fenchel_deploy.papers.costs import round_cost
from fenchel_deploy.papers.curves import simulated
from fenchel_deploy.papers.definitions import SettingPlan
from fenchel_deploy.papers.journal import Cell, ReadRow, Row
from fenchel_deploy.papers.metering import RoundCost
from fenchel_deploy.papers.search import Search, Values
from fenchel_deploy.papers.simulation import Simulated
from fenchel_deploy.papers.work import Chart, Table, Unit, Work

VALUES: Final = (IIC, "a", "b", "mu")
METRICS: Final = (
    "runtime_0", "runtime_257", "runtime_800", "last_losses", "accuracy", "volatility", "rounds_to_90"
)  # fmt: skip


class Selection:
    """Trials and the choice among them. Options: `trials`, and the bounds of `Costs`."""

    columns = (
        "setting", "algorithm", "trial", *VALUES, *METRICS, "on_front", "grade", "chosen", "printed_iic", "took_s"
    )  # fmt: skip

    def units(self, work: Work) -> list[Unit]:
        return [
            self._unit(work, setting, algorithm)
            for setting in work.experiment.settings
            for algorithm in work.experiment.algorithms
        ]

    def _unit(self, work: Work, setting: SettingPlan, algorithm: str) -> Unit:
        def measure() -> Sequence[Row]:
            began = time.monotonic()
            problem = work.problem
            search = Search(
                ranges=_ranges(algorithm, setting, len(problem.training.y)),
                start=lambda values: _started(work, setting, algorithm, values),
                loss=problem.relative_loss,
                accuracy=problem.accuracy,
                zero=np.zeros(len(problem.training.features)),
                rounds=work.experiment.rounds,
            )
            trials = search.trials(
                int(work.experiment.options["trials"]), seed=work.experiment.seeds[0], tell=work.tell
            )
            printed = setting.tuned.get(algorithm, {}).get(IIC)
            common: dict[str, Cell] = {
                "setting": setting.label, "algorithm": algorithm, "printed_iic": printed,
                "took_s": time.monotonic() - began,
            }  # fmt: skip
            return [{**common, **_row(number, one)} for number, one in enumerate(judged(trials), 1)]

        return Unit(f"{setting.label} / {algorithm}", measure)

    def tables(self, _work: Work, rows: Sequence[ReadRow]) -> list[Table]:
        headings = [
            "setting",
            "algorithm",
            "IIC",
            "printed",
            "a",
            "b",
            "μ",
            "loss",
            "accuracy",
            "s at 257.5 ms",
            "grade",
        ]
        shown = ["iic", "printed_iic", "a", "b", "mu", "last_losses", "accuracy", "runtime_257", "grade"]
        chosen = [
            [row["setting"], TITLES[row["algorithm"]], *(row[name] for name in shown)]
            for row in rows
            if row["chosen"] == "True"
        ]
        return [Table("Hyper-parameters that were chosen", headings, chosen)]

    def charts(self, _work: Work, _rows: Sequence[ReadRow]) -> list[Chart]:
        return []


@dataclass(frozen=True, slots=True)
class _Trial:
    """A simulated trial, every round of which costs the same."""

    run: Simulated
    cost: RoundCost

    def round(self) -> RoundCost:
        self.run.round()
        return self.cost

    def model(self) -> NDArray[np.float64]:
        return self.run.model()


def _started(work: Work, setting: SettingPlan, algorithm: str, values: Values) -> _Trial:
    tried = setting.model_copy(update={"tuned": {algorithm: dict(values)}})
    cost, _, _ = round_cost(work, tried, algorithm)
    settings = parsed_settings(algorithm, settings_of(algorithm, tried, work.problem), seed=0)
    return _Trial(simulated(work.problem, work.problem.shards(tried, seed=0), settings), cost)


def _ranges(algorithm: str, setting: SettingPlan, samples: int) -> Mapping[str, Range]:
    """The ranges of section 7.3; the smallest IIC is the one at which H is 1."""
    smallest = setting.party_count / samples
    steps = Range(smallest, 1.0 if algorithm == HYFDCA else 5.0)
    rate = Range(1e-5, 25.0)
    return {
        HYFDCA: {IIC: steps},
        FEDAVG: {IIC: steps, "a": rate, "b": rate},
        HYFEM: {IIC: steps, "a": rate, "b": rate, "mu": Range(1e-2, 1e4)},
    }[algorithm]


def _row(number: int, one: Judged) -> dict[str, Cell]:
    metrics: Mapping[str, Cell] = {} if one.trial.metrics is None else asdict(one.trial.metrics)
    drawn = {name: one.trial.values.get(name) for name in VALUES}
    front = one.grade is not None
    return {"trial": number, **drawn, **metrics, "on_front": front, "grade": one.grade, "chosen": one.chosen}
