"""What a run of an experiment says beforehand."""

from collections.abc import Callable

from fenchel_deploy.papers.curves import Curves
from fenchel_deploy.papers.definitions import load_experiment
from fenchel_deploy.papers.rows import RowRuns
from fenchel_deploy.papers.runner import _foreseen, expected
from fenchel_deploy.papers.work import Unit, Work, tried


def unit(seconds: float | None) -> Unit:
    return Unit("one", list, None if seconds is None else lambda: seconds)


def test_measurements_that_nobody_has_made_are_tried_and_added_up() -> None:
    assert _foreseen([unit(100.0), unit(1100.0)]).startswith("these 2 measurements take about 20 min")
    assert _foreseen([unit(None)]).startswith("nobody has measured")


def test_a_trial_makes_two_rounds_and_multiplies_the_second() -> None:
    made: list[int] = []

    def start() -> Callable[[], object]:
        made.append(0)
        return lambda: made.append(1)

    assert 0.0 <= tried(start, 1000) < 100.0
    assert made == [0, 1, 1]


def test_figures_and_runs_of_whole_rows_can_be_tried() -> None:
    for name, kind in (("hyfdca-figure3-covtype", Curves()), ("scaffpd-figure2", RowRuns())):
        quick = load_experiment(name, quick=True)
        for one in kind.units(Work(name, quick, None, lambda _: None))[:2]:
            assert one.trial is not None
            assert one.trial() > 0.0, one.key


def test_a_form_that_was_measured_is_not_tried() -> None:
    measured, other = load_experiment("scaffpd-figure2"), load_experiment("hyfdca-figure3-mnist")
    assert "the full form takes about" in expected(measured, quick=False)
    assert "tries a part of it first" in expected(other, quick=False)
    assert "the quick form takes about" in expected(other, quick=True)
