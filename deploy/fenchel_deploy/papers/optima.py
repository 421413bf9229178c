"""The centralized optima, beside those that the HyFDCA paper prints: Table 5.

The experiment's problem and those of the option `problems` are solved to a certified relative gap of 1e-9. `printed`,
an option too, has the printed optima by data set.
"""

import time
from collections.abc import Sequence
from typing import Final

from fenchel_deploy.papers.definitions import ProblemPlan
from fenchel_deploy.papers.journal import ReadRow, Row
from fenchel_deploy.papers.problems import load_problem
from fenchel_deploy.papers.work import Chart, Table, Unit, Work

DIGITS: Final = ("mnist", "digits")


class Optima:
    """Optima of problems."""

    columns = (
        "dataset", "solved", "samples", "lambda", "positive", "primal", "dual", "accuracy", "printed_primal", "took_s"
    )  # fmt: skip

    def units(self, work: Work) -> list[Unit]:
        others = [ProblemPlan.model_validate(values) for values in work.experiment.options.get("problems", [])]
        return [self._unit(work, plan) for plan in (work.experiment.problem, *others)]

    def _unit(self, work: Work, plan: ProblemPlan) -> Unit:
        def measure() -> Sequence[Row]:
            began = time.monotonic()
            problem = load_problem(plan, work.data)
            optimum = problem.optimum
            printed = None if problem.stands_in else work.experiment.options.get("printed", {}).get(plan.dataset)
            return [
                {
                    "dataset": plan.dataset,
                    "solved": problem.training.name,
                    "samples": len(problem.training.y),
                    "lambda": plan.lambda_,
                    "positive": plan.positive if problem.training.name in DIGITS else None,
                    "primal": optimum.primal,
                    "dual": optimum.dual,
                    "accuracy": problem.accuracy(optimum.w) if len(problem.y_validation) else None,
                    "printed_primal": printed,
                    "took_s": time.monotonic() - began,
                }
            ]

        return Unit(f"{plan.dataset} / {plan.positive}" if plan.dataset in DIGITS else plan.dataset, measure)

    def tables(self, _work: Work, rows: Sequence[ReadRow]) -> list[Table]:
        headings = ["data set", "solved", "positive class", "samples", "λ", "P*", "printed", "accuracy"]
        shown = ["dataset", "solved", "positive", "samples", "lambda", "primal", "printed_primal", "accuracy"]
        return [Table("Centralized optima", headings, [[row[name] for name in shown] for row in rows])]

    def charts(self, _work: Work, _rows: Sequence[ReadRow]) -> list[Chart]:
        return []
