"""A party's book of a corrective run: the contributions of which each sum consists, and the origins of what is kept."""

import pytest

from fenchel_client.algorithms.corrective.book import LOST, one_of
from fenchel_client.algorithms.duals import NORMS
from fenchel_client.crypto.stamps import Origin
from fenchel_common.ids import ClientId
from support.corrective import PHASES
from support.corrective_story import ALL, CLIENTS, PAIR, C, Story, layout, refuses
from support.layouts import A, B

NOBODY: frozenset[ClientId] = frozenset()


def test_norms_and_products_are_sums_over_all_holders_and_points_over_those_with_labels() -> None:
    story = Story(layout(labelled={B, C}))
    story.begin(1, collapse=True)
    products = story.tell(1, "inner_product", ALL)
    duals = story.tell(1, "local_dual", ALL)
    book = story.book
    assert book.norm_origins(2) == [Origin(story.preparations[client], NORMS) for client in CLIENTS]
    assert book.norm_origins(0) == [Origin(story.preparations[A], NORMS)]
    of_products = book.of_holders(book.products, "vertex")
    assert of_products(1) == [Origin(products[client], "vertex") for client in (A, B)]
    of_points = book.of_holders(book.duals, "point", labelled=True)
    assert of_points(2) == [Origin(duals[client], "point") for client in (B, C)]
    assert of_points(0) == []


def test_gram_parts_and_figures_are_sums_over_all_participants_of_the_round() -> None:
    story = Story()
    story.begin(1, PAIR, collapse=True, live_samples=6)
    products, duals = (story.tell(1, phase, PAIR) for phase in PHASES[:2])
    assert story.book.of_all(story.book.products, "gram") == [Origin(products[one], "gram") for one in (A, B)]
    assert story.book.of_all(story.book.duals, "figures") == [Origin(duals[one], "figures") for one in (A, B)]


def test_a_sum_that_lacks_a_contributor_has_no_origins() -> None:
    story = Story()
    story.begin(1, collapse=True)
    story.tell(1, "inner_product", PAIR)
    book = story.book
    refuses(lambda: book.of_all(book.products, "gram"), "the contribution of c is missing")
    refuses(lambda: book.of_holders(book.products, "point")(2), "the contribution of c is missing")
    assert len(book.of_holders(book.products, "point")(1)) == 2


def test_pending_points_are_sums_over_the_holders_of_a_feature_that_took_part() -> None:
    story = Story()
    given = story.round(1, PAIR, live_samples=6)["primals"]
    story.begin(2, PAIR, live_samples=6)
    book = story.book
    origins = book.of_feature_holders(book.pending, "point")
    assert origins(0) == [Origin(given[A], "point")]
    assert origins(1) == [Origin(given[A], "point"), Origin(given[B], "point")]
    assert origins(4) == [Origin(given[A], "point")]
    assert book.of_stored("conjugates_and_products") == [
        Origin(given[client], "conjugates_and_products") for client in (A, B)
    ]


def test_after_a_primal_that_a_party_failed_no_points_go_on() -> None:
    story = Story()
    story.round(1, failing=[B])
    refuses(lambda: story.book.of_stored("conjugates_and_products"), "the contribution of b is missing")


def test_accepted_dual_variables_are_the_anchor_by_reporter_and_first_holder() -> None:
    story = Story()
    given = story.round(1)["duals"]
    book = story.book
    assert book.anchor_round == 1
    assert book.alpha == {block: Origin(given[A], "alpha") for block in (0, 1, 2)}
    assert book.weights == {block: Origin(given[A], "weights") for block in (0, 1, 4)}


def test_the_reporter_of_a_block_is_its_first_holder_with_labels() -> None:
    story = Story(layout(labelled={B, C}))
    refuses(lambda: story.round(1), "no label holder")
    story = Story(layout(labelled={A, C}))
    given = story.round(1, frozenset({A, C}), live_samples=3)["duals"]
    assert story.book.alpha == {0: Origin(given[A], "alpha")}


def test_dual_variables_that_were_not_accepted_leave_the_anchor() -> None:
    story = Story()
    story.round(1)
    before = story.book
    given = story.round(2, accepted=False)
    book = story.book
    assert (book.anchor_round, book.alpha, book.weights) == (1, before.alpha, before.weights)
    assert book.model == {block: Origin(given["primals"][A], "model") for block in (0, 1, 4)}
    assert book.stored == (2, ALL)


def test_blocks_without_a_participant_keep_their_anchor_and_their_weights_in_the_model() -> None:
    story = Story()
    first = story.round(1)
    away = frozenset({B, C})
    second = story.round(2, away, collapse=True, live_samples=4)
    assert story.book.alpha == {block: Origin(first["duals"][A], "alpha") for block in (0, 1, 2)}
    assert story.book.weights == {
        0: Origin(first["duals"][A], "weights"),
        1: Origin(second["duals"][B], "weights"),
        4: Origin(second["duals"][C], "weights"),
    }
    third = story.round(3, away, live_samples=4)
    best = {block: Origin(first["primals"][A], "model") for block in (0, 1, 4)}
    assert story.book.model == best, "P is not known"
    assert story.book.released == {
        0: Origin(first["primals"][A], "model"),
        1: Origin(third["primals"][B], "model"),
        4: Origin(third["primals"][C], "model"),
    }
    fourth = story.round(4, collapse=True)
    assert story.book.model == story.book.released
    assert story.book.model == {block: Origin(fourth["primals"][A], "model") for block in (0, 1, 4)}


