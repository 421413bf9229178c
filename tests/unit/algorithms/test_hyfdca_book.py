"""A party's book of HyFDCA: which contributions each sum must consist of, by the records alone."""

import numpy as np
import pytest

from fenchel_client.algorithms.hyfdca.book import CONTRIBUTION, FIGURES, PRODUCTS
from fenchel_client.algorithms.hyfdca.roundonrecord import step_rule_of
from fenchel_client.crypto.stamps import JointPhase, Origin
from fenchel_common.algorithms.hyfdca.messages import INNER_PRODUCT_AFTER, SYNC
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId
from fenchel_common.records import seed_to_bytes
from fenchel_common.setup import LAYOUT
from support.hyfdca_book import CLIENTS, HELD, SAMPLES, SIZES, A, B, C, RecordedRun, layout, settings
from support.layouts import client_layout


def test_norms_are_the_preparations_of_all_holders() -> None:
    run = RecordedRun()
    assert run.book.norms_of(0) == [run.origin(0, LAYOUT, party, "norms") for party in (A, B)]
    assert run.book.norms_of(5) == [run.origin(0, LAYOUT, party, "norms") for party in (A, C)]


def test_a_record_of_the_layout_that_lacks_a_party_is_refused() -> None:
    run = RecordedRun()
    with pytest.raises(InvalidInput, match="record: every party must have answered to its layout"):
        run.take(LAYOUT, [A, B], seed_to_bytes(0))


def test_products_are_the_latest_that_each_holder_gave_and_none_before_its_first() -> None:
    run = RecordedRun(chosen=settings(participation="cyclic:2"))
    assert run.book.products_of(0) == []
    run.begin([A, C])
    run.phase("inner_product", [A, C])
    assert run.book.products_of(0) == [run.origin(1, "inner_product", A, PRODUCTS)]
    run.phase(INNER_PRODUCT_AFTER, [A, C])
    run.begin([B])
    run.phase("inner_product", [B])
    assert run.book.products_of(0) == [
        run.origin(1, INNER_PRODUCT_AFTER, A, PRODUCTS),
        run.origin(2, "inner_product", B, PRODUCTS),
    ]
    assert run.book.products_of(5) == [run.origin(1, INNER_PRODUCT_AFTER, party, PRODUCTS) for party in (A, C)]


def test_products_of_a_block_are_given_up_if_a_holder_fails() -> None:
    run = RecordedRun()
    run.begin()
    run.phase("inner_product", CLIENTS)
    run.begin()
    run.phase("inner_product", [A, B], left_out=[C])
    assert run.book.products_of(0) == [run.origin(2, "inner_product", party, PRODUCTS) for party in (A, B)]
    assert run.book.products_of(5) == [run.origin(1, "inner_product", party, PRODUCTS) for party in (A, C)]


def test_a_full_round_without_a_certificate_gives_products_of_drawn_blocks_alone() -> None:
    run = RecordedRun()
    run.begin()
    run.phase("inner_product", CLIENTS)
    run.begin(share=1e-4)
    drawn = {part.block for ranges in run.current.draws.values() for part in ranges}
    assert not drawn.intersection(HELD)
    assert run.book.blocks_asked_in("inner_product") == ()
    run.begin(share=0.2)
    drawn = {part.block for ranges in run.current.draws.values() for part in ranges}
    asked = run.book.blocks_asked_in("inner_product")
    assert set(asked) == drawn.intersection(HELD)
    assert asked != tuple(HELD)
    run.phase("inner_product", CLIENTS)
    for block in HELD:
        assert run.book.products_of(block)[0].stamp.moment.round == (3 if block in asked else 1)


@pytest.mark.parametrize("incomplete", ["missing", "left out", "certificate", "partial"])
def test_other_rounds_give_products_of_all_shared_blocks(incomplete: str) -> None:
    partial = "cyclic:2" if incomplete == "partial" else "all"
    run = RecordedRun(chosen=settings(participation=partial, certificate_every=1 if incomplete == "certificate" else 0))
    run.begin([A, B] if incomplete == "missing" else CLIENTS, share=1e-4)
    if incomplete == "left out":
        run.phase(SYNC, [], left_out=[B])
    assert run.book.blocks_asked_in("inner_product") == tuple(HELD)


def features_of(run: RecordedRun) -> list[Origin]:
    return run.book.entered_model_of(3)


