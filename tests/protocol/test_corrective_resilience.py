"""Corrective HyFDCA with clients that come, go and forget, and servers that die: D is kept, and the run goes on."""

import numpy as np
import pytest

from fenchel_client.algorithms.corrective.points import ANCHOR, BEST
from fenchel_common.errors import InvalidInput, StateDamaged
from fenchel_common.ids import RoundId
from fenchel_server.algorithms.corrective.ending import STANDSTILL, VOID
from fenchel_server.algorithms.corrective.problems import UNCERTIFIED
from fenchel_server.contract import Outcome, RoundReport
from support.corrective import (
    CASE,
    FIRST,
    LAST,
    PHASES,
    SECOND,
    Ascent,
    chained,
    combinations_of,
    error_of,
    halves_of,
    newest_memory,
    settings,
    simulation,
)
from support.halves import half_a_round
from support.problems import problem
from support.simulation import Simulation


def test_blocks_with_an_absent_holder_keep_their_alpha_and_the_others_go_on() -> None:
    """The guarantee with absent clients: D does not fall, and frozen blocks do not move at all."""
    case = problem(**CASE)
    run = simulation(case)
    run.run(3)
    frozen = [case.ids.index(sample) for sample in run.shards[LAST].ids]
    alpha = run.alpha(case.ids)
    ascent = Ascent(run, case)
    for _ in range(5):
        metrics = run.round(available=run.names - {LAST}).metrics
        ascent.check()
        assert metrics.absences == {LAST: "not there when the round began"}
        assert (metrics.gap, metrics.note) == (None, UNCERTIFIED)
        np.testing.assert_array_equal(run.alpha(case.ids)[frozen], alpha[frozen])
    assert case.dual(run.alpha(case.ids)) > case.dual(alpha)
    run.round()
    assert ascent.check().metrics.gap is not None
    assert ascent.certificates == 1


def test_in_a_chain_of_parties_the_blocks_without_the_absent_one_go_on() -> None:
    case, shards = chained()
    run = Simulation.of(shards, settings(case))
    run.run(4)
    last = max(run.names)
    before = run.alpha(case.ids)
    ascent = Ascent(run, case)
    for _ in range(4):
        run.round(available=run.names - {last})
        ascent.check()
    own_rows = [case.ids.index(sample) for sample in run.shards[last].ids]
    moved = run.alpha(case.ids) != before
    assert not moved[own_rows].any()
    assert moved.any()
    while (ascent.check().metrics.gap or 1.0) > 1e-3:
        run.round()
        assert len(run.reports) < 60


def test_a_vertical_federation_stands_still_while_one_is_absent_and_goes_on_afterwards() -> None:
    case = problem(**CASE)
    run = simulation(case, (1, 4))
    run.run(3)
    before = run.alpha(case.ids)
    report = run.round(available=run.names - {LAST})
    assert report.metrics.samples_updated == 0
    assert STANDSTILL in report.metrics.note
    np.testing.assert_array_equal(run.alpha(case.ids), before)
    run.run(6)
    assert not np.array_equal(run.alpha(case.ids), before)


def test_a_round_that_nobody_comes_to_leaves_everything_as_it_is() -> None:
    case = problem(**CASE)
    run = simulation(case, (4, 1))
    run.run(2)
    before = run.alpha(case.ids)
    report = run.round(available=frozenset())
    assert STANDSTILL in report.metrics.note
    np.testing.assert_array_equal(run.alpha(case.ids), before)
    ascent = Ascent(run, case)
    run.run(5)
    assert ascent.check().metrics.gap is not None


def test_a_run_that_begins_with_an_absent_client_reaches_the_optimum() -> None:
    case = problem(**CASE)
    run = simulation(case, stop={"gap": 1e-4, "rounds": 60})
    run.round(available=run.names - {FIRST})
    run.round(available=run.names - {FIRST})
    assert run.run().outcome is Outcome.CONVERGED
    assert error_of(run, case) <= 1e-4


@pytest.mark.parametrize("grid", [(2, 2), (4, 1)])
@pytest.mark.parametrize("phase", PHASES)
def test_a_client_that_fails_in_any_phase_never_lowers_d(phase: str, grid: tuple[int, int]) -> None:
    case = problem(**CASE)
    run = simulation(case, grid, stop={"gap": 1e-2, "rounds": 60})
    run.absent = lambda at, during, who: at in (2, 4, 5) and during == phase and who == FIRST
    ascent = Ascent(run, case)
    while run.round().outcome is None:
        ascent.check()
    assert run.reports[-1].outcome is Outcome.CONVERGED
    if phase in {during for _, during in run.phases}:
        assert run.reports[1].metrics.absences[FIRST] == f"{phase}: no result"
        assert (VOID in run.reports[1].metrics.note) == (phase != "primal")


