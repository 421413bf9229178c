import re

import numpy as np
import pytest

from fenchel_common.dismissal import Misfit, UnfitData
from fenchel_common.errors import AlignmentError, ResultRejected
from fenchel_common.ids import ClientId
from fenchel_server.cohorts import Alignment, OverlapRule, lay_out
from fenchel_server.holdings import Holding
from fenchel_server.samplerule import SampleRule
from support.layouts import unsalted

A, B, C = ClientId("a"), ClientId("b"), ClientId("c")


def holding(client: ClientId, samples: str, features: str, *, labels: bool = True) -> Holding:
    """One letter a sample and a feature."""
    return Holding(client, tuple(letter.encode() * 32 for letter in samples), tuple(features), labels)


def laid_out(
    *holdings: Holding,
    slots: int = 4,
    seed: int = 0,
    overlap: OverlapRule = OverlapRule.ERROR,
    samples: SampleRule = SampleRule.LABELLED,
) -> Alignment:
    return lay_out(holdings, slots=slots, feature_slots=slots, seed=seed, overlap=overlap, samples=samples)


def test_samples_with_the_same_holders_share_blocks_and_others_do_not() -> None:
    outcome = laid_out(holding(A, "uvwxyz", "pq"), holding(B, "zyxwvst", "r"), slots=2)
    assert [(block.size, block.holders) for block in outcome.federation.blocks] == [
        (1, (A,)),
        (2, (A, B)),
        (2, (A, B)),
        (1, (A, B)),
        (2, (B,)),
    ]
    assert outcome.federation.sample_count == 8
    assert outcome.federation.features == ("p", "q", "r")
    assert outcome.clients[A].block_ids.tolist() == [0, 1, 2, 3]
    assert outcome.clients[B].block_ids.tolist() == [1, 2, 3, 4]
    assert outcome.clients[B].shared.tolist() == [True, True, True, False]


def test_the_holder_count_leaves_out_parties_without_labels() -> None:
    outcome = laid_out(holding(A, "xyz", "p"), holding(B, "xyz", "q", labels=False), holding(C, "yz", "r"), slots=2)
    assert outcome.federation.label_holders == {A, C}
    assert outcome.clients[B].label_holder_counts.tolist() == [1, 2]
    assert outcome.clients[A] != outcome.clients[C]


def test_the_values_of_the_pseudonyms_do_not_matter() -> None:
    one = laid_out(holding(A, "stuvwxyz", "p"), holding(B, "zyxw", "q"))
    other = laid_out(holding(A, "hgfedcba", "p"), holding(B, "abcd", "q"))
    for client in (A, B):
        assert unsalted(one.clients[client]) == unsalted(other.clients[client])


def test_the_seed_alone_decides_the_order_in_a_cohort() -> None:
    samples = "abcdefghijklmnopqrstuvwxyz"
    both = holding(A, samples, "p"), holding(B, samples[::-1], "q")
    rows = [laid_out(*both, seed=seed).clients[A].rows for seed in (1, 1, 2)]
    assert np.array_equal(rows[0], rows[1])
    assert not np.array_equal(rows[0], rows[2])
    assert not np.array_equal(rows[0], np.arange(len(samples)))


def test_a_sample_listed_twice_is_refused() -> None:
    with pytest.raises(ResultRejected, match="result of a rejected: it lists a sample twice"):
        laid_out(holding(A, "xyx", "p"), holding(B, "x", "q"))


def test_a_feature_of_a_sample_held_twice_is_an_error_that_names_parties_features_and_count() -> None:
    with pytest.raises(AlignmentError) as caught:
        laid_out(holding(A, "uvwxyz", "pqr"), holding(B, "wxyz", "qrs"), holding(C, "xyz", "t"))
    message = str(caught.value)
    assert "a and b both hold q and r of the same 4 samples" in message
    assert 'overlap = "first"' in message
    assert " c " not in message
    twice = UnfitData(Misfit.FEATURES_HELD_TWICE, ("q", "r"))
    assert caught.value.unfit == {A: twice, B: twice}, "c can mend nothing"


def test_a_long_list_of_features_is_cut_in_the_message() -> None:
    told = re.escape("both hold a, b, c, d, e and 3 more of the same 1 samples")
    with pytest.raises(AlignmentError, match=told) as caught:
        laid_out(holding(A, "x", "abcdefgh"), holding(B, "x", "abcdefgh"))
    assert caught.value.unfit[A].features == tuple("abcde")


def test_the_same_features_of_different_samples_are_no_overlap() -> None:
    outcome = laid_out(holding(A, "uvw", "pq"), holding(B, "xyz", "pq"))
    assert outcome.federation.is_horizontal
    assert outcome.clients[B].ignored == ()


