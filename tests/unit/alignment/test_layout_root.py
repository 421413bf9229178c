"""The root of a layout: every party computes the same one, and it follows from every part of the layout."""

from dataclasses import replace

import numpy as np
import pytest

from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId
from fenchel_common.layout import MAX_FEATURES
from fenchel_common.layoutroot import Cohort, OpenedCohort, layout_root
from fenchel_server.cohorts import Alignment, OverlapRule, lay_out
from fenchel_server.holdings import Holding
from support.layouts import client_layout, small_client_layout

A, B, C = ClientId("a"), ClientId("b"), ClientId("c")
COHORT = Cohort(features=False, holders=(A, B), blocks=(1, 4), sizes=(2, 1))


def laid_out() -> Alignment:
    def holding(client: ClientId, samples: str, features: str, *, labels: bool = True) -> Holding:
        return Holding(client, tuple(letter.encode() * 32 for letter in samples), tuple(features), labels)

    holdings = [holding(A, "uvwxyz", "pq"), holding(B, "zyxwvst", "rs", labels=False), holding(C, "st", "pq")]
    return lay_out(holdings, slots=2, feature_slots=2, seed=0, overlap=OverlapRule.ERROR)


def test_every_party_computes_the_same_root_from_its_own_part() -> None:
    roots = {layout.root for layout in laid_out().clients.values()}
    assert len(roots) == 1


def test_a_party_gets_the_leaves_of_all_cohorts_and_opens_its_own_alone() -> None:
    alignment = laid_out()
    cohorts = {block.holders for block in alignment.federation.blocks}
    features = set(alignment.federation.feature_index.holders)
    for client, layout in alignment.clients.items():
        assert len(layout.leaves) == len(cohorts) + len(features)
        assert all(client in opened.cohort.holders for opened in layout.cohorts)
        own = {opened.cohort.holders for opened in layout.cohorts if not opened.cohort.features}
        assert own == {holders for holders in cohorts if client in holders}


def test_the_same_holdings_have_another_root_in_the_next_run() -> None:
    """Salts are random, so that a leaf cannot be found by guessing the holders of a cohort."""
    assert laid_out().clients[A].root != laid_out().clients[A].root


def test_a_leaf_follows_from_every_part_of_its_cohort_and_from_the_salt() -> None:
    others = [
        replace(COHORT, features=True),
        replace(COHORT, holders=(A,)),
        replace(COHORT, holders=(ClientId("ab"),)),
        replace(COHORT, blocks=(1, 3)),
        replace(COHORT, sizes=(1, 2)),
        replace(COHORT, blocks=(1,), sizes=(4, 2, 1)),
    ]
    leaves = {cohort.leaf(bytes(16)) for cohort in (COHORT, *others)} | {COHORT.leaf(b"\1" * 16)}
    assert len(leaves) == len(others) + 2


def test_the_root_follows_from_every_part_of_the_layout() -> None:
    counts = {"sample_count": 9, "feature_count": 5, "slots": 2, "feature_slots": 2}
    whole = {**counts, "clients": (A, B), "label_holders": {A}, "leaves": (bytes(32), b"\1" * 32)}
    whole["by_holders"] = (7, 2, 4, 1)
    changes: list[dict[str, object]] = [
        {},
        {"sample_count": 2, "slots": 9},
        {"slots": 3},
        {"feature_slots": 3},
        {"feature_count": 4},
        {"clients": (B, A)},
        {"clients": (A, B, C)},
        {"clients": (ClientId("ab"),), "label_holders": {ClientId("ab")}},
        {"label_holders": {B}},
        {"label_holders": set()},
        {"by_holders": (2, 7, 4, 1)},
        {"leaves": (b"\1" * 32, bytes(32))},
        {"leaves": (bytes(32),)},
        {"leaves": (bytes(32), b"\1" * 32, b"\2" * 32)},
    ]
    roots = {layout_root(**(whole | change)) for change in changes}  # type: ignore[arg-type] # of several types
    assert len(roots) == len(changes)


def test_a_party_knows_who_holds_its_blocks_and_who_has_labels() -> None:
    layout = laid_out().clients[B]
    assert dict(layout.holders) == {1: (A, B), 2: (A, B), 3: (A, B), 4: (B, C)}
    assert set(layout.feature_holders.values()) == {(B,)}
    assert layout.label_holder_counts.tolist() == [1, 1, 1, 1]
    assert layout.shared.tolist() == [True] * 4
    assert layout.reports == ()
    assert layout.reporter_of((B, C)) == C
    assert layout.reporter_of((B,)) is None
    assert layout.live_blocks({A, B}) == (1, 2, 3)
    assert layout.live_blocks({B}) == ()
    assert laid_out().clients[A].reports == (0, 1, 2, 3)


def test_the_first_holder_among_some_parties_answers_for_a_block_of_features() -> None:
    alignment = laid_out()
    shared = alignment.clients[A]
    assert shared.first_holder_of({A, B, C}) == tuple(shared.feature_blocks)
    assert alignment.clients[C].first_holder_of({A, B, C}) == ()
    assert alignment.clients[C].first_holder_of({B, C}) == tuple(shared.feature_blocks)


@pytest.mark.parametrize(
    "cohort",
    [
        Cohort(features=False, holders=(B,), blocks=(1, 4), sizes=(2, 1)),
        Cohort(features=False, holders=(B,), blocks=(1,), sizes=(1,)),
        Cohort(features=False, holders=(B,), blocks=(), sizes=()),
        Cohort(features=False, holders=(A, B), blocks=(1,), sizes=(2,)),
    ],
)
def test_a_block_in_two_cohorts_in_none_or_of_another_size_is_refused(cohort: Cohort) -> None:
    """Of the small layout, block 1 is held by B alone and block 4 by A and B."""
    good = small_client_layout()
    replaced = (OpenedCohort(cohort, 0, bytes(16)), *good.cohorts[1:])
    with pytest.raises(InvalidInput, match="exactly one cohort"):
        replace(good, cohorts=replaced, leaves=(cohort.leaf(bytes(16)), *good.leaves[1:]))


@pytest.mark.parametrize("count", [1, MAX_FEATURES + 1])
def test_fewer_features_than_the_party_has_or_too_many_are_refused(count: int) -> None:
    with pytest.raises(InvalidInput, match="feature_count"):
        replace(small_client_layout(), feature_count=count)


def test_a_party_cannot_be_shown_a_leaf_that_another_party_is_not() -> None:
    """The same leaf cannot be opened to other holders, which is what a server would do that tells two stories."""
    layout = client_layout({0: 2}, slots=2, holders={0: (A, B)}, feature_blocks={0: np.array([0])})
    (samples, features) = layout.cohorts
    told = OpenedCohort(replace(samples.cohort, holders=(A,)), samples.leaf, samples.salt)
    with pytest.raises(InvalidInput, match="not among the leaves"):
        replace(layout, cohorts=(told, features))