@pytest.mark.parametrize("phase", ["inner_product", "local_dual"])
def test_a_round_that_a_client_fails_before_primal_is_void_and_harmless(phase: str) -> None:
    case = problem(**CASE)
    run = simulation(case)
    run.run(3)
    model, alpha = run.model(), run.alpha(case.ids)
    run.absent = lambda at, during, who: (at, during, who) == (4, phase, LAST)
    assert VOID in run.round().metrics.note
    np.testing.assert_array_equal(run.model(), model)
    np.testing.assert_array_equal(run.alpha(case.ids), alpha)


def test_a_client_that_fails_in_primal_costs_neither_the_certificate_nor_the_new_dual_variables() -> None:
    case = problem(**CASE)
    calm, shaken = simulation(case), simulation(case)
    shaken.absent = lambda at, during, who: (at, during, who) == (4, "primal", LAST)
    calm.run(4)
    shaken.run(4)
    assert shaken.reports[-1].metrics.gap == calm.reports[-1].metrics.gap
    np.testing.assert_array_equal(shaken.alpha(case.ids), calm.alpha(case.ids))
    ascent = Ascent(shaken, case)
    shaken.round()
    assert ascent.check().metrics.gap is not None


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_a_server_restored_after_every_round_goes_on_with_the_same_bits(loss: str) -> None:
    case = problem(**CASE, loss=loss)
    calm, shaken = simulation(case), simulation(case)
    for _ in range(6):
        calm.round()
        shaken.restore(shaken.server.snapshot())
        shaken.round()
        assert calm.reports[-1].metrics == shaken.reports[-1].metrics
        np.testing.assert_array_equal(calm.model(), shaken.model())
        np.testing.assert_array_equal(calm.alpha(case.ids), shaken.alpha(case.ids))


@pytest.mark.parametrize(
    ("grid", "phase"),
    [*(((2, 2), phase) for phase in PHASES), ((2, 2), ""), ((4, 1), "local_dual"), ((4, 1), "primal"), ((4, 1), "")],
)
def test_a_server_lost_in_any_phase_resumes_with_the_same_bits(grid: tuple[int, int], phase: str) -> None:
    """The clients had answered the phases before it, or all of them, and repeat the round from what they remember."""
    case = problem(**CASE)
    calm, lost = simulation(case, grid), simulation(case, grid)
    calm.run(6)
    lost.run(3)
    snapshot = lost.server.snapshot()
    ended = half_a_round(lost, 4, until=phase)
    assert isinstance(ended, RoundReport) == (phase == "")
    lost.restore(snapshot)
    lost.run(6)
    assert [report.metrics for report in lost.reports] == [report.metrics for report in calm.reports]
    np.testing.assert_array_equal(calm.model(), lost.model())
    np.testing.assert_array_equal(calm.alpha(case.ids), lost.alpha(case.ids))


def test_a_round_after_an_absence_can_be_repeated_too() -> None:
    """A collapse starts from the same anchor however often it is done."""
    case = problem(**CASE)
    calm, lost = simulation(case), simulation(case)
    for run in (calm, lost):
        run.run(3)
        run.round(available=run.names - {LAST})
    snapshot = lost.server.snapshot()
    half_a_round(lost, 5, until="")
    lost.restore(snapshot)
    calm.run(7)
    lost.run(7)
    np.testing.assert_array_equal(calm.model(), lost.model())
    np.testing.assert_array_equal(calm.alpha(case.ids), lost.alpha(case.ids))


@pytest.mark.parametrize("grid", [(2, 2), (4, 1)])
def test_when_server_and_clients_are_lost_the_run_goes_on_from_the_anchor(grid: tuple[int, int]) -> None:
    case = problem(**CASE)
    run = simulation(case, grid, stop={"gap": 1e-4, "rounds": 60})
    run.run(4)
    ascent = Ascent(run, case)
    alpha = run.alpha(case.ids)
    committed = run.server.snapshot()
    half_a_round(run, 5, until="primal")
    run.restore(committed)
    for client in sorted(run.names):
        run.restart(client)
    run.round(restarted=run.names)
    np.testing.assert_array_equal(run.alpha(case.ids), alpha)
    while ascent.check().outcome is None:
        run.round()
    assert run.reports[-1].outcome is Outcome.CONVERGED


