"""A party's book of a corrective run: its plan of each round, and the choices of the server that it does not admit."""

from dataclasses import replace

import numpy as np
import pytest

from fenchel_client.algorithms.corrective.book import CorrectiveBook
from fenchel_client.crypto.stamps import Origin
from fenchel_client.transcript import StampedRecord
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.records import ROUND, Moment
from fenchel_common.setup import LAYOUT
from support.corrective import PHASES
from support.corrective_story import ALL, CLIENTS, PAIR, SETTINGS, C, Story, layout, refuses
from support.layouts import A, B, client_layout


def test_the_plan_of_a_round_of_all_follows_from_the_layout() -> None:
    story = Story()
    story.begin(1, collapse=True)
    plan = story.book.required_plan()
    assert (plan.round_id, plan.participants, plan.live_samples) == (1, ALL, 9)
    assert (plan.collapse, plan.closing, plan.complete) == (True, False, True)
    assert (plan.live_blocks, plan.divisors, plan.scale) == ((0, 1, 2), (1, 2, 3), 9 / 5)
    assert (plan.report_blocks, plan.feature_blocks) == ((0, 1, 2), (0, 1, 4))
    assert not plan.tells_vertices
    assert plan.blank


@pytest.mark.parametrize(("accepted", "reported"), [(False, False), (True, False), (False, True)])
def test_nothing_is_on_record_until_a_model_was_reported_or_accepted(*, accepted: bool, reported: bool) -> None:
    story = Story()
    story.round(1, accepted=accepted, reported=reported)
    assert story.book.blank != (accepted or reported)


def test_a_party_knows_of_models_on_record_of_which_it_has_no_part() -> None:
    story = Story()
    story.round(1, frozenset({B, C}), collapse=True, live_samples=4)
    assert not story.book.blank


def test_without_a_party_only_blocks_of_the_others_are_live_and_nothing_is_told_in_clear() -> None:
    story = Story(layout(labelled={B, C}))
    story.begin(2, PAIR, collapse=True, live_samples=6)
    plan = story.book.required_plan()
    assert (plan.complete, plan.objectives, plan.tells_vertices) == (False, False, True)
    assert (plan.live_blocks, plan.divisors, plan.scale) == ((0, 1), (0, 1), 6 / 4)
    assert (plan.report_blocks, plan.feature_blocks) == ((), (0, 1, 4))


def test_objectives_are_told_in_rounds_of_all_that_are_due_or_closing() -> None:
    story = Story()
    told = []
    for round_id in range(1, 5):
        story.round(round_id)
        told.append(story.book.required_plan().objectives)
    assert told == [False, True, False, True]
    story.begin(5, closing=True)
    assert story.book.required_plan().objectives


def test_a_party_that_does_not_take_part_has_no_plan_and_still_knows_what_changed() -> None:
    story = Story()
    story.round(1)
    given = story.round(2, frozenset({B, C}), collapse=True, live_samples=4)
    refuses(story.book.required_plan, "does not take part")
    assert story.book.weights[1] == Origin(given["duals"][B], "weights")
    assert story.book.stored == (2, frozenset({B, C}))


@pytest.mark.parametrize(
    ("among", "live_samples"), [(ALL, 8), (ALL, 10), (PAIR, 3), (PAIR, 10)], ids=["few", "many", "too few", "too many"]
)
def test_a_number_of_live_samples_that_cannot_be_is_refused(among: frozenset[ClientId], live_samples: int) -> None:
    story = Story()
    refuses(lambda: story.begin(1, among, collapse=True, live_samples=live_samples), "live_samples")


def test_participants_none_of_whose_samples_are_live_are_refused() -> None:
    story = Story(client_layout({1: 2}, slots=2, clients=CLIENTS, sample_count=9, holders={1: (A, B)}))
    refuses(lambda: story.begin(1, frozenset({A, C}), collapse=True, live_samples=4), "live_samples")


def test_only_the_participants_of_the_round_before_go_on_without_a_collapse() -> None:
    story = Story()
    refuses(lambda: story.begin(1), "without a collapse")
    story.round(1)
    refuses(lambda: story.begin(2, PAIR, live_samples=6), "without a collapse")
    story.begin(2)
    refuses(lambda: story.begin(3), "without a collapse")
    story.round(3, collapse=True)
    story.begin(4)


def test_every_party_must_have_answered_to_its_layout() -> None:
    book = CorrectiveBook(layout(), SETTINGS)
    record = StampedRecord(Moment(1, RoundId(0), LAYOUT), Story().tell(0, LAYOUT, ALL), b"")
    refuses(lambda: book.after(replace(record, stamps={A: record.stamps[A]})), "every party")


@pytest.mark.parametrize(
    ("told", "next_one"),
    [
        ((), "inner_product"),
        ((), "local_dual"),
        ((ROUND,), "primal"),
        ((ROUND,), "sync"),
        ((ROUND, "inner_product"), "inner_product"),
        ((ROUND, "inner_product"), "primal"),
        ((ROUND, "inner_product", "local_dual"), "inner_product"),
        ((ROUND, "inner_product", "local_dual"), "local_dual"),
        ((ROUND, *PHASES), "inner_product"),
        ((ROUND, *PHASES), "local_dual"),
        ((ROUND, *PHASES), "primal"),
    ],
)
def test_phases_come_in_order_and_once(told: tuple[str, ...], next_one: str) -> None:
    story = Story()
    for phase in told:
        if phase == ROUND:
            story.begin(1, collapse=True)
        else:
            story.tell(1, phase, ALL)
    refuses(lambda: story.tell(1, next_one, ALL), f"no phase '{next_one}' here")


def test_choices_that_are_no_message_are_refused() -> None:
    story = Story()
    refuses(lambda: story.tell(1, ROUND, choices=b"\xff\xff"), "cut or altered")
    story.begin(1, collapse=True)
    for phase in PHASES[:2]:
        story.tell(1, phase, ALL)
    refuses(lambda: story.tell(1, "primal", ALL, b"\xff\xff"), "cut or altered")


def test_rows_are_whole_where_samples_are_held_alone_and_no_feature_is_missing() -> None:
    """Who else holds the party's features does not matter: others may hold features that it does not have."""

    def whole(samples: tuple[ClientId, ...], features: tuple[ClientId, ...], *, feature_count: int = 1) -> bool:
        own = client_layout(
            {0: 2},
            slots=2,
            clients=CLIENTS,
            holders={0: samples},
            feature_blocks={0: np.array([0])},
            feature_holders={0: features},
            feature_count=feature_count,
        )
        return CorrectiveBook(own, SETTINGS).whole_rows

    assert whole((A,), CLIENTS)
    assert not whole((A, B), CLIENTS)
    assert whole((A,), (A, B))
    assert not whole((A,), CLIENTS, feature_count=2)
