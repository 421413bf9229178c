"""A party's book of HyFDCA: what a server may choose for a round, and when a party has what a certificate needs."""

from dataclasses import replace

import pytest

from fenchel_client.algorithms.hyfdca.gap import checked_gap
from fenchel_common.algorithms.hyfdca.messages import INNER_PRODUCT_AFTER, SYNC, Figures
from fenchel_common.algorithms.hyfdca.settings import HyfdcaSettings
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId
from fenchel_common.records import ROUND
from fenchel_common.wire.hyfdca_records import left_out_to_bytes, round_choices_to_bytes
from support.hyfdca_book import CLIENTS, SAMPLES, A, B, C, RecordedRun, layout, settings
from support.layouts import client_layout

NO_PRODUCTS = "products: a party that takes part has given none in this round"


def test_products_of_an_earlier_round_do_not_do_where_their_party_takes_part() -> None:
    run = RecordedRun()
    run.begin()
    run.phase("inner_product", CLIENTS)
    run.book.check_products([0, 5])
    run.begin()
    with pytest.raises(InvalidInput, match=NO_PRODUCTS):
        run.book.check_products([0])
    run.phase("inner_product", [A, C])
    run.book.check_products([5])
    with pytest.raises(InvalidInput, match=NO_PRODUCTS):
        run.book.check_products([0])


def test_products_from_the_end_of_the_round_before_do_not_do() -> None:
    run = RecordedRun(chosen=settings(second_inner_product=True))
    run.begin()
    run.phase(INNER_PRODUCT_AFTER, CLIENTS)
    run.begin()
    with pytest.raises(InvalidInput, match=NO_PRODUCTS):
        run.book.check_products([0])


def test_products_of_a_repeated_round_are_those_of_its_last_attempt() -> None:
    run = RecordedRun()
    run.begin()
    run.phase("inner_product", CLIENTS)
    run.attempt += 1
    run.begin(at=1)
    with pytest.raises(InvalidInput, match=NO_PRODUCTS):
        run.book.check_products([0])


@pytest.mark.parametrize("away", ["not there", "failed"])
def test_the_latest_products_of_a_party_that_takes_no_part_will_do(away: str) -> None:
    run = RecordedRun()
    run.begin()
    run.phase("inner_product", CLIENTS)
    run.begin([A, C] if away == "not there" else CLIENTS)
    run.phase("inner_product", [A, C], left_out=[] if away == "not there" else [B])
    run.book.check_products([0, 5])


def states_of_sync(*phases: str, contributors: list[ClientId]) -> list[bool]:
    """Whether A is synced: after the changes of a round, and after each of these phases, with a round for each."""
    run = RecordedRun()
    run.begin()
    run.phase("local_dual", CLIENTS)
    states = [run.book.synced]
    for phase in phases:
        if phase == SYNC:
            run.begin()
        run.phase(phase, contributors, left_out=[A] if A not in contributors else [])
        states.append(run.book.synced)
    return states


def test_a_party_is_synced_until_its_blocks_change_and_again_after_its_own_contribution() -> None:
    assert RecordedRun().book.synced, "all dual variables are zero"
    for phase in (SYNC, "primal"):
        assert states_of_sync(phase, contributors=[A]) == [False, True]
        assert states_of_sync(phase, SYNC, contributors=[B, C]) == [False, False, False]


def test_changes_of_samples_that_a_party_does_not_hold_leave_it_synced() -> None:
    for contributors, synced in (([B], True), ([A], False), ([A, B], False)):
        run = RecordedRun(C)
        run.begin()
        run.phase("local_dual", contributors)
        assert run.book.synced is synced, "B and C have no sample in common"


@pytest.mark.parametrize(
    ("participation", "active"),
    [("all", [A, B]), ("all", []), ("cyclic:2", [A, B, C]), ("cyclic:2", [B]), ("fraction:0.5", [])],
)
def test_who_updates_samples_follows_from_the_rule_of_participation(participation: str, active: list[ClientId]) -> None:
    run = RecordedRun(chosen=settings(participation=participation))
    with pytest.raises(InvalidInput, match="active: is not what the rule of participation gives"):
        run.begin(active=active)


def test_parties_that_are_not_there_are_missing_among_those_that_update_samples() -> None:
    run = RecordedRun(chosen=settings(participation="cyclic:2"))
    run.begin([B, C])
    assert run.current.rules.choices.active == {C}


def test_a_closing_round_is_the_last_and_comes_at_the_latest_after_the_rounds_that_were_agreed() -> None:
    run = RecordedRun(chosen=settings(stop={"rounds": 1}))
    run.begin()
    with pytest.raises(InvalidInput, match="closing: a round after the last one"):
        run.begin()
    run.begin(at=2, closing=True)
    with pytest.raises(InvalidInput, match="closing: no round follows a closing round"):
        run.begin(closing=True)