def with_features() -> RecordedRun:
    """A holds one block of features together with all others."""
    return RecordedRun(
        own=client_layout(
            SIZES,
            slots=30,
            clients=CLIENTS,
            label_holders={A, B},
            sample_count=SAMPLES,
            holders=HELD,
            feature_blocks={3: np.array([0])},
            feature_holders={3: CLIENTS},
        )
    )


def test_the_model_that_entered_a_round_is_made_of_the_latest_contributions_of_its_beginning() -> None:
    run = with_features()
    run.begin()
    assert features_of(run) == []
    run.phase("primal", CLIENTS)
    assert features_of(run) == []
    first = [run.origin(1, "primal", party, CONTRIBUTION) for party in CLIENTS]
    assert run.book.latest_model_of(3) == first
    run.begin([B, C])
    assert features_of(run) == first
    run.phase("primal", [B, C])
    assert features_of(run) == first
    second = [first[0], *(run.origin(2, "primal", party, CONTRIBUTION) for party in (B, C))]
    assert run.book.latest_model_of(3) == second
    run.begin()
    run.phase("primal", [A, C], left_out=[B])
    assert run.book.latest_model_of(3) == second, "what A and C gave has masks with B"


def test_masks_with_a_party_follow_from_the_last_phase_in_which_both_contributed() -> None:
    run = with_features()
    run.begin([A, B])
    assert run.book.among("primal")(3, CLIENTS) == {A: None, B: None}
    run.phase("primal", [A, B])
    stamp = run.stamps[1, "primal", B]
    first = JointPhase(stamp.moment, stamp.view, (A, B))
    run.begin([A, C])
    assert run.book.among("primal")(3, CLIENTS) == {A: None, B: first, C: None}
    run.phase("primal", [C], left_out=[A])
    run.begin([A])
    assert run.book.among("primal")(3, CLIENTS) == {A: None, B: first}, "A and C have never both contributed"
    run.phase("primal", [A])
    run.begin([B, C])
    run.phase("primal", [B, C])
    run.begin([A, C])
    run.phase("primal", [A, C])
    stamp = run.stamps[5, "primal", C]
    run.begin()
    run.phase(SYNC, [A, C], left_out=[B])
    second = JointPhase(stamp.moment, stamp.view, (A, C))
    assert run.book.contributions.joint == {(3, B): first, (3, C): second}
    assert run.book.among("primal")(3, CLIENTS) == {A: None, B: first, C: None}


def test_changes_have_masks_among_those_that_draw_from_a_block() -> None:
    run = RecordedRun()
    run.begin()
    among = run.book.among("local_dual")
    assert among(0, (A, B)) == {A: None, B: None}
    assert among(5, (A, C)) == {A: None}, "C has no labels"


def test_a_contribution_in_sync_is_part_of_the_model_that_enters_the_round() -> None:
    run = with_features()
    run.begin([A, B])
    run.phase("primal", [A, B])
    run.begin([A])
    run.phase(SYNC, [A])
    assert features_of(run) == [run.origin(2, SYNC, A, CONTRIBUTION), run.origin(1, "primal", B, CONTRIBUTION)]


def test_figures_are_those_of_all_parties_or_none() -> None:
    run = RecordedRun(chosen=settings(certificate_every=1))
    run.begin()
    assert run.current.figures == ()
    run.phase("local_dual", CLIENTS)
    assert run.current.figures == tuple(run.origin(1, "local_dual", party, FIGURES) for party in CLIENTS)
    run.begin()
    assert run.current.figures == ()
    run.phase("local_dual", [A, B], left_out=[C])
    assert run.current.figures == ()
    run.begin([A, B])
    run.phase("local_dual", [A, B])
    assert run.current.figures == ()
    run.begin()
    run.phase("inner_product", [A, B], left_out=[C])
    run.phase("local_dual", [A, B])
    assert run.current.figures == ()


def test_a_round_without_a_certificate_has_no_figures_unless_h_follows_the_dual_objective() -> None:
    for chosen, due in ((settings(), False), (settings(local="paper"), True), (settings(local="paper", h=5), False)):
        run = RecordedRun(chosen=chosen)
        own = int(run.book.layout.block_sizes.sum())
        run.begin(share=5 / own if chosen.h == 5 else 1.0, proportional=chosen.local == "theory")
        run.phase("local_dual", CLIENTS)
        assert bool(run.current.figures) is due


