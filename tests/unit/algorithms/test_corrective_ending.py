"""The end of a corrective round at the server as a function of state and answers, and the error of its certificate."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fenchel_common.algorithms.corrective.messages import Objectives, PrimalResult
from fenchel_common.algorithms.dual import PRODUCT_FORMAT
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId
from fenchel_common.wire.corrective_snapshot import CorrectiveState, Memories, Reached
from fenchel_server.algorithms.corrective.ending import UNREPORTED, VOID, RoundEnd, certified, end_round
from fenchel_server.algorithms.corrective.exchange import dual_parts, primal_parts
from fenchel_server.algorithms.corrective.round import CorrectiveRound
from fenchel_server.contract import Outcome
from support.corrective_rounds import (
    BOTH,
    CIPHER,
    LAYOUT,
    OBJECTIVES,
    SETTINGS,
    answers_of,
    begun,
    dual_answers,
    primal_answers,
    state_after,
    values_of,
)
from support.layouts import A, B
from support.tagged import decrypted, encrypted

HALF = 2.0**-33
FROM_BEST = 2.0


def ended(
    state: CorrectiveState,
    current: CorrectiveRound,
    answers: Mapping[ClientId, PrimalResult] | None = None,
    *,
    goal: float | None = None,
) -> RoundEnd:
    """The end of the round, with the answers of all its clients unless others are given."""
    current.duals = answers_of(dual_answers(current), dual_parts).sums
    chosen = SETTINGS.model_copy(update={"stop": SETTINGS.stop.model_copy(update={"gap": goal})})
    given = primal_answers(current) if answers is None else answers
    return end_round(state, current, answers_of(given, primal_parts), settings=chosen, layout=LAYOUT)


def test_accepted_dual_variables_are_the_anchor_and_new_points_are_pending() -> None:
    before, current = begun(state_after(3), 4)
    end = ended(before, current)
    state = end.state
    assert (end.void, end.outcome) == ("", None)
    assert state.anchor.round_id == 4
    assert values_of(state.anchor.alpha) == {0: 0.5, 1: 0.5, 2: 0.5}
    assert values_of(state.anchor.weights) == {0: 5.0, 1: 5.0}
    assert values_of(state.model) == {0: 6.0, 1: 6.0}
    assert (values_of(state.pending.point), values_of(state.pending.vertex)) == ({0: 7.0, 1: 7.0}, {0: 8.0, 1: 8.0})
    assert state.pending.conjugates_and_products is not None
    np.testing.assert_array_equal(decrypted(CIPHER, state.pending.conjugates_and_products), [0.5, 0.5])
    assert state.memories == Memories(4, BOTH, BOTH)
    assert (state.collapses, state.relative_rounds) == (0, 0)
    assert state.norms is before.norms
    assert end.certificate == certified(OBJECTIVES, state, settings=SETTINGS, layout=LAYOUT)


def test_the_state_before_the_end_is_left_as_it_was() -> None:
    before, current = begun(state_after(3), 4)
    kept = replace(before)
    ended(before, current)
    assert before == kept
    assert values_of(before.anchor.alpha) == {0: 0.25, 1: 0.25, 2: 0.25}
    assert (values_of(before.anchor.weights), values_of(before.model)) == ({0: 1.0, 1: 1.0}, {0: 2.0, 1: 2.0})


def test_refused_dual_variables_leave_the_anchor_and_the_round_counts_all_the_same() -> None:
    before, current = begun(state_after(3), 4)
    state = ended(before, current, primal_answers(current, accepted=False)).state
    assert state.anchor == before.anchor
    assert values_of(state.model) == {0: 6.0, 1: 6.0}
    assert values_of(state.pending.point) == {0: 7.0, 1: 7.0}
    assert state.memories == Memories(4, BOTH, BOTH)


def test_a_round_that_nobody_answers_is_void_and_changes_nothing() -> None:
    before, current = begun(state_after(3), 4)
    assert ended(before, current, {}) == RoundEnd(before, void=VOID)


def test_a_best_model_that_is_not_told_whole_stays_the_one_before_and_all_get_it_anew() -> None:
    before, current = begun(state_after(3), 4)
    answers = primal_answers(current)
    del answers[A]
    end = ended(before, current, answers)
    assert (end.void, end.certificate) == ("", None)
    assert end.state.model == before.model
    assert end.state.memories == Memories(4, BOTH, frozenset())
    assert end.state.anchor.round_id == 4
    assert values_of(end.state.anchor.alpha) == {0: 0.5, 1: 0.5, 2: 0.5}
    assert values_of(end.state.pending.point) == {1: 7.0}


def test_a_closing_round_keeps_all_but_the_best_model_and_ends_the_run() -> None:
    before, current = begun(state_after(3), 4, closing=True)
    end = ended(before, current)
    assert (end.outcome, end.void) == (Outcome.FINISHED, "")
    assert end.certificate is not None
    assert values_of(end.state.model) == {0: 6.0, 1: 6.0}
    assert end.state == replace(before, model=end.state.model, certified=end.state.certified)


def test_a_closing_round_whose_best_model_is_not_told_whole_is_void() -> None:
    before, current = begun(state_after(3), 4, closing=True)
    answers = primal_answers(current)
    del answers[B]
    assert ended(before, current, answers) == RoundEnd(before, void=UNREPORTED)


def test_a_gap_within_the_goal_ends_the_run_with_the_certified_model() -> None:
    before, current = begun(state_after(3), 4)
    end = ended(before, current, goal=0.25 + 1e-6)
    assert (end.outcome, end.reason) == (Outcome.CONVERGED, "the duality gap is at most 0.250001")
    assert end.certificate is not None
    assert end.state.certified == Reached(0.75, 0.5, end.certificate.gap, end.certificate.gap_error, 0.875)
    assert end.state == replace(before, model=end.state.model, certified=end.state.certified)
    assert ended(before, current, goal=0.25).outcome is None


@pytest.mark.parametrize("last", [frozenset({A}), BOTH])
def test_without_somebody_the_best_model_stays_and_features_of_the_absent_keep_their_weights(
    last: frozenset[ClientId],
) -> None:
    before, current = begun(state_after(3, participants=last), 4, available=frozenset({A}))
    assert current.collapse == (last == BOTH)
    end = ended(before, current)
    assert end.state.model == before.model
    assert values_of(end.state.released) == {0: 6.0, 1: FROM_BEST}
    assert values_of(end.state.anchor.alpha) == {0: 0.5, 1: 0.25, 2: 0.25}
    assert values_of(end.state.anchor.weights) == {0: 5.0, 1: 1.0}
    assert end.state.memories == Memories(4, frozenset({A}), frozenset({A}))
    assert (end.state.relative_rounds, end.certificate) == (1, None)


def test_a_collapse_widens_the_certificate_of_its_own_round() -> None:
    calm, first = begun(state_after(3), 4)
    collapsed, second = begun(state_after(3).without_memories_of({B}), 4)
    ends = [ended(calm, first), ended(collapsed, second)]
    errors = [end.certificate.gap_error for end in ends if end.certificate is not None]
    assert len(errors) == 2
    assert errors[0] < errors[1]
    assert ends[1].state.memories.intact == BOTH


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"accepted": False}, "objectives: clients opened"),
        ({"objectives": replace(OBJECTIVES, dual=0.25)}, "objectives: clients opened"),
        (
            {"conjugates_and_products": encrypted(CIPHER, np.zeros(3), PRODUCT_FORMAT)},
            "conjugates_and_products: clients disagree",
        ),
    ],
)
def test_clients_that_disagree_on_what_all_must_find_are_refused(changes: dict[str, Any], reason: str) -> None:
    before, current = begun(state_after(3), 4)
    answers = primal_answers(current)
    answers[B] = replace(answers[B], **changes)
    with pytest.raises(InvalidInput, match=reason):
        ended(before, current, answers)


def test_the_gap_allows_for_every_rounding() -> None:
    """Two clients and three features with one holder each; three of five samples are shared by both.

    Inner products, two sums of losses, the Gram matrix, the model on record, and D's w, which is rounded once.
    """
    certificate = certified(OBJECTIVES, CorrectiveState(), settings=SETTINGS, layout=LAYOUT)
    model = math.sqrt(3) * HALF
    losses = 3 * 2 * HALF / 5 + OBJECTIVES.row_norm * model
    sums = (2.0 + 0.5) * 2 * HALF
    drift = 2 * model
    expected = losses + sums + 0.5 * (3.0 * drift + drift**2 / 2.0)
    assert certificate.gap_error == pytest.approx(expected, rel=1e-12)
    assert certificate.gap == 0.25 + certificate.gap_error
    assert (certificate.primal, certificate.dual, certificate.fit.accuracy) == (0.75, 0.5, 0.875)


def test_every_collapse_and_relative_round_widens_the_gap() -> None:
    """A collapse cuts α by up to 2^-32 a sample, which moves w by that times the mean row norm, divided by λ."""

    def error(state: CorrectiveState) -> float:
        return certified(OBJECTIVES, state, settings=SETTINGS, layout=LAYOUT).gap_error

    calm = error(CorrectiveState())
    relative = error(CorrectiveState(relative_rounds=1))
    collapsed = error(CorrectiveState(collapses=1))
    model, cut = math.sqrt(3) * HALF, 2 * HALF * OBJECTIVES.row_norm / 0.5
    assert relative - calm == pytest.approx(0.5 * 3.0 * model, rel=1e-6)
    assert collapsed - calm == pytest.approx(0.5 * 3.0 * (model + cut), rel=1e-6)


def test_a_squared_norm_that_rounding_put_below_zero_is_zero() -> None:
    objectives = Objectives(primal=1.0, dual=0.0, accuracy=0.5, squared_norm=-1e-12, row_norm=1.0)
    certificate = certified(objectives, CorrectiveState(), settings=SETTINGS, layout=LAYOUT)
    assert math.isfinite(certificate.gap)