@pytest.mark.parametrize(
    ("available", "contributors", "left_out", "done"),
    [
        (CLIENTS, [A, B], [], True),
        (CLIENTS, CLIENTS, [], True),
        (CLIENTS, [A], [], False),
        (CLIENTS, [A], [B], False),
        (CLIENTS, [A, B], [C], False),
        ([A, B], [A, B], [], False),
    ],
)
def test_rounds_count_that_have_the_steps_of_everybody(
    available: list[ClientId], contributors: list[ClientId], left_out: list[ClientId], done: bool
) -> None:
    run = RecordedRun()
    run.begin(available)
    run.phase("local_dual", contributors, left_out=left_out)
    assert run.book.rounds_done == done
    run.begin()
    run.phase("local_dual", [A, B])
    assert run.book.rounds_done == done + 1


def test_parties_whose_turn_it_is_not_are_not_missed_and_closing_rounds_do_not_count() -> None:
    run = RecordedRun(chosen=settings(participation="cyclic:2"))
    run.begin()
    run.phase("local_dual", [A])
    run.begin([B, C])
    run.phase("local_dual", [B])
    assert run.book.rounds_done == 2
    run.begin(closing=True)
    run.phase("local_dual", CLIENTS)
    assert run.book.rounds_done == 2


@pytest.mark.parametrize("failed", [[], [B]], ids=["nobody fails", "one that is not to update fails"])
def test_a_round_in_which_anybody_fails_is_not_done(failed: list[ClientId]) -> None:
    """Blocks of the one that failed are not updated, though it is not its turn to update them."""
    run = RecordedRun(chosen=settings(participation="cyclic:2", certificate_every=2))
    run.begin(at=2)
    assert run.current.rules.choices.active == set()
    run.phase("inner_product", [party for party in CLIENTS if party not in failed], left_out=failed)
    run.phase("local_dual", [party for party in CLIENTS if party not in failed])
    assert run.book.rounds_done == (not failed)


def test_without_figures_to_open_only_those_go_on_that_update_samples() -> None:
    run = RecordedRun(chosen=settings(certificate_every=2))
    run.begin(at=2)
    run.phase("local_dual", CLIENTS)
    assert run.current.present == set(CLIENTS)
    in_turn = RecordedRun(chosen=settings(participation="cyclic:2", certificate_every=2))
    in_turn.begin([A, B], at=2)
    assert in_turn.current.present == {A, B}
    in_turn.phase("local_dual", [A, B])
    assert in_turn.current.present == set(), "nobody updates samples in a round that only measures"


def test_from_one_state_a_party_contributes_in_the_company_of_those_that_take_part() -> None:
    """A round that is void or begun anew begins from the same state; a phase that counts makes another one."""
    own = client_layout(
        {0: 30}, slots=30, clients=CLIENTS, label_holders={A, B}, sample_count=SAMPLES, holders={0: CLIENTS}
    )
    run = RecordedRun(own=own)
    run.begin()
    first = run.book.company("inner_product")
    assert first is not None
    assert run.book.company("primal") is None, "it holds no features"
    run.phase("inner_product", [A, B], left_out=[C])
    assert run.book.company("inner_product") is None, "it is over"
    run.begin([A, B])
    second = run.book.company("inner_product")
    assert second is not None
    assert second.state == first.state
    assert second.members != first.members
    run.begin(at=2)
    assert run.book.company("inner_product") == first
    run.phase("inner_product", CLIENTS)
    assert run.book.company("local_dual") == first
    run.begin()
    third = run.book.company("inner_product")
    assert third is not None
    assert third.state != first.state


def test_blocks_of_two_holders_have_no_company() -> None:
    run = RecordedRun()
    run.begin()
    assert all(run.book.company(phase) is None for phase in ("inner_product", "local_dual", "primal", "average"))


def test_a_record_has_its_choices_in_one_form_and_the_beginning_of_a_round_no_contributors() -> None:
    run = RecordedRun()
    run.begin()
    choices = round_choices_to_bytes(run.current.rules.choices, CLIENTS)
    assert left_out_to_bytes([], CLIENTS) == b""
    for phase, longer in ((ROUND, choices + b"\x18\x00"), (SYNC, b"\x0a\x00")):
        with pytest.raises(InvalidInput, match="choices: are not in the one form"):
            run.take(phase, choices=longer)
    with pytest.raises(InvalidInput, match="record: the beginning of a round has no contributors"):
        run.take(ROUND, [A], choices)


TIGHT = Figures(mean_loss=0.25, mean_conjugate=-0.5, accuracy=0.9, regulariser=0.125)


@pytest.mark.parametrize("features", [10, 2_000_000])
def test_a_gap_is_negative_by_rounding_at_most(features: int) -> None:
    chosen = HyfdcaSettings.parse({"local": "paper"})
    known = layout()
    alone, *shared = known.features_by_holders
    more = features - known.feature_count
    own = replace(known, feature_count=features, features_by_holders=(alone + more, *shared))
    assert checked_gap(TIGHT, settings=chosen, layout=own) == 0.0
    for off, fits in ((1e-6, True), (1e-3, False), (1.0, False)):
        lower = replace(TIGHT, mean_loss=TIGHT.mean_loss - off)
        if fits:
            assert checked_gap(lower, settings=chosen, layout=own) == pytest.approx(-off)
        else:
            with pytest.raises(InvalidInput, match="totals: the primal objective is below the dual one"):
                checked_gap(lower, settings=chosen, layout=own)