@pytest.mark.parametrize("grid", [(2, 2), (4, 1)])
def test_a_client_that_forgot_without_a_word_refuses_and_costs_one_round(grid: tuple[int, int]) -> None:
    case = problem(**CASE)
    run = simulation(case, grid)
    ascent = Ascent(run, case)
    run.run(4)
    run.lenient = True
    run.restart(SECOND)
    metrics = run.round().metrics
    assert metrics.absences[SECOND].endswith("no result")
    assert VOID in metrics.note
    for _ in range(2):
        run.round()
        assert ascent.check().metrics.gap is not None
        assert run.reports[-1].metrics.absences == {}


def test_a_client_that_has_the_records_but_not_its_memory_says_so_and_costs_one_round() -> None:
    """A restored server sends all records to all clients, and does not know who has forgotten."""
    case = problem(**CASE)
    run = simulation(case)
    run.run(4)
    run.restore(run.server.snapshot())
    run.restart(SECOND)
    metrics = run.round().metrics
    assert metrics.absences[SECOND].endswith("it has lost its memory of the run")
    assert VOID in metrics.note
    assert run.round().metrics.gap is not None


def test_a_restarted_client_costs_the_points_but_not_the_anchor() -> None:
    """Every round of the others' would be as good; what counts is that the anchor is the same for all of them."""
    case = problem(**CASE)
    run = simulation(case)
    ascent = Ascent(run, case)
    for _ in range(6):
        run.restart(SECOND)
        run.round(restarted=frozenset({SECOND}))
        ascent.check()
        assert len(combinations_of(run, len(run.reports))) == 1
        run.round()
        ascent.check()
        assert run.reports[-1].metrics.absences == {}
    assert run.reports[-1].metrics.gap is not None
    assert run.reports[-1].metrics.gap < 0.1


def test_who_kept_the_anchor_and_who_gets_it_from_the_server_hold_the_same_bits() -> None:
    case = problem(**CASE, loss="logistic")
    kept, told = simulation(case), simulation(case)
    for run in (kept, told):
        run.run(4)
        run.restart(SECOND)
    for client in sorted(told.names):
        told.restart(client)
    uncut = newest_memory(halves_of(kept)[FIRST]).anchor.alpha * 2.0**32
    assert (uncut != np.rint(uncut)).any()
    kept.round(restarted=frozenset({SECOND}))
    told.round(restarted=told.names)
    for client, half in halves_of(kept).items():
        mine, given = newest_memory(half), newest_memory(halves_of(told)[client])
        for name in ((ANCHOR, 0), (BEST, 0)):
            left, right = mine.entries[name], given.entries[name]
            np.testing.assert_array_equal(left.alpha, right.alpha)
            np.testing.assert_array_equal(left.weights, right.weights)
            np.testing.assert_array_equal(left.predictions, right.predictions)
            assert left.conjugate_part == right.conjugate_part
    for _ in range(3):
        assert kept.round().metrics == told.round().metrics
        np.testing.assert_array_equal(kept.model(), told.model())
        np.testing.assert_array_equal(kept.alpha(case.ids), told.alpha(case.ids))


def test_a_certificate_counts_what_every_collapse_and_absence_may_have_cost() -> None:
    case = problem(**CASE)
    calm, shaken = simulation(case), simulation(case)
    calm.run(6)
    for round_id in range(1, 7):
        shaken.round(available=shaken.names - {LAST} if round_id in (3, 5) else None)
    widths = [run.reports[-1].metrics.gap_error for run in (calm, shaken)]
    assert widths[0] is not None
    assert widths[1] is not None
    assert widths[0] < widths[1] < 1e-7


def test_a_snapshot_restores_to_the_same_snapshot() -> None:
    run = simulation(problem(**CASE))
    for round_id in range(1, 8):
        run.round(available=run.names - {LAST} if round_id in (4, 5) else None)
        snapshot = run.server.snapshot()
        run.restore(snapshot)
        assert run.server.snapshot() == snapshot


def test_a_snapshot_of_other_clients_is_refused() -> None:
    case = problem(**CASE)
    larger, smaller = simulation(case), simulation(case, (1, 2))
    larger.run(1)
    with pytest.raises(StateDamaged, match="other clients"):
        smaller.restore(larger.server.snapshot())


def test_rounds_and_phases_come_in_order() -> None:
    run = simulation(problem(**CASE))
    with pytest.raises(InvalidInput, match="round_id"):
        run.server.begin_round(RoundId(2), run.names, frozenset(), attempt=1)
    with pytest.raises(InvalidInput, match="no round is under way"):
        run.server.advance("primal", {})
    run.server.begin_round(RoundId(1), run.names, frozenset(), attempt=1)
    with pytest.raises(InvalidInput, match="is not under way"):
        run.server.advance("primal", {})