@pytest.mark.parametrize(("contributors", "left_out"), [([A, C], []), ([A], [C]), ([A], [A]), ([], [A, B, C])], ids=str)
def test_a_record_that_names_parties_which_do_not_take_part_is_refused(
    contributors: list[ClientId], left_out: list[ClientId]
) -> None:
    run = RecordedRun()
    run.begin([A, B])
    with pytest.raises(InvalidInput, match="parties: a phase has contributors and failed parties among those"):
        run.phase("local_dual", contributors, left_out=left_out)


def test_a_party_that_failed_a_phase_is_out_for_the_rest_of_the_round() -> None:
    run = RecordedRun()
    run.begin()
    run.phase("inner_product", [A, C], left_out=[B])
    with pytest.raises(InvalidInput, match="parties: "):
        run.phase("local_dual", [A, B])
    run.phase("local_dual", [A])
    run.begin()
    run.phase("local_dual", [A, B])


def test_phases_have_one_order_and_each_comes_once_in_a_round() -> None:
    run = RecordedRun()
    with pytest.raises(InvalidInput, match="phase: local_dual cannot follow here"):
        run.phase("local_dual", [A])
    run.begin()
    run.phase("local_dual", [A])
    for phase in ("local_dual", "inner_product", SYNC):
        with pytest.raises(InvalidInput, match=f"phase: {phase} cannot follow here"):
            run.phase(phase, [A])
    with pytest.raises(InvalidInput, match="has no phase 'average'"):
        run.phase("average", [A])


def test_only_active_parties_work_in_a_round_without_a_certificate_and_all_available_ones_with_one() -> None:
    run = RecordedRun(chosen=settings(participation="cyclic:2", certificate_every=2))
    run.begin([A, B])
    assert run.current.present == {A}
    run.begin([A, B])
    assert run.current.rules.choices.active == set()
    assert run.current.present == {A, B}
    run.begin([A, B])
    assert run.current.present == {B}, "the round of the certificate was nobody's turn"


def test_the_share_that_the_settings_fix_is_not_the_servers_to_choose() -> None:
    own = sum(SIZES.values())
    run = RecordedRun(chosen=settings(h=12))
    run.begin(share=12 / own)
    with pytest.raises(InvalidInput, match="shares: this party's share is not the one that h gives"):
        run.begin(share=1 / own)
    half = RecordedRun(chosen=settings(h=0.5))
    half.begin(share=0.5)
    with pytest.raises(InvalidInput, match="shares: "):
        half.begin(share=0.6)


def test_divisors_count_label_holders_and_only_active_ones_if_sets_take_turns() -> None:
    run = RecordedRun()
    run.begin([A])
    assert [run.book.divisor(block) for block in (0, 5, 7)] == [2, 1, 1]
    in_turn = RecordedRun(chosen=settings(participation="cyclic:2"))
    in_turn.begin()
    assert [in_turn.book.divisor(block) for block in (0, 5, 7)] == [1, 1, 1]


def test_steps_are_scaled_as_the_theorem_says_where_a_party_can_know_it() -> None:
    shared = layout()
    alone = client_layout({0: 5}, slots=30, clients=CLIENTS, sample_count=SAMPLES)
    everywhere = client_layout({0: 5}, slots=30, clients=CLIENTS, holders={0: CLIENTS})
    theory, in_turn = settings(), settings(participation="cyclic:2")
    paper = settings(local="paper")
    assert step_rule_of(theory, shared, proportional=True).proportional
    for proportional in (True, False):
        assert step_rule_of(theory, alone, proportional=proportional).proportional is proportional
    assert step_rule_of(in_turn, everywhere, proportional=False).diminishing
    assert not step_rule_of(in_turn, shared, proportional=True).diminishing
    assert not step_rule_of(paper, everywhere, proportional=False).diminishing
    for chosen, own, proportional in (
        (theory, shared, False),
        (in_turn, everywhere, True),
        (paper, shared, True),
        (paper, alone, True),
    ):
        with pytest.raises(InvalidInput, match="proportional: "):
            step_rule_of(chosen, own, proportional=proportional)


def test_the_scale_of_steps_cannot_change_from_round_to_round() -> None:
    own = client_layout({0: 5}, slots=30, clients=CLIENTS, label_holders={A, B}, sample_count=SAMPLES)
    run = RecordedRun(own=own)
    run.begin(proportional=False)
    with pytest.raises(InvalidInput, match="proportional: must be the same in all rounds"):
        run.begin(proportional=True)
