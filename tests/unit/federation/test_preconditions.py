"""What the server warns of, or refuses, once it knows the layout and before the first round."""

import numpy as np
import pytest

from fenchel_common.algorithms.hyfdca.draw import draw_samples
from fenchel_common.algorithms.hyfdca.pace import Pace
from fenchel_common.algorithms.hyfdca.settings import HyfdcaSettings
from fenchel_common.errors import InvalidConfig
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.layout import Block, FederationLayout
from fenchel_common.runconfig import RunConfig
from fenchel_server.preconditions import check_preconditions, small_cohorts

A, B = ClientId("a"), ClientId("b")


def layout(*sizes: tuple[int, tuple[ClientId, ...]], features: int = 4) -> FederationLayout:
    """Blocks of these sizes and holders; b has no labels, and both hold half of the features."""
    names = tuple(f"f{number:03d}" for number in range(features))
    half = features // 2
    return FederationLayout(
        clients=(A, B),
        sample_count=sum(size for size, _ in sizes),
        slots=1000,
        feature_slots=1000,
        blocks=tuple(Block(number, size, holders) for number, (size, holders) in enumerate(sizes)),
        features=names,
        client_features={A: np.arange(half), B: np.arange(half, features)},
        label_holders=frozenset({A}),
    )


def config(**settings: object) -> RunConfig:
    values = {"name": "test", "privacy": "paper", "settings": {"loss": "logistic", "local": "paper", **settings}}
    return RunConfig.from_mapping(values)


def fewest_changes(config: RunConfig, table: FederationLayout) -> int | None:
    settings = config.algorithm_settings()
    return settings.family.fewest_changes(settings, table)


def test_cohorts_of_few_samples_are_told_by_count_and_holders() -> None:
    assert small_cohorts(layout((5, (A,)), (900, (A, B)))) == ()
    (warning,) = small_cohorts(layout((4, (A,)), (900, (A, B))))
    assert "1 of 2 groups of samples with the same holders have fewer than 5 samples (4 held by a)" in warning
    (both,) = small_cohorts(layout((4, (A,)), (1, (A, B))))
    assert "2 of 2 groups" in both
    assert "1 held by a and b" in both


def test_a_cohort_counts_as_a_whole_not_block_by_block() -> None:
    assert small_cohorts(layout((1000, (A, B)), (3, (A, B)))) == ()


def test_the_fewest_changes_follow_from_h_where_all_parties_hold_the_same_samples() -> None:
    table = layout((300, (A, B)), (100, (A, B)))
    assert fewest_changes(config(h=0.5), table) == 200
    assert fewest_changes(config(h=64), table) == 64
    assert fewest_changes(config(h=1000), table) == 400


def test_a_party_that_holds_few_of_the_samples_finds_few_of_them_changed() -> None:
    table = layout(*[(47, (A,))] * 20, *[(47, (A, B))] * 2)
    assert fewest_changes(config(h=0.1), table) == 9, "of 94 samples, a share of 103/1034, rounded down"
    shared = {20: 47, 21: 47}
    drawn = [draw_samples(shared, 103 / 1034, seed=0, round_id=RoundId(t), client_index=0) for t in range(1, 301)]
    assert {sum(part.stop - part.start for part in parts) for parts in drawn} == {9, 10}
    nearly_all = layout((300, (A,)), (100, (A, B)))
    assert fewest_changes(config(h=0.9), nearly_all) == 90
    assert fewest_changes(config(h=400), nearly_all) == 100
    few = layout((300, (A,)), (5, (A, B)))
    assert fewest_changes(config(h=40), few) == 1, "if any of them changes"


def test_an_automatic_h_counts_as_the_least_to_which_it_may_fall() -> None:
    table = layout((500, (A, B)), (500, (A, B)))
    assert fewest_changes(config(h="auto"), table) == 1
    assert fewest_changes(config(h="auto", local="theory"), table) == 1000
    pace = Pace()
    for dual in range(10):
        pace = pace.after_round(-float(dual))
    assert pace.samples(HyfdcaSettings.parse({"h": "auto", "local": "paper"}), {A: 1000}, A) < 10


def test_a_fraction_of_few_rows_is_refused_once_the_rows_are_known() -> None:
    enough, few = layout((400, (A, B))), layout((140, (A, B)))
    assert check_preconditions(config(h=0.1), enough) == ()
    with pytest.raises(InvalidConfig, match="as few as 14 of a party's samples are updated in a round, where 32 would"):
        check_preconditions(config(h=0.1), few)
    wide = layout((400, (A, B)), features=200)
    with pytest.raises(InvalidConfig, match="as few as 40 of a party's samples are updated in a round, where 100"):
        check_preconditions(config(h=0.1), wide)


def test_an_acknowledged_leak_is_a_warning() -> None:
    acknowledged = RunConfig.from_mapping(
        {
            "name": "test",
            "privacy": "paper",
            "acknowledge_row_leak": True,
            "settings": {"loss": "hinge", "local": "paper"},
        }
    )
    leak, cohort = check_preconditions(acknowledged, layout((900, (A, B)), (2, (A,))))
    assert "the server can work out rows of the parties' data" in leak
    assert "fewer than 5 samples" in cohort


def test_a_gap_that_makes_for_most_of_the_noise_on_a_released_model_is_told() -> None:
    values = {
        "name": "test",
        "settings": {"local": "corrective", "lambda": 0.5},
        "round": {"quorum": 1.0},
        "release": {"epsilon": 1.0, "delta": 1e-5, "row_bound": 1.0},
    }
    table = layout(*[(1000, (A, B))] * 10)
    assert check_preconditions(RunConfig.from_mapping(values | {"stop": {"gap": 1e-8}}), table) == ()
    (warning,) = check_preconditions(RunConfig.from_mapping(values | {"stop": {"gap": 1e-6}}), table)
    assert warning.startswith("more than half of the noise on the released model is due to stop.gap = 1e-06")
    assert "at 1e-08 it would be half" in warning


def test_a_sealed_run_is_warned_of_small_cohorts_alone() -> None:
    sealed = RunConfig.from_mapping({"name": "test", "settings": {"loss": "hinge", "local": "paper", "h": 1}})
    assert len(check_preconditions(sealed, layout((900, (A, B)), (2, (A,))))) == 1
