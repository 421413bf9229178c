"""Kinds of measurements on small problems: the search for hyper-parameters, optima, and time to a certificate."""

from typing import Any

import pytest

from fenchel_deploy.papers.definitions import Experiment, load_experiment
from fenchel_deploy.papers.runner import KINDS
from fenchel_deploy.papers.work import Work

Found = dict[str, Any]


def measured(name: str, number: int = 0, **changes: Any) -> list[Found]:
    """The rows of one unit of the quick form, on digits, with changed values."""
    experiment = load_experiment(name, quick=True)
    problem = experiment.problem.model_copy(update={"rows": 240})
    chosen: Experiment = experiment.model_copy(update={"problem": problem, **changes})
    work = Work(name, chosen, None, lambda _: None)
    kind = KINDS[chosen.kind]
    rows = kind.units(work)[number].measure()
    assert all(set(row) <= set(kind.columns) for row in rows)
    kind.tables(work, [{name: str(row.get(name, "")) for name in ("unit", *kind.columns)} for row in rows])
    return [dict(row) for row in rows]


def test_a_search_has_a_row_for_each_trial_and_chooses_among_those_on_the_front() -> None:
    options = {"most_parties": 20, "cost_rounds": 1, "trials": 3}
    rows = measured("hyfdca-table2", number=1, rounds=6, options=options)
    assert [row["trial"] for row in rows] == [1, 2, 3]
    assert all(1e-5 <= row["a"] <= 25.0 and row["mu"] is None for row in rows)
    chosen = [row for row in rows if row["chosen"]]
    assert len(chosen) == any(row["on_front"] for row in rows)
    assert all(row["on_front"] for row in chosen)


def test_an_optimum_lies_between_its_bounds_and_is_not_compared_with_print_where_digits_stand_in() -> None:
    (row,) = measured("hyfdca-table5")
    assert row["dual"] <= row["primal"] <= row["dual"] * (1 + 1e-8)
    assert (row["solved"], row["printed_primal"], row["positive"]) == ("digits", None, 3)


def test_ours_is_certified_by_real_processes_and_the_estimate_has_the_printed_seconds() -> None:
    ours, paper, exact = (
        measured("hyfdca-certified-covtype", number, rounds=20, options={"profile": "none"})[0] for number in range(3)
    )
    assert (ours["setting"], ours["certified"], ours["reached"]) == ("3, 3, 1", True, True)
    assert ours["relative_loss"] <= 0.01
    assert ours["total_s"] == pytest.approx(ours["setup_s"] + ours["rounds_s"])
    for estimated in (paper, exact):
        assert (estimated["setting"], estimated["certified"], estimated["rounds"]) == ("3, 3, 0.5", False, 20)
        assert estimated["printed_iteration_s"] == pytest.approx(0.0836 + 1.149)
        assert estimated["total_s"] == pytest.approx(20 * estimated["printed_iteration_s"])
    assert paper["relative_loss"] != exact["relative_loss"]
