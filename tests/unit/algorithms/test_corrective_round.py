"""The beginning of a corrective round at the server, and the tasks of its phases, as functions of the state."""

from dataclasses import replace

import pytest

from fenchel_common.algorithms.corrective.messages import Products, RoundChoices
from fenchel_common.algorithms.dual import ALPHA_FORMAT
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.wire.corrective_snapshot import CorrectiveState, Memories
from fenchel_server.algorithms.corrective.exchange import dual_parts, product_parts
from fenchel_server.algorithms.corrective.round import begin_round, dual_tasks, primal_tasks
from fenchel_server.algorithms.phased import NOT_THERE
from support.corrective_rounds import (
    BOTH,
    LAYOUT,
    SETTINGS,
    answers_of,
    begun,
    constant,
    dual_answers,
    on,
    state_after,
    values_of,
)
from support.layouts import A, B

NOBODY: frozenset[ClientId] = frozenset()


def test_a_round_after_a_good_one_goes_on_with_the_pending_points() -> None:
    before = state_after(3)
    state, current = begun(before, 4)
    assert state == before
    assert (current.id, current.present, current.absences) == (4, [A, B], {})
    assert current.complete
    assert not current.collapse
    for client, block in ((A, 0), (B, 1)):
        start = current.starts[client]
        assert start.restored is None
        assert current.blocks[client].features == (block,)
        assert start.point is not None
        assert start.vertex is not None
        assert (values_of(start.point), values_of(start.vertex)) == ({block: 3.0}, {block: 4.0})
        assert start.conjugates_and_products is before.pending.conjugates_and_products
    assert current.blocks[A].live == (0, 1, 2)
    assert current.blocks[B].live == (1, 2)
    assert sorted([*current.blocks[A].reports, *current.blocks[B].reports]) == [0, 1, 2]
    assert current.choices == RoundChoices(BOTH, collapse=False, closing=False, live_samples=5)


def test_the_first_round_begins_with_a_collapse_that_rounds_nothing() -> None:
    state, current = begun(CorrectiveState(memories=Memories(intact=BOTH)), 1)
    assert current.collapse
    assert state.collapses == 0
    assert state.memories.participants == BOTH
    assert [start.restored for start in current.starts.values()] == [None, None]
    assert current.blank
    assert not begun(state_after(3), 4)[1].blank


@pytest.mark.parametrize(
    "memories",
    [Memories(3, frozenset({A}), BOTH), Memories(2, BOTH, BOTH)],
    ids=["other participants before", "no memories stored in the last round"],
)
def test_a_round_that_cannot_go_on_begins_with_a_collapse_of_all(memories: Memories) -> None:
    state, current = begun(replace(state_after(3), memories=memories), 4)
    assert current.collapse
    assert state.collapses == 1
    assert state.memories == replace(memories, participants=BOTH)
    for start in current.starts.values():
        assert (start.point, start.vertex, start.conjugates_and_products, start.restored) == (None, None, None, None)


def test_only_the_client_without_memory_gets_anchor_and_best_model() -> None:
    state, current = begun(state_after(3).without_memories_of({B}), 4)
    assert state.collapses == 1
    assert current.collapse
    assert current.starts[A].restored is None
    restored = current.starts[B].restored
    assert restored is not None
    assert restored.alpha is not None
    assert restored.weights is not None
    assert restored.model is not None
    assert values_of(restored.alpha) == {1: 0.25, 2: 0.25}
    assert values_of(restored.weights) == {1: 1.0}
    assert values_of(restored.model) == {1: 2.0}


def test_without_a_holder_its_blocks_are_not_live() -> None:
    state, current = begun(state_after(3), 4, available=frozenset({A}))
    assert (current.live, current.complete, current.collapse) == (frozenset({0}), False, True)
    assert (current.present, current.absences) == ([A], {B: NOT_THERE})
    assert (current.blocks[A].live, current.blocks[A].features) == ((0,), (0,))
    assert current.choices == RoundChoices(frozenset({A}), collapse=True, closing=False, live_samples=2)
    assert state.memories == Memories(3, frozenset({A}), BOTH)
    assert not current.reports_objectives


def test_a_round_that_nobody_comes_to_has_no_clients() -> None:
    _, current = begun(state_after(3), 4, available=NOBODY)
    assert not current.present
    assert not current.starts
    assert not current.live


def test_certificates_are_due_in_closing_rounds_and_as_often_as_set() -> None:
    settings = SETTINGS.model_copy(update={"certificate_every": 2})

    def certifying(round_id: int, *, closing: bool) -> bool:
        state = state_after(round_id - 1)
        _, current = begin_round(state, RoundId(round_id), BOTH, closing=closing, settings=settings, layout=LAYOUT)
        return current.reports_objectives

    assert [certifying(at, closing=False) for at in (2, 3, 4)] == [True, False, True]
    assert certifying(3, closing=True)


def test_the_dual_task_has_norms_for_who_lacks_them_and_the_start_where_no_phase_came_before() -> None:
    state, current = begun(state_after(3), 4)
    tasks = dual_tasks(current, state.norms, knowing_norms={A}, layout=LAYOUT)
    assert tasks[A].norms is None
    norms = tasks[B].norms
    assert norms is not None
    assert norms.blocks == (1, 2)
    assert (tasks[A].round_start, tasks[A].products) == (current.starts[A], None)


def test_the_dual_task_has_the_sums_of_products_on_the_clients_own_blocks() -> None:
    state, current = begun(state_after(3), 4)
    results = {client: Products(on((1, 2), 1.5), on((1, 2), 2.5), constant(1.0)) for client in (A, B)}
    current.products = answers_of(results, product_parts).sums
    tasks = dual_tasks(current, state.norms, knowing_norms=BOTH, layout=LAYOUT)
    for task in tasks.values():
        assert task.round_start is None
        assert task.products is not None
        assert task.products.point is not None
        assert task.products.vertex is not None
        assert values_of(task.products.point) == {1: 3.0, 2: 3.0}
        assert values_of(task.products.vertex) == {1: 5.0, 2: 5.0}
        assert task.products.gram.terms == 2


def test_the_primal_task_has_the_summed_point_and_the_summed_figures() -> None:
    _, current = begun(state_after(3), 4)
    answers = answers_of(dual_answers(current), dual_parts)
    current.duals = answers.sums
    tasks = primal_tasks(current, LAYOUT)
    point = tasks[A].point
    assert point is not None
    assert values_of(point) == {0: 0.125, 1: 0.25, 2: 0.25}
    assert point.vector.format == ALPHA_FORMAT
    assert tasks[A].figures.terms == 2


def test_the_tasks_of_a_closing_round_have_no_point() -> None:
    _, current = begun(state_after(3), 4, closing=True)
    assert current.choices == RoundChoices(BOTH, collapse=False, closing=True, live_samples=5)
    current.duals = answers_of(dual_answers(current), dual_parts).sums
    assert [task.point for task in primal_tasks(current, LAYOUT).values()] == [None, None]
