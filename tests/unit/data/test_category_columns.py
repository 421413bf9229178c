"""Columns of categories and the features that a vocabulary makes of them."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fenchel_common.data.categories import MISSING, NONE, Category, Vocabulary, expanded, expanded_names
from fenchel_common.data.shard import Shard
from fenchel_common.errors import InvalidInput
from fenchel_common.layout import MAX_NAME_CHARS

Array = NDArray[np.float64]


def category(values: str, codes: list[int], *, column: str = "pain") -> Category:
    return Category(column, tuple(values), np.array(codes, dtype=np.int32))


def dense(X: object) -> Array:
    return X.toarray() if isinstance(X, csr_array) else np.asarray(X)


def test_only_values_of_enough_rows_are_offered() -> None:
    column = category("abc", [0] * 5 + [1] * 4 + [2] * 5 + [MISSING] * 9 + [NONE] * 9)
    offered = Vocabulary.offered([column], least=5)
    assert offered.values == {"pain": ("a", "c")}
    assert offered.others == {"pain"}
    assert Vocabulary.offered([column], least=4).others == frozenset()


def test_values_that_are_listed_and_that_no_row_has_are_not_offered() -> None:
    offered = Vocabulary.offered([category("ab", [0] * 5)], least=5)
    assert offered == Vocabulary({"pain": ("a",)})


@pytest.mark.parametrize("value", ["x" * (MAX_NAME_CHARS + 1), "a\0b"])
def test_a_value_that_cannot_be_told_is_one_of_the_others(value: str) -> None:
    offered = Vocabulary.offered([Category("pain", (value,), np.zeros(9, dtype=np.int32))], least=5)
    assert offered == Vocabulary({"pain": ()}, frozenset({"pain"}))


def test_the_union_does_not_depend_on_the_order_of_the_parties() -> None:
    one = Vocabulary({"pain": ("a", "c")}, frozenset({"pain"}), frozenset({"age"}))
    other = Vocabulary({"sex": ("m",), "pain": ("b",)}, frozenset(), frozenset({"sex"}))
    union = Vocabulary.union([one, other])
    assert union == Vocabulary.union([other, one])
    assert union.values == {"pain": ("a", "b", "c"), "sex": ("m",)}
    assert union.flags() == {
        "pain=a",
        "pain=b",
        "pain=c",
        "sex=m",
        "pain is other",
        "age is missing",
        "sex is missing",
    }


@pytest.mark.parametrize("sparse", [False, True])
def test_every_cell_has_the_features_that_the_vocabulary_says(sparse: bool) -> None:
    numbers = np.array([[1.0], [np.nan], [3.0], [0.0], [5.0]])
    column = category("ab", [0, 1, MISSING, NONE, 0])
    agreed = Vocabulary({"pain": ("a", "z")}, frozenset({"pain"}), frozenset({"age", "pain", "elsewhere"}))
    X, names = expanded(csr_array(numbers) if sparse else numbers, ["age"], [column], agreed)
    assert names == ("age", "age is missing", "pain is missing", "pain is other", "pain=a", "pain=z")
    assert names == expanded_names(["age"], [column], agreed)
    gap = np.nan
    np.testing.assert_array_equal(
        dense(X),
        [
            [1.0, 0.0, 0.0, 0.0, 1.0, 0.0],
            [gap, 1.0, 0.0, 1.0, 0.0, 0.0],
            [3.0, 0.0, 1.0, gap, gap, gap],
            [0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
            [5.0, 0.0, 0.0, 0.0, 1.0, 0.0],
        ],
    )


def test_a_declared_indicator_takes_the_place_of_the_run_s() -> None:
    numbers = np.array([[1.0, 0.0], [np.nan, 1.0]])
    X, names = expanded(numbers, ["age", "age is missing"], [], Vocabulary(indicators=frozenset({"age"})))
    assert names == ("age", "age is missing")
    np.testing.assert_array_equal(dense(X), numbers)


def test_a_column_with_the_name_of_a_category_s_feature_is_refused() -> None:
    with pytest.raises(InvalidInput, match="column 'pain=a': has the name of a feature"):
        expanded(np.ones((2, 1)), ["pain=a"], [category("a", [0, 0])], Vocabulary({"pain": ("a",)}))
    one, other = Category("a", ("b=c",), np.zeros(2, np.int32)), category("c", [0, 0], column="a=b")
    with pytest.raises(InvalidInput, match="column 'a=b=c': has the name of a feature"):
        expanded(np.ones((2, 0)), [], [one, other], Vocabulary.listed([one, other]))


def test_a_shard_can_have_categories_alone_and_shows_no_value() -> None:
    shard = Shard(("1", "2"), (), np.zeros((2, 0)), None, categories=(category("ab", [0, 1]),))
    assert shard.expanded().features == ("pain=a", "pain=b")
    np.testing.assert_array_equal(dense(shard.expanded().X), np.eye(2))
    assert "'a'" not in repr(shard.categories)
    with pytest.raises(InvalidInput, match="a code for each of 2 ids"):
        Shard(("1", "2"), (), np.zeros((2, 0)), None, categories=(category("ab", [0]),))
    with pytest.raises(InvalidInput, match="'pain' occurs more than once"):
        Shard(("1", "2"), ("pain",), np.zeros((2, 1)), None, categories=(category("ab", [0, 1]),))
