"""The two partitions of the HyFDCA paper."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from fenchel_common.data.datasets import Dataset
from fenchel_common.data.shard import Shard
from fenchel_common.errors import InvalidInput
from fenchel_deploy.papers.splits import nonzeros, quadrants

RNG = np.random.default_rng(0)


def images(count: int, side: int = 4) -> Dataset:
    X = np.hstack([RNG.normal(size=(count, side * side)), np.full((count, 1), 10.0)])
    y = np.where(RNG.random(count) < 0.5, 1.0, -1.0)
    return Dataset("images", X, y, (*(f"p{pixel:02d}" for pixel in range(side * side)), "bias"))


def added_up(dataset: Dataset, shards: list[Shard]) -> np.ndarray:
    whole = np.zeros(dataset.X.shape)
    column_of = {name: column for column, name in enumerate(dataset.features)}
    for shard in shards:
        rows = [int(sample.rpartition("-")[2]) for sample in shard.ids]
        columns = [column_of[name] for name in shard.features]
        whole[np.ix_(rows, columns)] += shard.X.toarray() if isinstance(shard.X, csr_array) else shard.X
        np.testing.assert_array_equal(shard.y, dataset.y[rows])
    return whole


@pytest.mark.parametrize("parties", [4, 5, 20])
def test_every_pixel_of_every_image_is_at_one_party_and_the_bias_at_those_of_the_last_quadrant(parties: int) -> None:
    dataset = images(40)
    shards = quadrants(dataset, parties)
    assert len(shards) == parties
    np.testing.assert_array_equal(added_up(dataset, shards), dataset.X)
    assert sum(len(shard.ids) * len(shard.features) for shard in shards) == dataset.X.size
    assert [("bias" in shard.features) for shard in shards] == [4 * party // parties == 3 for party in range(parties)]
    assert shards[0].features == ("p00", "p01", "p04", "p05")


def test_with_a_multiple_of_four_the_parties_of_a_group_hold_the_same_samples() -> None:
    shards = quadrants(images(40), 20)
    for group in range(5):
        assert len({shards[quadrant * 5 + group].ids for quadrant in range(4)}) == 1


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("groups", [(3, 3), (2, 5), (1, 1)])
def test_the_non_zero_values_of_each_sample_are_dealt_out_evenly(groups: tuple[int, int], sparse: bool) -> None:
    X = np.where(RNG.random((30, 12)) < 0.4, RNG.normal(size=(30, 12)), 0.0)
    X[7] = 0.0
    y = np.where(RNG.random(30) < 0.5, 1.0, -1.0)
    dataset = Dataset("texts", csr_array(X) if sparse else X, y, tuple(f"w{word:02d}" for word in range(12)))
    shards = nonzeros(dataset, groups, seed=1)
    assert len(shards) == groups[0] * groups[1]
    np.testing.assert_array_equal(added_up(dataset, shards), X)
    for shard in shards:
        own = shard.X.toarray() if isinstance(shard.X, csr_array) else shard.X
        for sample, values in zip(shard.ids, own, strict=True):
            even = np.count_nonzero(X[int(sample.rpartition("-")[2])]) / groups[1]
            assert int(even) <= np.count_nonzero(values) <= int(even) + 1
        assert np.abs(own).sum(axis=0).all(), "a party holds the features of which it has a value"


def test_images_of_an_odd_side_or_too_few_parties_are_refused() -> None:
    with pytest.raises(InvalidInput, match="quadrants need"):
        quadrants(images(8), 3)
    with pytest.raises(InvalidInput, match="quadrants need"):
        quadrants(images(8, side=3), 4)
