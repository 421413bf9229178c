"""A party's rows by block, the way between values and vectors of whole blocks, and the check of dual variables."""

import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fenchel_client import rowpieces
from fenchel_client.algorithms.codec import BlockCodec, RowCodec
from fenchel_client.algorithms.duals import NORMS, checked_duals, feasible_duals, own_norms, whole_norms
from fenchel_client.algorithms.rows import PartyRows
from fenchel_client.crypto.plain import Cipher, PlainCipher
from fenchel_client.crypto.seal import Seal
from fenchel_client.crypto.stamps import Origin, Pads, Stamp
from fenchel_client.rowpieces import COPIED_BYTES
from fenchel_common.algorithms.dual import ALPHA_FORMAT, PRODUCT_FORMAT
from fenchel_common.blocks import BlockVector
from fenchel_common.clientlayout import ClientLayout, IgnoredFeatures
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import EncryptedVector
from fenchel_common.crypto.words import PlainVector
from fenchel_common.data.shard import Shard
from fenchel_common.errors import InvalidInput, TagMismatch
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.losses import LOSSES
from fenchel_common.privacy import Privacy
from fenchel_common.records import Moment
from fenchel_deploy.inprocess.layouts import table_of
from support.keys import cipher, run_key, tags
from support.layouts import A, B, client_layout

Array = NDArray[np.float64]

HINGE = LOSSES["hinge"]
KEY_BITS = 2048
SLOTS = PlainCipher(KEY_BITS).slots
X = np.arange(1.0, 13.0).reshape(4, 3) / 16.0
Y = np.array([1.0, -1.0, -1.0, 1.0])
ORDERED = X[[2, 0, 3, 1]][:, [1, 2, 0]]


def layout(*, ignored: tuple[IgnoredFeatures, ...] = (), shared: bool = True) -> ClientLayout:
    """Two blocks, of rows 2 and 0 and of rows 3 and 1; the second is shared. Features by name: age, bmi, sex."""
    return client_layout(
        {1: 2, 4: 2},
        slots=SLOTS,
        sample_count=9,
        holders={4: (A, B)} if shared else {},
        rows=np.array([2, 0, 3, 1]),
        ignored=ignored,
        feature_blocks={0: np.array([1]), 3: np.array([0, 2])},
    )


@dataclass
class Own:
    rows: PartyRows
    codec: RowCodec
    seal: Seal

    def origin(self, field: str) -> Origin:
        assert self.seal.stamp is not None
        return Origin(self.seal.stamp, field)

    def given(self, field: str) -> Callable[[int], list[Origin]]:
        """That the party itself gave every block, in this field."""
        return lambda _block: [self.origin(field)]


def own(
    level: str = "plain",
    *,
    y: Array | None = Y,
    sparse: bool = False,
    ignored: tuple[IgnoredFeatures, ...] = (),
    shared: bool = True,
) -> Own:
    used: Cipher = PlainCipher(KEY_BITS, tags()) if level == "plain" else cipher()
    key = RunKey.in_clear(KEY_BITS) if level == "plain" else run_key()
    laid_out = layout(ignored=ignored, shared=shared)
    shard = Shard(("a", "b", "c", "d"), ("sex", "age", "bmi"), csr_array(X) if sparse else X, y)
    rows = PartyRows(laid_out, table_of(shard))
    seal = stamped()
    return Own(rows, RowCodec(rows, layout=laid_out, cipher=used, key=key, privacy=Privacy(level), seal=seal), seal)


ALONE = dict.fromkeys(range(6), (ClientId("a"),))


def stamped() -> Seal:
    """A seal in the midst of a message."""
    seal = Seal(Pads(bytes(32)))
    seal.stamp = Stamp.fresh(A, Moment(1, RoundId(1), "primal"), bytes(32))
    return seal


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_follow_the_blocks_and_columns_the_names(sparse: bool) -> None:
    rows = own(sparse=sparse).rows
    found = rows.X.toarray() if isinstance(rows.X, csr_array) else rows.X
    np.testing.assert_array_equal(found, ORDERED)
    np.testing.assert_array_equal(rows.labels(), Y[[2, 0, 3, 1]])
    assert (rows.count, rows.width, rows.shared) == (4, 3, frozenset({4}))
    assert {block: positions.tolist() for block, positions in rows.positions.items()} == {1: [0, 1], 4: [2, 3]}