def test_overlap_first_gives_the_feature_to_the_first_party_of_the_roster() -> None:
    outcome = laid_out(
        holding(A, "wx", "pq"),
        holding(B, "wxy", "qr"),
        holding(C, "xyz", "rp"),
        overlap=OverlapRule.FIRST,
    )
    holders = {block.holders: block.id for block in outcome.federation.blocks}
    assert outcome.clients[A].ignored == ()
    assert [(cut.features.tolist(), cut.block_ids.tolist()) for cut in outcome.clients[B].ignored] == [
        ([0], sorted([holders[A, B], holders[A, B, C]]))
    ]
    assert {tuple(cut.features): cut.block_ids.tolist() for cut in outcome.clients[C].ignored} == {
        (0, 1): [holders[A, B, C]],
        (1,): [holders[B, C]],
    }


@pytest.mark.parametrize("rule", SampleRule)
def test_samples_that_no_label_holder_has_are_left_out_and_counted(rule: SampleRule) -> None:
    outcome = laid_out(
        holding(A, "uvw", "p"), holding(B, "xuyv", "q", labels=False), holding(C, "w", "q"), samples=rule
    )
    assert outcome.federation.sample_count == 3
    assert outcome.clients[B].unlabelled.tolist() == [0, 2]
    assert sorted(outcome.clients[B].rows.tolist()) == [1, 3]
    assert outcome.clients[A].unlabelled.tolist() == []
    assert outcome.clients[A].samples_by_holders == (0, 3, 0)
    assert outcome.clients[A].features_by_holders == (1, 1, 0)
    assert outcome.notes == ("2 samples are left out because no party with labels holds them (2 held by b)",)


def test_the_rule_complete_leaves_out_samples_whose_holders_lack_a_feature() -> None:
    parties = holding(A, "uvwx", "p"), holding(B, "vwx", "q"), holding(C, "xyz", "pq")
    outcome = laid_out(*parties, overlap=OverlapRule.FIRST, samples=SampleRule.COMPLETE)
    assert outcome.clients[A].incomplete.tolist() == [0]
    assert outcome.clients[A].samples_by_holders == (2, 2, 1)
    assert outcome.federation.sample_count == 5
    assert outcome.notes == ("1 samples are left out because their holders do not have all features (1 held by a)",)
    kept = laid_out(*parties, overlap=OverlapRule.FIRST, samples=SampleRule.IMPUTE)
    assert kept.federation.sample_count == 6
    assert kept.notes == ()


def test_a_party_of_which_no_sample_would_be_used_is_an_error_with_counts_and_parties() -> None:
    with pytest.raises(AlignmentError) as caught:
        laid_out(
            holding(A, "uvw", "p", labels=False),
            holding(B, "vwxyz", "q", labels=False),
            holding(C, "z", "r"),
        )
    assert "the run would use no sample of a: 5 samples are left out because no party with labels" in str(caught.value)
    assert "1 held by a; 2 held by a and b; 2 held by b" in str(caught.value)
    assert caught.value.unfit == {A: UnfitData(Misfit.NO_SAMPLE_USED)}


def test_no_common_sample_and_different_features_is_an_error() -> None:
    with pytest.raises(AlignmentError, match="no two parties hold a common sample") as caught:
        laid_out(holding(A, "uvw", "pq"), holding(B, "xyz", "qr"))
    unfit = {A: UnfitData(Misfit.NO_COMMON_SAMPLE, ("p",)), B: UnfitData(Misfit.NO_COMMON_SAMPLE, ("r",))}
    assert caught.value.unfit == unfit


def test_groups_that_nothing_links_are_an_error_that_names_them() -> None:
    with pytest.raises(AlignmentError, match=re.escape("a and b | c; check")) as caught:
        laid_out(holding(A, "uv", "p"), holding(B, "vw", "q"), holding(C, "xyz", "r"))
    assert caught.value.unfit == {C: UnfitData(Misfit.NO_COMMON_SAMPLE, ("r",))}, "only c shares no sample"


def test_a_grid_of_row_groups_and_column_groups_is_linked() -> None:
    d = ClientId("d")
    outcome = laid_out(holding(A, "uv", "p"), holding(B, "uv", "q"), holding(C, "xy", "p"), holding(d, "xy", "q"))
    assert [block.holders for block in outcome.federation.blocks] == [(A, B), (C, d)]


def test_one_party_alone_is_a_federation() -> None:
    assert laid_out(holding(A, "uvw", "p")).federation.is_horizontal
