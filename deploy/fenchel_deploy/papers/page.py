"""The page of an experiment: printed beside measured, and in words what agrees and what does not."""

import os
import platform
from collections.abc import Sequence
from pathlib import Path

from fenchel_deploy.papers.claims import Verdict
from fenchel_deploy.papers.journal import FILE
from fenchel_deploy.papers.work import Chart, Table, Work

SHOWN_UNITS = 6


def page(
    work: Work,
    *,
    quick: bool,
    tables: Sequence[Table],
    charts: Sequence[Chart],
    verdicts: Sequence[Verdict],
    seconds: float,
) -> str:
    """The page in Markdown; figures are beside it, in files named after their keys."""
    experiment = work.experiment
    form = "quick" if quick else "full"
    lines = [
        f"# {experiment.title}",
        "",
        f"{', '.join(experiment.shows)} of `{experiment.paper}`, in the {form} form. {experiment.about}",
        "",
        *_circumstances(work, seconds),
    ]
    lines += ["", "## What agrees, and what does not", ""]
    lines += [_sentence(verdict) for verdict in verdicts] or ["No sentence of the paper is compared here."]
    for chart in charts:
        lines += ["", f"## {chart.title}", "", f"![{chart.title}]({chart.key}.png)"]
    for table in tables:
        lines += ["", f"## {table.title}", "", *markdown_table(table)]
    lines += ["", f"Every row is in [{FILE}]({FILE}). An empty cell was not printed, or was not measured.", ""]
    return "\n".join(lines)


def markdown_table(table: Table) -> list[str]:
    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cells)} |"

    return [line(table.headings), line(["---"] * len(table.headings)), *map(line, table.rows)]


def _circumstances(work: Work, seconds: float) -> list[str]:
    problem, plan = work.problem, work.experiment.problem
    training = problem.training
    samples = f"{len(training.y)} samples"
    if len(problem.y_validation):
        samples += f" that train and {len(problem.y_validation)} that never do"
    said = f"Data: {training.name}, {samples}, {training.X.shape[1]} columns; {plan.loss} loss, λ = {plan.lambda_:g}. "
    if problem.stands_in:
        said += f"It stands in for {plan.dataset}, which is in no folder here: no figure can be compared with print. "
    said += (
        f"Measured in {seconds:.0f} s on {os.cpu_count()} cores of {processor()}, Python {platform.python_version()}."
    )
    return [said]


def processor() -> str:
    """The name of this machine's processor, as far as the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _sentence(verdict: Verdict) -> str:
    units = "; ".join(f"`{unit}`" for unit in verdict.units[:SHOWN_UNITS])
    more = f" and {len(verdict.units) - SHOWN_UNITS} more" if len(verdict.units) > SHOWN_UNITS else ""
    rows = f" (rows {units}{more})" if units else ""
    return f"- *{verdict.says}* **{verdict.word.capitalize()}**: {verdict.why}{rows}."
