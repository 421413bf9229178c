"""A party's rows in the order of the blocks, and the way between values and vectors of whole blocks."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from fenchel_client.algorithms.holdings import Holdings, arranged_matrix
from fenchel_common.algorithms.dual import ALPHA_FORMAT, PRODUCT_FORMAT
from fenchel_common.clientlayout import ClientLayout, IgnoredFeatures
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import Cipher, EncryptedVector, PlainCipher, PlainVector
from fenchel_common.data.shard import Shard
from fenchel_common.errors import InvalidInput
from fenchel_common.losses import loss_named
from fenchel_common.privacy import Privacy
from support.keys import cipher, run_key

KEY_BITS = 2048
SLOTS = PlainCipher(KEY_BITS).slots
X = np.arange(1.0, 13.0).reshape(4, 3) / 16.0
Y = np.array([1.0, -1.0, -1.0, 1.0])


def layout(*, ignored: tuple[IgnoredFeatures, ...] = ()) -> ClientLayout:
    """Two blocks, of rows 2 and 0 and of rows 3 and 1; the second is shared. Features by name: age, bmi, sex."""
    return ClientLayout(
        sample_count=9,
        slots=SLOTS,
        block_ids=np.array([1, 4]),
        block_sizes=np.array([2, 2]),
        holder_counts=np.array([1, 2]),
        shared=np.array([False, True]),
        rows=np.array([2, 0, 3, 1]),
        ignored=ignored,
        feature_blocks={0: np.array([1]), 3: np.array([0, 2])},
    )


def shard(*, sparse: bool = False, y: np.ndarray[tuple[int], np.dtype[np.float64]] | None = Y) -> Shard:
    return Shard(("a", "b", "c", "d"), ("sex", "age", "bmi"), csr_array(X) if sparse else X, y)


def holdings(
    level: str = "plain",
    *,
    y: np.ndarray[tuple[int], np.dtype[np.float64]] | None = Y,
    sparse: bool = False,
    ignored: tuple[IgnoredFeatures, ...] = (),
) -> Holdings:
    used: Cipher = PlainCipher(KEY_BITS) if level == "plain" else cipher()
    key = RunKey.in_clear(KEY_BITS) if level == "plain" else run_key()
    return Holdings(
        layout=layout(ignored=ignored),
        shard=shard(sparse=sparse, y=y),
        cipher=used,
        key=key,
        privacy=Privacy(level),
        loss=loss_named("hinge"),
    )


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_follow_the_blocks_and_columns_the_names(sparse: bool) -> None:
    own = holdings(sparse=sparse)
    found = own.X.toarray() if isinstance(own.X, csr_array) else own.X
    np.testing.assert_array_equal(found, X[[2, 0, 3, 1]][:, [1, 2, 0]])
    np.testing.assert_array_equal(own.labels(), Y[[2, 0, 3, 1]])
    assert (own.rows, own.width, own.blocks, own.shared) == (4, 3, (1, 4), frozenset({4}))
    assert (own.size(4), own.start(4)) == (2, 2)


@pytest.mark.parametrize("sparse", [False, True])
def test_what_an_earlier_party_gives_is_zero_here(sparse: bool) -> None:
    cut = IgnoredFeatures(np.array([1]), np.array([4]))
    found = arranged_matrix(shard(sparse=sparse), layout(ignored=(cut,)))
    expected = X[[2, 0, 3, 1]][:, [1, 2, 0]]
    expected[2:, 1] = 0.0
    np.testing.assert_array_equal(found.toarray() if isinstance(found, csr_array) else found, expected)


def test_positions_are_those_of_whole_blocks_in_the_given_order() -> None:
    own = holdings()
    np.testing.assert_array_equal(own.positions([4, 1]), [2, 3, 0, 1])
    np.testing.assert_array_equal(own.positions([]), [])
    np.testing.assert_array_equal(own.feature_positions([3, 0]), [0, 2, 1])
    np.testing.assert_array_equal(own.feature_positions([]), [])


@pytest.mark.parametrize("level", ["sealed", "paper", "plain"])
def test_values_come_back_from_vectors_of_the_kind_of_the_level(level: str) -> None:
    own = holdings(level)
    by_sample = own.to_blocks([4], np.array([9.0, 9.0, 0.25, -0.5]), ALPHA_FORMAT)
    np.testing.assert_array_equal(own.from_blocks(by_sample), [0.25, -0.5])
    by_feature = own.to_features(np.array([0.5, 1.5, 2.5]))
    np.testing.assert_array_equal(own.from_features(by_feature), [0.5, 1.5, 2.5])
    figures = own.to_figures(np.array([0.125, -3.0]))
    np.testing.assert_array_equal(own.from_figures(figures), [0.125, -3.0])
    assert type(by_sample.vector) is (PlainVector if level == "plain" else EncryptedVector)
    assert type(by_feature.vector) is type(figures) is (EncryptedVector if level == "sealed" else PlainVector)


def test_vectors_by_feature_are_of_whole_blocks_and_tell_all_of_them() -> None:
    """Which entries moved would tell of the rows; zeros are told like anything else."""
    own = holdings()
    everything = own.to_features(np.zeros(3))
    assert everything.blocks == (0, 3)
    assert everything.vector.length == 2 * SLOTS
    part = own.to_features(np.array([0.5, 1.5, 2.5]), [3])
    assert part.blocks == (3,)
    np.testing.assert_array_equal(own.from_features(part), [0.5, 0.0, 2.5])


def test_values_of_one_sample_and_one_feature_stand_alone_in_their_slots() -> None:
    own = holdings()
    vector = own.to_blocks([1, 4], np.array([0.25, 0.5, 0.75, 1.0]), ALPHA_FORMAT).vector
    values = PlainCipher(KEY_BITS).decrypt(vector).reshape(2, SLOTS)
    np.testing.assert_array_equal(values[:, :2], [[0.25, 0.5], [0.75, 1.0]])
    assert not values[:, 2:].any()


def test_whole_norms_are_sums_where_rows_are_shared_and_own_ones_elsewhere() -> None:
    own = holdings()
    squares = (X[[2, 0, 3, 1]] ** 2).sum(axis=1)
    told = own.to_blocks([4], np.array([0.0, 0.0, 4.0, -(2.0**-32)]), PRODUCT_FORMAT)
    np.testing.assert_array_equal(own.whole_norms(told), [squares[0], squares[1], 4.0, 0.0])
    with pytest.raises(InvalidInput, match=r"norms\.blocks"):
        own.whole_norms(own.to_blocks([1], np.zeros(4), PRODUCT_FORMAT))


def test_labels_are_checked_and_their_absence_is_named() -> None:
    with pytest.raises(InvalidInput, match="labels"):
        holdings(y=np.array([0.0, 1.0, 1.0, 0.0]))
    bare = holdings(y=None)
    assert not bare.has_labels
    with pytest.raises(InvalidInput, match="has no labels"):
        bare.labels()


def test_whether_somebody_else_gives_an_own_feature_is_known() -> None:
    cut = IgnoredFeatures(np.array([1]), np.array([4]))
    assert holdings().features_apart
    assert not holdings(ignored=(cut,)).features_apart
