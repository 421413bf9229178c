"""Makes cohorts, blocks and layouts from the pseudonyms and features that each party holds.

A cohort is the set of samples that have exactly the same holders. Its samples are shuffled and cut into blocks of at
most S. Samples that the run cannot use are left out. Nothing here depends on the values of the pseudonyms of samples,
only on which of them are equal: pseudonyms differ from run to run, and blocks of samples must follow from the seed and
the order in which parties list their samples. Features are in the order of their pseudonyms, so that their order tells
nothing of their names.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from fenchel_common.clientlayout import ClientLayout, IgnoredFeatures
from fenchel_common.errors import ResultRejected
from fenchel_common.ids import ClientId
from fenchel_common.layout import Block, BlockIndex, FederationLayout, by_holders
from fenchel_common.layoutroot import SALT_BYTES, OpenedCohort
from fenchel_common.layoutroot import Cohort as BlockCohort
from fenchel_server.holdings import Cohort, HeldFeatures, Holding, SortedCohorts
from fenchel_server.samplerule import SampleRule
from fenchel_server.tablechecks import check_all_take_part, check_linked, check_no_overlap, left_out_notes

_SHUFFLE_STREAM = int.from_bytes(b"cohorts", "big")
_UNLABELLED, _INCOMPLETE = -1, -2
"""In place of the slot of a sample that is not used: the reason."""


class OverlapRule(Enum):
    """The rule for a feature of a sample that two parties hold; the values are those of the configuration.

    By `SUM` the value is the sum of what its holders have, of which at most one is not zero: the squared length of a
    row is then the sum of their parts. The constant feature of an intercept counts once by every rule.
    """

    ERROR = "error"
    FIRST = "first"
    SUM = "sum"


@dataclass(frozen=True, slots=True)
class Alignment:
    """The result of the alignment: the layout of the server, the layout of each party, and notes for people."""

    federation: FederationLayout
    clients: Mapping[ClientId, ClientLayout]
    notes: tuple[str, ...] = ()


def lay_out(
    holdings: Sequence[Holding],
    *,
    slots: int,
    feature_slots: int,
    seed: int,
    overlap: OverlapRule,
    samples: SampleRule = SampleRule.LABELLED,
    all_take_part: bool = True,
) -> Alignment:
    """Checks that the holdings, in roster order, make one table, and divides the table into blocks.

    Unless `all_take_part`, there may be parties of which no sample is used.

    Raises `AlignmentError` if they do not, `ResultRejected` if a party lists a sample twice.
    """
    numbers = _sample_numbers(holdings)
    every, features = _cohorts(numbers), HeldFeatures.of(holdings)
    check_linked(holdings, features, every)
    cohorts = _sorted_by_use(holdings, features, every, samples)
    if overlap is OverlapRule.ERROR:
        check_no_overlap(holdings, features, cohorts.used)
    if all_take_part or not cohorts.used:
        check_all_take_part(holdings, cohorts)

    random = np.random.default_rng([seed, 0, _SHUFFLE_STREAM])
    shuffled = [Cohort(cohort.holders, random.permutation(cohort.samples)) for cohort in cohorts.used]
    federation = _federation_layout(holdings, features, shuffled, slots=slots, feature_slots=feature_slots)
    slot_of = np.full(sum(len(cohort.samples) for cohort in every), _UNLABELLED)
    for cohort in cohorts.incomplete:
        slot_of[cohort.samples] = _INCOMPLETE
    slot_of[np.concatenate([cohort.samples for cohort in shuffled])] = np.arange(federation.sample_count)
    cuts = _ignored(features, federation, intercept_alone=overlap is OverlapRule.SUM)
    opened = _opened_cohorts(federation)
    leaves = tuple(one.cohort.leaf(one.salt) for one in opened)
    clients = {
        holding.client: _client_layout(
            federation, holding.client, slot_of[numbers[position]], cuts[position], opened, leaves
        )
        for position, holding in enumerate(holdings)
    }
    return Alignment(federation, clients, left_out_notes(holdings, cohorts))


def _sample_numbers(holdings: Sequence[Holding]) -> list[NDArray[np.int64]]:
    """For each party, the numbers of the samples in its list; samples are numbered in the order of first mention."""
    lists = [np.asarray(holding.pseudonyms, dtype=np.bytes_) for holding in holdings]
    _, first, position = np.unique(np.concatenate(lists), return_index=True, return_inverse=True)
    number_of = np.empty(len(first), dtype=np.int64)
    number_of[np.argsort(first)] = np.arange(len(first))
    numbers = np.split(number_of[position], np.cumsum([len(listed) for listed in lists])[:-1])
    for holding, listed in zip(holdings, numbers, strict=True):
        if len(np.unique(listed)) != len(listed):
            raise ResultRejected(holding.client, "it lists a sample twice")
    return numbers


def _cohorts(numbers: Sequence[NDArray[np.int64]]) -> list[Cohort]:
    """The cohorts, ordered by their holders; within one, samples in order of first mention."""
    found = by_holders(numbers, count=1 + max(int(listed.max()) for listed in numbers))
    return [Cohort(holders, samples) for holders, samples in sorted(found.items(), key=lambda pair: pair[0])]


def _federation_layout(
    holdings: Sequence[Holding], features: HeldFeatures, cohorts: Sequence[Cohort], *, slots: int, feature_slots: int
) -> FederationLayout:
    blocks: list[Block] = []
    for cohort in cohorts:
        holders = tuple(holdings[position].client for position in cohort.holders)
        for start in range(0, len(cohort.samples), slots):
            size = min(slots, len(cohort.samples) - start)
            blocks.append(Block(id=len(blocks), size=size, holders=holders))
    return FederationLayout(
        clients=tuple(holding.client for holding in holdings),
        sample_count=sum(len(cohort.samples) for cohort in cohorts),
        slots=slots,
        feature_slots=feature_slots,
        blocks=tuple(blocks),
        features=features.names,
        client_features={holding.client: own for holding, own in zip(holdings, features.held, strict=True)},
        label_holders=frozenset(holding.client for holding in holdings if holding.has_labels),
    )


def _client_layout(
    federation: FederationLayout,
    client: ClientId,
    slot_of_row: NDArray[np.int64],
    ignored: tuple[IgnoredFeatures, ...],
    opened_cohorts: Sequence[OpenedCohort],
    leaves: tuple[bytes, ...],
) -> ClientLayout:
    blocks = federation.sample_index.of(client)
    used = np.flatnonzero(slot_of_row >= 0)
    return ClientLayout(
        party=client,
        clients=federation.clients,
        label_holders=federation.label_holders,
        sample_count=federation.sample_count,
        feature_count=len(federation.features),
        slots=federation.slots,
        feature_slots=federation.feature_slots,
        block_ids=np.array(list(blocks)),
        block_sizes=np.array(list(blocks.values())),
        cohorts=tuple(opened for opened in opened_cohorts if client in opened.cohort.holders),
        leaves=leaves,
        # Slots are numbered through all blocks in order, so sorting by slot fills this party's blocks in order.
        rows=used[np.argsort(slot_of_row[used])],
        unlabelled=np.flatnonzero(slot_of_row == _UNLABELLED),
        incomplete=np.flatnonzero(slot_of_row == _INCOMPLETE),
        samples_by_holders=federation.sample_index.by_holders(),
        features_by_holders=federation.feature_index.by_holders(),
        ignored=ignored,
        feature_blocks=federation.feature_positions(client),
    )


def _opened_cohorts(federation: FederationLayout) -> list[OpenedCohort]:
    """All cohorts of blocks, of samples first, each with a fresh salt."""
    cohorts = [
        *_block_cohorts(federation.sample_index, features=False),
        *_block_cohorts(federation.feature_index, features=True),
    ]
    return [OpenedCohort(cohort, leaf, secrets.token_bytes(SALT_BYTES)) for leaf, cohort in enumerate(cohorts)]


def _block_cohorts(index: BlockIndex, *, features: bool) -> list[BlockCohort]:
    blocks: dict[tuple[ClientId, ...], list[int]] = {}
    for block, held_by in enumerate(index.holders):
        blocks.setdefault(held_by, []).append(block)
    return [
        BlockCohort(features, holders, tuple(held), tuple(index.sizes[block] for block in held))
        for holders, held in blocks.items()
    ]


def _ignored(
    features: HeldFeatures, federation: FederationLayout, *, intercept_alone: bool
) -> list[tuple[IgnoredFeatures, ...]]:
    """For each party, the features that an earlier holder of the same blocks has too, with these blocks."""
    position_of = {client: position for position, client in enumerate(federation.clients)}
    blocks_by_holders: dict[tuple[ClientId, ...], list[int]] = {}
    for block in federation.blocks:
        blocks_by_holders.setdefault(block.holders, []).append(block.id)
    cuts: list[dict[bytes, list[int]]] = [{} for _ in features.held]
    for holders, block_ids in blocks_by_holders.items():
        positions = [position_of[holder] for holder in holders]
        for number, position in enumerate(positions):
            held = features.held[position]
            counted = held == features.intercept if intercept_alone else np.ones(len(held), dtype=bool)
            twice = np.flatnonzero(features.together(positions[:number])[held] & counted)
            if len(twice):
                cuts[position].setdefault(twice.tobytes(), []).extend(block_ids)
    return [
        tuple(
            IgnoredFeatures(features=np.frombuffer(twice, dtype=np.int64), block_ids=np.array(ids))
            for twice, ids in cut.items()
        )
        for cut in cuts
    ]


def _sorted_by_use(
    holdings: Sequence[Holding], features: HeldFeatures, cohorts: Sequence[Cohort], rule: SampleRule
) -> SortedCohorts:
    found = SortedCohorts([], [], [])
    for cohort in cohorts:
        if not any(holdings[position].has_labels for position in cohort.holders):
            found.unlabelled.append(cohort)
        elif rule is SampleRule.COMPLETE and not features.together(cohort.holders).all():
            found.incomplete.append(cohort)
        else:
            found.used.append(cohort)
    return found
