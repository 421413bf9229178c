"""Experiments over parties of whole rows: what each split measures, and how the rows of the papers are dealt out."""

import numpy as np
import pytest

from fenchel_deploy.papers.definitions import Experiment, load_experiment
from fenchel_deploy.papers.rowproblems import RowProblem, dealt, made
from fenchel_deploy.papers.rows import CURVE, EARLY, END, RowRuns
from fenchel_deploy.papers.work import Work


def short(name: str, run: str, **changes: object) -> Work:
    """An experiment's quick form with one run, one case and few rounds."""
    quick = load_experiment(name, quick=True)
    options = {**quick.options, "runs": {run: quick.options["runs"][run]}}
    if "cases" in options:
        first = next(iter(options["cases"]))
        options["cases"] = {first: options["cases"][first]}
    experiment: Experiment = quick.model_copy(update={"rounds": 6, "seeds": (0,), "options": options, **changes})
    return Work(name, experiment, None, lambda _: None)


@pytest.mark.parametrize(
    ("name", "run", "measured"),
    [
        ("dualfl-figure1a", "DualFL", ["relative_error", "decay"]),
        ("fedsgm-figure1", "soft, Rand-15, own", ["objective", "constraint", "violations", "swing"]),
        ("scaffpd-figure2", "SCAFF-PD", ["distance"]),
        ("scaffpd-table3", "SCAFF-PD", ["average", "worst_20", "best_20", "printed_average"]),
    ],
)
def test_each_split_measures_what_its_paper_shows(name: str, run: str, measured: list[str]) -> None:
    work, kind = short(name, run), RowRuns()
    (unit,) = kind.units(work)[:1]
    rows = unit.measure()
    (end,) = (row for row in rows if row["point"] == END)
    assert end["round"] == 6
    assert all(np.isfinite(float(end[column] or 0.0)) and end[column] is not None for column in measured)
    assert {row["point"] for row in rows} == {CURVE, EARLY, END}
    read = [
        {column: "" if row.get(column) is None else str(row.get(column)) for column in kind.columns} for row in rows
    ]
    (table,) = kind.tables(work, read)
    assert {name.replace("_", " ") for name in measured} <= set(table.headings)
    (chart,) = kind.charts(work, read)
    assert all(panel.series[0].label == run for panel in chart.panels)


def test_the_relative_error_is_that_to_the_centralized_optimum() -> None:
    work = short("dualfl-figure1a", "DualFL")
    problem = work.problem
    assert isinstance(problem, RowProblem)
    assert problem.energy(np.zeros((65, 10))) == pytest.approx(np.log(10.0))
    rng = np.random.default_rng(0)
    assert all(problem.energy(rng.normal(0.0, 0.01, (65, 10))) > problem.least for _ in range(3))


def test_the_made_data_are_those_of_the_paper() -> None:
    """C.1: N = 5, d = 10, m = 100, and parties whose own solutions differ by σ."""
    shards = made(0.1, seed=3)
    assert [shard.X.shape for shard in shards] == [(100, 10)] * 5
    own = [np.linalg.lstsq(np.asarray(shard.X), shard.y, rcond=None)[0] for shard in shards if shard.y is not None]
    assert 0.05 < np.std(own, axis=0).mean() < 0.15


def test_a_dirichlet_split_keeps_half_of_each_partys_rows_from_training() -> None:
    work = short("scaffpd-table3", "SCAFF-PD")
    problem = work.problem
    assert isinstance(problem, RowProblem)
    given = dealt(problem, 20, {"alpha": 0.05}, seed=0)
    trained = {identity for shard in given.shards for identity in shard.ids}
    held_out = sum(len(rows) for rows in given.held_out)
    assert len(trained) < len(problem.training.y) - held_out, "some parties lost rows"
    assert held_out == pytest.approx(len(problem.training.y) / 2, abs=20)
    assert len(given.held_out) == len(given.shards) == 20
