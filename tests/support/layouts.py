"""Layouts of parties, made from the holders of their blocks, and two small layouts with something in every field."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fenchel_common.clientlayout import ClientLayout, IgnoredFeatures
from fenchel_common.ids import ClientId
from fenchel_common.layout import Block, FederationLayout
from fenchel_common.layoutroot import SALT_BYTES, Cohort, OpenedCohort

A, B = ClientId("a"), ClientId("b")

Holders = Mapping[int, tuple[ClientId, ...]]


def small_federation_layout() -> FederationLayout:
    return FederationLayout(
        clients=(A, B),
        sample_count=5,
        slots=2,
        feature_slots=2,
        blocks=(Block(0, 2, (A,)), Block(1, 2, (A, B)), Block(2, 1, (A, B))),
        features=("age", "bmi", "sex"),
        client_features={A: np.array([0, 2]), B: np.array([1])},
        label_holders=frozenset({B}),
    )


def small_client_layout() -> ClientLayout:
    """The layout of B, which holds block 4 together with A."""
    return client_layout(
        {1: 2, 4: 1},
        slots=2,
        party=B,
        sample_count=9,
        holders={4: (A, B)},
        rows=np.array([2, 0, 1]),
        feature_blocks={0: np.array([1]), 2: np.array([0])},
        feature_holders={2: (A, B)},
        ignored=(IgnoredFeatures(np.array([0]), np.array([4])),),
        unopened=2,
    )


def client_layout(
    sizes: Mapping[int, int],
    *,
    slots: int,
    feature_slots: int | None = None,
    party: ClientId = A,
    clients: Sequence[ClientId] = (A, B),
    label_holders: Collection[ClientId] | None = None,
    sample_count: int | None = None,
    holders: Holders | None = None,
    rows: NDArray[np.int64] | None = None,
    unlabelled: NDArray[np.int64] | None = None,
    incomplete: NDArray[np.int64] | None = None,
    feature_blocks: Mapping[int, NDArray[np.int64]] | None = None,
    feature_holders: Holders | None = None,
    ignored: tuple[IgnoredFeatures, ...] = (),
    unopened: int = 0,
    feature_count: int | None = None,
) -> ClientLayout:
    """A party's layout, with the cohorts and leaves that follow from the holders of its blocks.

    Parameters
    ----------
    sizes
        The size of each block of samples, by its id.
    feature_slots
        As many as `slots`, unless given.
    label_holders
        All clients, unless given.
    holders, feature_holders
        The holders of blocks that the party does not hold alone.
    rows
        The rows of the table in their order, unless given.
    unlabelled, incomplete
        None, unless given.
    unopened
        The number of cohorts to which the party does not belong.
    feature_count
        The number of the party's features, unless given.
    """
    features = {} if feature_blocks is None else feature_blocks
    feature_sizes = {block: len(positions) for block, positions in features.items()}
    cohorts = [
        *_cohorts(sizes, holders or {}, party, features=False),
        *_cohorts(feature_sizes, feature_holders or {}, party, features=True),
    ]
    opened = tuple(OpenedCohort(cohort, leaf, bytes([leaf % 256]) * SALT_BYTES) for leaf, cohort in enumerate(cohorts))
    count = sum(sizes.values())
    return ClientLayout(
        party=party,
        clients=tuple(clients),
        label_holders=frozenset(clients if label_holders is None else label_holders),
        sample_count=count if sample_count is None else sample_count,
        feature_count=sum(feature_sizes.values()) if feature_count is None else feature_count,
        slots=slots,
        feature_slots=slots if feature_slots is None else feature_slots,
        block_ids=np.array(list(sizes), dtype=np.int64),
        block_sizes=np.array(list(sizes.values()), dtype=np.int64),
        cohorts=opened,
        leaves=(
            *(one.cohort.leaf(one.salt) for one in opened),
            *(bytes([number]) * 32 for number in range(unopened)),
        ),
        rows=np.arange(count) if rows is None else rows,
        unlabelled=np.zeros(0, dtype=np.int64) if unlabelled is None else unlabelled,
        incomplete=np.zeros(0, dtype=np.int64) if incomplete is None else incomplete,
        samples_by_holders=_by_holders(sizes, holders, sample_count, parties=len(clients)),
        features_by_holders=_by_holders(feature_sizes, feature_holders, feature_count, parties=len(clients)),
        ignored=ignored,
        feature_blocks=features,
    )


def unsalted(layout: ClientLayout) -> ClientLayout:
    """A layout without the random salts of its leaves, and without the leaves that the party cannot open."""
    opened = tuple(OpenedCohort(one.cohort, leaf, bytes(SALT_BYTES)) for leaf, one in enumerate(layout.cohorts))
    return replace(layout, cohorts=opened, leaves=tuple(one.cohort.leaf(one.salt) for one in opened))


def _by_holders(
    sizes: Mapping[int, int], holders: Holders | None, total: int | None, *, parties: int
) -> tuple[int, ...]:
    """How many samples or features exactly 1, 2, … parties hold; one party each holds those of other parties."""
    counts = [0] * parties
    for block, size in sizes.items():
        counts[len((holders or {}).get(block, "1")) - 1] += size
    counts[0] += 0 if total is None else total - sum(counts)
    return tuple(counts)


def _cohorts(sizes: Mapping[int, int], holders: Holders, party: ClientId, *, features: bool) -> list[Cohort]:
    blocks: dict[tuple[ClientId, ...], list[int]] = {}
    for block in sizes:
        blocks.setdefault(holders.get(block, (party,)), []).append(block)
    return [
        Cohort(features, held_by, tuple(held), tuple(sizes[block] for block in held))
        for held_by, held in blocks.items()
    ]
