"""A party's book of HyFDCA: the contributions of which dual variables consist."""

import pytest

from fenchel_client.algorithms.hyfdca.book import (
    CHANGES,
    RESTATED,
)
from fenchel_common.algorithms.hyfdca.rounds import RESTATE_AFTER
from support.hyfdca_book import CLIENTS, SIZES, A, B, C, RecordedRun


def test_dual_variables_are_all_changes_of_the_parties_that_drew_the_block() -> None:
    run = RecordedRun()
    run.begin()
    run.phase("local_dual", CLIENTS)
    first = [run.origin(1, "local_dual", party, CHANGES) for party in (A, B)]
    assert run.book.alpha_of(0) == tuple(first)
    assert run.book.alpha_of(5) == (first[0],), "C has no labels"
    run.begin([B])
    run.phase("local_dual", [B])
    assert run.book.alpha_of(0) == (*first, run.origin(2, "local_dual", B, CHANGES))
    assert run.book.alpha_of(7) == (first[0],)
    assert run.book.alpha[0].version != run.book.alpha[7].version


def test_a_block_changes_if_all_give_their_changes_that_drew_from_it() -> None:
    run = RecordedRun()
    run.begin(share=0.3)
    drawn, shared = ({part.block for part in run.current.draws[party]} for party in (A, B))
    assert drawn - shared
    assert drawn & shared
    run.phase("local_dual", [A, C], left_out=[B])
    for block in SIZES:
        due = (run.origin(1, "local_dual", A, CHANGES),) if block in drawn - shared else ()
        assert run.book.alpha_of(block) == due


@pytest.mark.parametrize("openly", [True, False], ids=["openly", "by the record alone"])
def test_a_party_is_synced_if_the_changes_of_its_blocks_were_given_up(openly: bool) -> None:
    run = RecordedRun(B)
    run.begin()
    run.phase("local_dual", [B], left_out=[A] if openly else [])
    assert all(run.book.alpha_of(block) == () for block in (0, 1, 2))
    assert run.book.synced


def test_blocks_whose_inner_products_were_given_up_are_not_updated() -> None:
    run = RecordedRun()
    run.begin()
    run.phase("inner_product", [A, B], left_out=[C])
    assert {part.block for part in run.current.draws[A]} == set(SIZES) - {5}
    run.phase("local_dual", [A, B])
    assert run.book.alpha_of(5) == ()
    assert run.book.alpha_of(0)
    assert run.book.rounds_done == 0


def test_holders_of_a_block_agree_on_who_draws_it_and_on_its_dual_variables() -> None:
    ours, theirs = RecordedRun(A), RecordedRun(B)
    for run in (ours, theirs):
        run.begin(share=0.3)
    for party in (A, B):
        common = [part for part in ours.current.draws[party] if part.block in (0, 1, 2)]
        assert [part for part in theirs.current.draws[party] if part.block in (0, 1, 2)] == common
        assert common
    for run in (ours, theirs):
        run.phase("local_dual", [A, B])
    for block in (0, 1, 2):
        parties = [[origin.stamp.party for origin in run.book.alpha_of(block)] for run in (ours, theirs)]
        assert parties[0] == parties[1]


LONG = RESTATE_AFTER // 2
"""After so many rounds of A and B, their common blocks are due to be restated."""


def long_run() -> RecordedRun:
    run = RecordedRun()
    for _ in range(LONG):
        run.begin()
        run.phase("local_dual", CLIENTS)
    return run


def test_dual_variables_of_many_changes_are_stated_anew_and_their_version_stays() -> None:
    run = long_run()
    before = dict(run.book.alpha)
    run.begin(share=1e-4)
    assert not run.current.draws[A]
    assert not run.current.draws[B]
    assert run.book.blocks_restated_by(A) == (0, 1, 2), "the others have half as many changes"
    assert run.book.blocks_restated_by(B) == (), "A comes before B"
    run.phase("local_dual", CLIENTS)
    restated = run.origin(LONG + 1, "local_dual", A, RESTATED)
    for block in (0, 1, 2):
        assert run.book.alpha_of(block) == (restated,)
        assert run.book.alpha[block].version == before[block].version
    assert run.book.alpha[7] == before[7]
    run.begin()
    assert run.book.blocks_restated_by(A) == ()
    run.phase("local_dual", CLIENTS)
    last = [run.origin(LONG + 2, "local_dual", party, CHANGES) for party in (A, B)]
    assert run.book.alpha_of(0) == (restated, *last)


def test_changes_of_the_round_come_after_its_restatement() -> None:
    run = long_run()
    run.begin()
    run.phase("local_dual", CLIENTS)
    given = [run.origin(LONG + 1, "local_dual", *named) for named in ((A, RESTATED), (A, CHANGES), (B, CHANGES))]
    assert run.book.alpha_of(0) == tuple(given)


@pytest.mark.parametrize("away", ["not there", "failed before"])
def test_another_label_holder_states_dual_variables_anew_where_the_first_is_missing(away: str) -> None:
    run = long_run()
    run.begin([B, C] if away == "not there" else CLIENTS)
    if away == "failed before":
        run.phase("inner_product", [B, C], left_out=[A])
    assert run.book.blocks_restated_by(A) == ()
    assert run.book.blocks_restated_by(B) == (0, 1, 2)
    run.phase("local_dual", [B])
    fields = (RESTATED, CHANGES) if away == "not there" else (RESTATED,)
    assert run.book.alpha_of(0) == tuple(run.origin(LONG + 1, "local_dual", B, field) for field in fields)


def test_if_the_one_who_states_them_anew_fails_the_history_goes_on() -> None:
    run = long_run()
    before = run.book.alpha_of(0)
    run.begin()
    run.phase("local_dual", [B, C], left_out=[A])
    assert run.book.alpha_of(0) == before
    run.begin()
    assert run.book.blocks_restated_by(A) == (0, 1, 2)


def test_nothing_is_stated_anew_in_a_closing_round() -> None:
    run = long_run()
    run.begin(closing=True)
    assert run.book.blocks_restated_by(A) == ()
