"""What the server warns of, or refuses, once it knows the layout and before the first round."""

import numpy as np
import pytest

from fenchel_common.errors import InvalidConfig
from fenchel_common.ids import ClientId
from fenchel_common.layout import Block, FederationLayout
from fenchel_common.runconfig import RunConfig
from fenchel_server.caution import fewest_changes, small_cohorts, warnings_of

A, B = ClientId("a"), ClientId("b")


def layout(*sizes: tuple[int, tuple[ClientId, ...]], features: int = 4) -> FederationLayout:
    """Blocks of these sizes and holders; b has no labels, and both hold half of the features."""
    names = tuple(f"f{place:03d}" for place in range(features))
    half = features // 2
    return FederationLayout(
        clients=(A, B),
        sample_count=sum(size for size, _ in sizes),
        slots=1000,
        blocks=tuple(Block(number, size, holders) for number, (size, holders) in enumerate(sizes)),
        features=names,
        client_features={A: np.arange(half), B: np.arange(half, features)},
        label_holders=frozenset({A}),
    )


def config(**settings: object) -> RunConfig:
    values = {"name": "test", "privacy": "paper", "settings": {"loss": "logistic", **settings}}
    return RunConfig.from_mapping(values)


def test_cohorts_of_few_samples_are_told_by_count_and_holders() -> None:
    assert small_cohorts(layout((5, (A,)), (900, (A, B)))) == ()
    (warning,) = small_cohorts(layout((4, (A,)), (900, (A, B))))
    assert "1 of 2 groups of samples with the same holders have fewer than 5 samples (4 held by a)" in warning
    (both,) = small_cohorts(layout((4, (A,)), (1, (A, B))))
    assert "2 of 2 groups" in both
    assert "1 held by a and b" in both


def test_a_cohort_counts_as_a_whole_not_block_by_block() -> None:
    assert small_cohorts(layout((1000, (A, B)), (3, (A, B)))) == ()


def test_the_fewest_changes_follow_from_h_and_the_smallest_party() -> None:
    table = layout((300, (A,)), (100, (A, B)))
    assert fewest_changes(config(h=0.5), table) == 100
    assert fewest_changes(config(h=0.1), table) == 40
    assert fewest_changes(config(h="auto"), table) == 40
    assert fewest_changes(config(h=64), table) == 64
    assert fewest_changes(config(h=64), layout((300, (A,)), (7, (A, B)))) == 7


def test_a_fraction_of_few_rows_is_refused_once_the_rows_are_known() -> None:
    enough, few = layout((300, (A,)), (100, (A, B))), layout((90, (A,)), (50, (A, B)))
    assert warnings_of(config(h=0.1), enough) == ()
    with pytest.raises(InvalidConfig, match="only 14 samples of a party are updated in a round, where 32 would be"):
        warnings_of(config(h=0.1), few)
    wide = layout((300, (A,)), (100, (A, B)), features=200)
    with pytest.raises(InvalidConfig, match="only 40 samples of a party are updated in a round, where 100 would be"):
        warnings_of(config(h=0.1), wide)


def test_an_acknowledged_leak_is_a_warning() -> None:
    acknowledged = RunConfig.from_mapping(
        {"name": "test", "privacy": "paper", "acknowledge_row_leak": True, "settings": {"loss": "hinge"}}
    )
    leak, cohort = warnings_of(acknowledged, layout((900, (A, B)), (2, (A,))))
    assert "the server can work out rows of the parties' data" in leak
    assert "fewer than 5 samples" in cohort


def test_a_sealed_run_is_warned_of_small_cohorts_alone() -> None:
    sealed = RunConfig.from_mapping({"name": "test", "settings": {"loss": "hinge", "h": 1}})
    assert len(warnings_of(sealed, layout((900, (A, B)), (2, (A,))))) == 1
