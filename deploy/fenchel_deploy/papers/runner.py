"""Carries out an experiment: measures what the folder does not have yet, then writes the page and the figures."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

from fenchel_deploy.papers.certified import Certified
from fenchel_deploy.papers.claims import Verdict, judged
from fenchel_deploy.papers.costs import Costs
from fenchel_deploy.papers.curves import Curves
from fenchel_deploy.papers.definitions import Experiment, load_experiment
from fenchel_deploy.papers.journal import Journal
from fenchel_deploy.papers.optima import Optima
from fenchel_deploy.papers.page import page
from fenchel_deploy.papers.rows import RowRuns
from fenchel_deploy.papers.selection import Selection
from fenchel_deploy.papers.work import Kind, Tell, Unit, Work

KINDS: Final[Mapping[str, Kind]] = {
    "costs": Costs(),
    "curves": Curves(),
    "certified": Certified(),
    "optima": Optima(),
    "selection": Selection(),
    "rows": RowRuns(),
}
PAGE: Final = "page.md"


@dataclass(frozen=True, slots=True)
class Result:
    """What an experiment found: its verdicts and its files."""

    folder: Path
    verdicts: list[Verdict]
    measured_units: int
    kept_units: int


def run_experiment(name: str, *, quick: bool, data: Path | None, out: Path, tell: Tell) -> Result:
    """Carries out the named experiment in the folder `out`/`name`; units that the folder has are kept.

    `tell` gets a line on what is done, before the first measurement how long all of them take.
    """
    experiment = load_experiment(name, quick=quick)
    work = Work(name, experiment, data, tell)
    kind, folder = KINDS[experiment.kind], out / name
    if work.problem.stands_in:
        tell(f"{experiment.problem.dataset} is in no folder; {work.problem.training.name} stands in for it")
    journal = Journal(folder, kind.columns, _plan(work, quick=quick))
    units, done = kind.units(work), journal.done
    todo = [unit for unit in units if unit.key not in done]
    if len(todo) < len(units):
        tell(f"{len(units) - len(todo)} of {len(units)} measurements are in {journal.path} already")
    tell(_foreseen(todo) if _unmeasured(experiment, quick=quick) and todo else expected(experiment, quick=quick))
    try:
        _measure(todo, journal, tell)
    except BaseException:
        # What has been measured until an interruption is shown too.
        if journal.rows():
            _write_page(work, journal, kind, quick=quick)
        raise
    verdicts = _write_page(work, journal, kind, quick=quick)
    return Result(folder, verdicts, len(todo), len(units) - len(todo))


def _measure(todo: Sequence[Unit], journal: Journal, tell: Tell) -> None:
    began = time.monotonic()
    for number, unit in enumerate(todo):
        mean_s = (time.monotonic() - began) / max(number, 1)
        left = f" (about {_duration(mean_s * (len(todo) - number))} left, if the rest is like this)" if number else ""
        tell(f"{number + 1} of {len(todo)}: {unit.key}{left}")
        journal.append(unit.key, unit.measure())


def _write_page(work: Work, journal: Journal, kind: Kind, *, quick: bool) -> list[Verdict]:
    """Writes the page and the figures of the rows, and returns the verdicts."""
    # matplotlib takes a second to load.
    from fenchel_deploy.papers.figures import write_figures

    rows = journal.rows()
    verdicts = judged(work.experiment.claims, rows, as_printed=not quick and not work.problem.stands_in)
    tables, charts = kind.tables(work, rows), kind.charts(work, rows)
    write_figures(charts, journal.path.parent)
    seconds = sum({row["unit"]: float(row["took_s"]) for row in rows}.values())
    text = page(work, quick=quick, tables=tables, charts=charts, verdicts=verdicts, seconds=seconds)
    (journal.path.parent / PAGE).write_text(text, encoding="utf-8")
    return verdicts


def _unmeasured(experiment: Experiment, *, quick: bool) -> bool:
    return not quick and experiment.takes.full_s is None


def _foreseen(todo: Sequence[Unit]) -> str:
    """How long the measurements take, by two rounds of each."""
    trials = [unit.trial for unit in todo if unit.trial is not None]
    if not trials:
        return "nobody has measured how long the full form takes; the first measurements will tell"
    seconds = sum(trial() for trial in trials)
    return f"these {len(todo)} measurements take about {_duration(seconds)}, if all rounds are like the second of each"


def expected(experiment: Experiment, *, quick: bool) -> str:
    """How long a form takes, and how this is known."""
    seconds = experiment.takes.quick_s if quick else experiment.takes.full_s
    if seconds is None:
        return "nobody has measured how long the full form takes; `fenchel experiment run` tries a part of it first"
    return f"the {'quick' if quick else 'full'} form takes about {_duration(seconds)} ({experiment.takes.known})"


def _duration(seconds: float) -> str:
    if seconds < 300.0:
        return f"{seconds:.0f} s"
    return f"{seconds / 60.0:.0f} min" if seconds < 7200.0 else f"{seconds / 3600.0:.1f} h"


def _plan(work: Work, *, quick: bool) -> Mapping[str, object]:
    """What must be the same for rows to belong together."""
    training = work.problem.training
    return {
        "experiment": work.name,
        "form": "quick" if quick else "full",
        "version": version("fenchel"),
        "dataset": training.name,
        "samples": len(training.y),
        "definition": work.experiment.model_dump(mode="json", exclude={"claims", "takes", "about", "title"}),
    }