def test_positions_are_those_of_whole_blocks_of_samples_in_the_given_order_and_of_features_ascending() -> None:
    one = own()
    np.testing.assert_array_equal(one.rows.positions_of([4, 1]), [2, 3, 0, 1])
    np.testing.assert_array_equal(one.rows.positions_of([]), [])
    np.testing.assert_array_equal(one.codec.feature_positions([3, 0]), [0, 1, 2])
    np.testing.assert_array_equal(one.codec.feature_positions([]), [])


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("copied_bytes", [COPIED_BYTES, 1])
def test_products_are_those_of_the_positions_and_zero_elsewhere(
    sparse: bool, copied_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rowpieces, "COPIED_BYTES", copied_bytes)
    weights = np.array([1.0, 2.0, 4.0])
    found = own(sparse=sparse).rows.products(np.array([3, 0]), weights)
    whole = ORDERED @ weights
    np.testing.assert_array_equal(found, [whole[0], 0.0, 0.0, whole[3]])


def test_products_of_all_rows_take_no_copy_of_them() -> None:
    count = 60_000
    shard = Shard(
        tuple(map(str, range(count))), tuple(f"f{number:03}" for number in range(128)), np.ones((count, 128)), None
    )
    blocks = count // 1000
    laid_out = client_layout(dict.fromkeys(range(blocks), 1000), slots=1000, feature_blocks={0: np.arange(128)})
    rows = PartyRows(laid_out, table_of(shard))
    assert rows.count * rows.width * 8 > 3 * COPIED_BYTES
    tracemalloc.start()
    try:
        rows.products(rows.positions_of(range(blocks)), np.ones(128))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1.5 * COPIED_BYTES


@pytest.mark.parametrize("level", ["sealed", "paper", "plain"])
def test_values_come_back_from_vectors_of_the_kind_of_the_level(level: str) -> None:
    one = own(level)
    codec = one.codec
    by_sample = codec.to_blocks("alpha", [4], np.array([9.0, 9.0, 0.25, -0.5]), ALPHA_FORMAT)
    np.testing.assert_array_equal(codec.from_blocks(by_sample, one.given("alpha")), [0.25, -0.5])
    by_feature = codec.to_features("model", np.array([0.5, 1.5, 2.5]))
    np.testing.assert_array_equal(codec.from_features(by_feature, one.given("model")), [0.5, 1.5, 2.5])
    numbers = codec.to_numbers("figures", np.array([0.125, -3.0]), contributors=[ClientId("a")])
    np.testing.assert_array_equal(codec.from_numbers(numbers, [one.origin("figures")]), [0.125, -3.0])
    assert type(by_sample.vector) is (PlainVector if level == "plain" else EncryptedVector)
    assert type(by_feature.vector) is type(numbers) is (EncryptedVector if level == "sealed" else PlainVector)


@pytest.mark.parametrize("level", ["sealed", "paper", "plain"])
def test_no_vector_opens_as_another_field_or_as_a_block_of_another_number(level: str) -> None:
    one = own(level)
    codec = one.codec
    by_sample = codec.to_blocks("alpha", [1, 4], np.zeros(4), ALPHA_FORMAT)
    by_feature = codec.to_features("model", np.zeros(3))
    numbers = codec.to_numbers("figures", np.zeros(2), contributors=[ClientId("a")])
    turned = BlockVector((1, 4), by_sample.vector.select([1, 0]))
    opened: list[Callable[[], Array]] = [
        lambda: codec.from_blocks(by_sample, one.given("point")),
        lambda: codec.from_blocks(by_sample, lambda _block: []),
        lambda: codec.from_blocks(turned, one.given("alpha")),
        lambda: codec.from_features(by_feature, one.given("weights")),
        lambda: codec.from_numbers(numbers, [one.origin("gram")]),
        lambda: codec.from_numbers(numbers, [one.origin("figures")] * 2),
    ]
    for attempt in opened:
        with pytest.raises(TagMismatch):
            attempt()


def test_no_block_opens_at_a_party_with_other_samples_or_features_in_it() -> None:
    """The pads depend on ids and names: equal numbers of blocks and equal sizes are not enough."""
    seal, used = stamped(), PlainCipher(KEY_BITS, tags())
    positions = {2: np.array([0, 1])}
    codec = BlockCodec("samples", positions, ["a", "b"], ALONE, SLOTS, used, seal)
    vector = codec.to_blocks("point", np.array([0.5, 0.25]), [2], PRODUCT_FORMAT)
    assert seal.stamp is not None
    origins = [Origin(seal.stamp, "point")]
    np.testing.assert_array_equal(codec.from_blocks(vector, lambda _block: origins), [0.5, 0.25])
    for kind, names in (("samples", ["b", "a"]), ("samples", ["a", "c"]), ("features", ["a", "b"])):
        with pytest.raises(TagMismatch):
            BlockCodec(kind, positions, names, ALONE, SLOTS, used, seal).from_blocks(vector, lambda _block: origins)