def test_a_best_model_that_was_not_reported_stays_the_one_before() -> None:
    story = Story()
    story.round(1)
    before = story.book.model
    given = story.round(2, failing=[A], reported=False)
    assert story.book.model == before
    assert story.book.anchor_round == 2
    assert story.book.pending == given["primals"]


def test_a_reported_model_needs_all_who_report_on_it() -> None:
    story = Story()
    refuses(lambda: story.round(1, failing=[A]), "the contribution of a is missing")


def test_a_closing_round_changes_the_best_model_alone() -> None:
    story = Story()
    story.round(1)
    before = story.book
    given = story.round(2, closing=True)["primals"]
    book = story.book
    assert book.model == {block: Origin(given[A], "model") for block in (0, 1, 4)}
    assert (book.anchor_round, book.alpha, book.weights) == (1, before.alpha, before.weights)
    assert (book.pending, book.stored, book.memory) == (before.pending, before.stored, before.memory)
    assert book.certified == given[A].nonce


@pytest.mark.parametrize("told", range(4), ids=["begun", "products", "duals", "nobody in primal"])
def test_a_void_round_changes_nothing(told: int) -> None:
    story = Story()
    story.round(1)
    before = story.book
    story.begin(2)
    for phase in PHASES[: min(told, 2)]:
        story.tell(2, phase, ALL)
    if told == 3:
        story.primal(2, NOBODY, accepted=False, reported=False)
    story.begin(3, collapse=True)
    names = ("pending", "stored", "memory", "anchor_round", "alpha", "weights", "model")
    assert all(getattr(story.book, name) == getattr(before, name) for name in names)
    assert (story.book.products, story.book.duals) == ({}, {})


def test_contributors_to_primal_are_participants_and_all_participants_have_combined() -> None:
    story = Story()
    story.begin(1, PAIR, collapse=True, live_samples=6)
    for phase in PHASES[:2]:
        story.tell(1, phase, PAIR)
    refuses(lambda: story.primal(1, ALL, accepted=True, reported=True), "must be participants")
    story.begin(2, collapse=True)
    story.tell(2, "inner_product", ALL)
    story.tell(2, "local_dual", PAIR)
    refuses(lambda: story.primal(2, PAIR, accepted=True, reported=True), "all must have combined")


def test_the_memory_is_that_of_the_last_answer_and_lost_if_that_does_not_count() -> None:
    story = Story()
    assert story.book.memory == b""
    first = story.round(1)["primals"][A]
    assert (story.book.memory, story.book.certified) == (first.nonce, first.nonce)
    story.round(2, failing=[A], reported=False)
    assert (story.book.memory, story.book.certified) == (LOST, b"")
    third = story.round(3, collapse=True)["primals"][A]
    assert (story.book.memory, story.book.certified) == (third.nonce, third.nonce)
    story.round(4, reported=False)
    assert (story.book.memory, story.book.certified) == (LOST, b"")
    story.round(5, collapse=True)
    story.round(6, frozenset({B, C}), collapse=True, live_samples=4)
    assert (story.book.memory, story.book.certified) == (LOST, b"")


def test_a_certificate_is_that_of_the_newest_round_alone() -> None:
    story = Story()
    story.round(1)
    assert story.book.certified
    story.begin(2)
    assert not story.book.certified


def test_a_round_is_done_if_everybody_contributed_to_its_end() -> None:
    story = Story()
    story.round(1)
    assert story.book.rounds_done == 1
    story.round(2, failing=[C])
    story.round(3, PAIR, collapse=True, live_samples=6)
    assert story.book.rounds_done == 1
    story.round(4, collapse=True, accepted=False)
    assert story.book.rounds_done == 2
    story.round(5, closing=True)
    assert story.book.rounds_done == 2


def test_no_round_follows_a_closing_one() -> None:
    story = Story()
    story.round(1, closing=True)
    refuses(lambda: story.begin(2, collapse=True), "follows the one that was to be the last")


@pytest.mark.parametrize("phase", PHASES[:2])
def test_a_phase_without_choices_has_none_on_record(phase: str) -> None:
    story = Story()
    story.begin(1, collapse=True)
    for before in PHASES[: PHASES.index(phase)]:
        story.tell(1, before, ALL)
    refuses(lambda: story.tell(1, phase, ALL, b"anything"), "nothing to choose")


def test_a_book_is_left_as_it_was_by_the_records_after_it() -> None:
    story = Story()
    story.round(1)
    kept, model = story.book, dict(story.book.model)
    story.round(2)
    assert kept.stored == (1, ALL)
    assert kept.model == model
    assert story.book.model != model


def test_a_block_without_an_origin_is_zero() -> None:
    story = Story()
    given = story.round(1)["primals"]
    origins = one_of(story.book.model)
    assert (origins(4), origins(7)) == ([Origin(given[A], "model")], [])
