from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fenchel_common.clientlayout import IgnoredFeatures
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId
from fenchel_common.layout import Block, BlockIndex
from support.layouts import small_client_layout, small_federation_layout

A, B = small_federation_layout().clients


def test_a_federation_layout_answers_who_holds_what() -> None:
    layout = small_federation_layout()
    assert dict(layout.sample_index.of(A)) == {0: 2, 1: 2, 2: 1}
    assert dict(layout.sample_index.of(B)) == {1: 2, 2: 1}
    assert layout.sample_index.shared == {1, 2}
    assert layout.sample_index.shared_of(A) == (1, 2)
    assert layout.label_index.holders == ((), (B,), (B,))
    assert layout.label_index.shared_of(B) == ()
    assert layout.reporters == {B: (1, 2)}
    assert dict(layout.feature_index.of(A)) == {0: 2}
    assert [block.features.tolist() for block in layout.feature_blocks] == [[0, 2], [1]]
    assert not layout.is_horizontal
    assert not layout.is_vertical
    with pytest.raises(InvalidInput, match="not part of this layout"):
        layout.sample_index.of(ClientId("c"))


def test_the_first_holder_among_some_clients_answers_for_a_block() -> None:
    index = BlockIndex((A, B), ((A,), (A, B), (B,)), (2, 2, 1))
    assert index.first_holders((A, B)) == {A: (0, 1), B: (2,)}
    assert index.first_holders({B}) == {B: (1, 2)}
    assert index.first_holders(()) == {}


def test_a_block_is_complete_if_all_its_holders_are_present() -> None:
    index = BlockIndex((A, B), ((A,), (A, B), (B,)), (2, 2, 1))
    assert index.complete(frozenset({A, B})) == {0, 1, 2}
    assert index.complete(frozenset({B})) == {2}


def test_samples_without_a_label_are_refused_where_labels_are_needed() -> None:
    with pytest.raises(InvalidInput, match="every sample needs a party that has its label"):
        small_federation_layout().check_labelled()
    replace(small_federation_layout(), label_holders=frozenset({A})).check_labelled()


def test_a_client_layout_finds_the_rows_of_its_blocks() -> None:
    layout = small_client_layout()
    assert layout.offsets.tolist() == [0, 2, 3]
    assert layout.rows_of([4, 1]).tolist() == [1, 2, 0]
    assert layout.rows_of([]).tolist() == []
    for foreign in ([0], [2], [5]):
        with pytest.raises(InvalidInput, match="blocks of this party"):
            layout.rows_of(foreign)


def test_layouts_cannot_be_written_to_and_compare_by_value() -> None:
    with pytest.raises(ValueError, match="read-only"):
        small_client_layout().rows[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        small_federation_layout().client_features[A][0] = 1
    assert small_client_layout() == small_client_layout()
    assert small_client_layout() != replace(small_client_layout(), rows=np.array([0, 1, 2]))
    assert small_federation_layout() == small_federation_layout()
    assert small_federation_layout() != replace(small_federation_layout(), label_holders=frozenset({A}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sample_count": 0}, "sample_count"),
        ({"sample_count": 6}, "sum of the block sizes"),
        ({"slots": 1}, "block 0 must have 1 to 1"),
        ({"slots": 0}, "slots"),
        ({"clients": ()}, "client_features|at least one party"),
        ({"clients": (A, A)}, "occurs twice"),
        ({"clients": (A, ClientId(""))}, "1 to 256 characters"),
        ({"features": ("bmi", "age", "sex")}, "sorted"),
        ({"features": ("age", "bmi", "sex", "zip")}, "must have a holder"),
        ({"client_features": {A: np.array([0, 2])}}, "exactly the clients"),
        ({"client_features": {A: np.array([2, 0]), B: np.array([1])}}, "ascending"),
        ({"client_features": {A: np.array([0, 3]), B: np.array([1])}}, "point into features"),
        ({"client_features": {A: np.array([-1, 2]), B: np.array([1])}}, "point into features"),
        ({"client_features": {A: np.array([0.5, 2]), B: np.array([1])}}, "integers"),
        ({"label_holders": frozenset({ClientId("c")})}, "label holder"),
        ({"blocks": (Block(1, 5, (A,)),)}, "count from 0"),
        ({"blocks": (Block(0, 0, (A,)),)}, "1 to 2 samples"),
        ({"blocks": (Block(0, 2, ()),)}, "roster order"),
        ({"blocks": (Block(0, 2, (B, A)),)}, "roster order"),
        ({"blocks": (Block(0, 2, (A, ClientId("c"))),)}, "roster order"),
    ],
)
def test_an_inconsistent_federation_layout_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        replace(small_federation_layout(), **change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sample_count": 2}, "sample_count"),
        ({"slots": 1}, "block_sizes"),
        ({"block_ids": np.array([4, 1])}, "ascending"),
        ({"block_ids": np.array([1, 1])}, "ascending"),
        ({"block_ids": np.array([-1, 4])}, "from 0 up"),
        ({"block_sizes": np.array([2])}, "one entry for each"),
        ({"block_sizes": np.array([[2, 1]])}, "one-dimensional"),
        ({"block_sizes": np.array([3, 0])}, "1 to 2 samples"),
        ({"party": ClientId("c")}, "must be among them"),
        ({"party": A}, "this party among them"),
        ({"label_holders": frozenset({ClientId("c")})}, "must be among them"),
        ({"clients": (B, A)}, "roster order"),
        ({"clients": (A,)}, "must be among them"),
        ({"cohorts": ()}, "in exactly one cohort"),
        ({"leaves": ()}, "not among the leaves"),
        ({"rows": np.array([0, 1])}, "one entry for each slot"),
        ({"rows": np.array([0, 1, 1])}, "exactly once"),
        ({"rows": np.array([0, 1, 3])}, "exactly once"),
        ({"rows": np.array([0, 1, -1])}, "exactly once"),
        ({"ignored": (IgnoredFeatures(np.array([0]), np.array([3])),)}, "does not hold"),
        ({"ignored": (IgnoredFeatures(np.array([2]), np.array([4])),)}, "beyond the party's features"),
    ],
)
def test_an_inconsistent_client_layout_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        replace(small_client_layout(), **change)


def test_ignored_features_need_a_feature_and_a_block() -> None:
    for features, blocks in (([], [1]), ([0], []), ([0], [2, 1]), ([1, 1], [1])):
        with pytest.raises(InvalidInput, match="ignored"):
            IgnoredFeatures(np.array(features, dtype=np.int64), np.array(blocks, dtype=np.int64))


def test_a_name_with_a_zero_character_is_refused_because_that_ends_it_on_the_wire() -> None:
    with pytest.raises(InvalidInput, match="zero character"):
        replace(small_federation_layout(), features=("age", "b\0mi", "sex"))