def test_vectors_by_feature_are_of_whole_blocks_and_tell_all_of_them() -> None:
    """Which entries moved would tell of the rows; zeros are told like anything else."""
    one = own()
    everything = one.codec.to_features("point", np.zeros(3))
    assert everything.blocks == (0, 3)
    assert everything.vector.length == 2 * SLOTS
    part = one.codec.to_features("model", np.array([0.5, 1.5, 2.5]), [3])
    assert part.blocks == (3,)
    np.testing.assert_array_equal(one.codec.from_features(part, one.given("model")), [0.5, 0.0, 2.5])


def test_values_of_one_sample_and_one_feature_stand_alone_in_their_slots() -> None:
    vector = own().codec.to_blocks("point", [1, 4], np.array([0.25, 0.5, 0.75, 1.0]), ALPHA_FORMAT).vector
    values = PlainCipher(KEY_BITS).decrypt(vector, origins=[], places=[]).reshape(2, SLOTS)
    np.testing.assert_array_equal(values[:, :2], [[0.25, 0.5], [0.75, 1.0]])
    assert not values[:, 2:].any()


def test_a_vector_is_put_into_a_copy_at_the_positions_of_its_blocks() -> None:
    seal = stamped()
    cipher_in_clear = PlainCipher(KEY_BITS, tags())
    codec = BlockCodec(
        "features", {2: np.array([3, 0]), 5: np.array([1])}, list("abcd"), ALONE, SLOTS, cipher_in_clear, seal
    )
    values = np.array([1.0, 2.0, 3.0, 4.0])
    vector = codec.to_blocks("model", 10.0 * values, [2], PRODUCT_FORMAT)
    assert seal.stamp is not None
    given = [Origin(seal.stamp, "model")]
    np.testing.assert_array_equal(codec.put_into(values, vector, lambda _block: given), [10.0, 2.0, 3.0, 40.0])
    np.testing.assert_array_equal(values, [1.0, 2.0, 3.0, 4.0])


def test_whole_norms_are_sums_where_rows_are_shared_and_own_ones_elsewhere() -> None:
    one = own()
    squares = (X[[2, 0, 3, 1]] ** 2).sum(axis=1)
    told = one.codec.to_blocks(NORMS, [4], np.array([0.0, 0.0, 4.0, -(2.0**-32)]), PRODUCT_FORMAT)
    norms = whole_norms(told, one.rows, one.codec, one.given(NORMS))
    np.testing.assert_array_equal(norms, [squares[0], squares[1], 4.0, 0.0])
    other = one.codec.to_blocks(NORMS, [1], np.zeros(4), PRODUCT_FORMAT)
    with pytest.raises(InvalidInput, match=r"norms\.blocks"):
        whole_norms(other, one.rows, one.codec, one.given(NORMS))


def test_a_party_gives_the_norms_of_its_parts_of_shared_rows_alone() -> None:
    one, alone = own(), own(shared=False)
    given = own_norms(one.rows, one.codec)
    assert given is not None
    assert given.blocks == (4,)
    np.testing.assert_array_equal(one.codec.from_blocks(given, one.given(NORMS)), (ORDERED[2:] ** 2).sum(axis=1))
    assert own_norms(alone.rows, alone.codec) is None


def test_the_absence_of_labels_is_named() -> None:
    with pytest.raises(InvalidInput, match="has no labels"):
        own(y=None).rows.labels()


def test_duals_are_feasible_as_far_as_labels_tell() -> None:
    positions, values = np.array([2, 3]), np.array([1.5, 0.5])
    np.testing.assert_array_equal(feasible_duals(own().rows, positions, values, HINGE), [1.0, 0.0])
    np.testing.assert_array_equal(feasible_duals(own(y=None).rows, positions, values, HINGE), [1.0, 0.5])
    np.testing.assert_array_equal(feasible_duals(own().rows, positions, values, LOSSES["squared"]), values)


def test_duals_that_no_honest_parties_add_up_to_are_refused_and_rounding_is_not() -> None:
    one = own()
    unit = ALPHA_FORMAT.resolution
    rounded = one.codec.to_blocks("alpha", [4], np.array([0.0, 0.0, 1.0 + unit / 2, -0.25]), ALPHA_FORMAT)
    np.testing.assert_array_equal(
        checked_duals(rounded, one.rows, one.codec, one.given("alpha"), loss=HINGE), [1.0, -0.25]
    )
    altered = one.codec.to_blocks("point", [1, 4], np.array([-0.5, 0.5, 1.5, -0.25]), ALPHA_FORMAT)
    with pytest.raises(InvalidInput, match="the dual variables of 1 blocks are outside their interval"):
        checked_duals(altered, one.rows, one.codec, one.given("point"), loss=HINGE)


def test_whether_somebody_else_gives_an_own_feature_is_known() -> None:
    cut = IgnoredFeatures(np.array([1]), np.array([4]))
    assert own().rows.features_apart
    assert not own(ignored=(cut,)).rows.features_apart
