"""One party's view of where its samples live in the encrypted vectors: which of its rows fill which of its blocks."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId
from fenchel_common.layout import (
    MAX_CLIENTS,
    MAX_FEATURES,
    MAX_SAMPLES,
    all_within,
    check_counts,
    check_names,
    frozen_int64,
    is_ascending,
)
from fenchel_common.layoutroot import OpenedCohort, layout_root


@dataclass(frozen=True, slots=True, eq=False)
class IgnoredFeatures:
    """Features that a party must leave out in some of its blocks, because an earlier party gives them.

    `features` are ascending positions among the party's features, as `ClientLayout.feature_blocks` counts them.
    """

    features: NDArray[np.int64]
    block_ids: NDArray[np.int64]

    def __post_init__(self) -> None:
        for name in ("features", "block_ids"):
            numbers = frozen_int64(getattr(self, name), f"ignored.{name}")
            object.__setattr__(self, name, numbers)
            if not len(numbers) or not is_ascending(numbers):
                raise InvalidInput(f"ignored.{name}: must be ascending, at least one")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IgnoredFeatures):
            return NotImplemented
        return np.array_equal(self.features, other.features) and np.array_equal(self.block_ids, other.block_ids)


@dataclass(frozen=True, slots=True, eq=False)
class ClientLayout:
    """One party's view of the layout: its blocks, who else holds them, and the rows that fill them.

    Attributes
    ----------
    party
        The party whose view this is; no part of any message.
    clients
        All parties in roster order.
    label_holders
        The parties whose shards have labels.
    sample_count
        N, the number of distinct samples in the federation.
    feature_count
        The number of distinct features in the federation.
    slots, feature_slots
        S, the most samples in a block, and the most features in a block.
    block_ids
        (B,) the ids of this party's blocks, ascending.
    block_sizes
        (B,) the number of samples in each block.
    cohorts
        The cohorts of this party's blocks, each with its leaf.
    leaves
        The leaves of all cohorts of the federation.
    rows
        (n,) the row of this party's shard in each slot, for the blocks in the order of `block_ids`.
    samples_by_holders, features_by_holders
        (K,) how many samples that the run uses, and how many features, exactly 1, 2, … of the K parties hold.
    unlabelled, incomplete
        The rows that the run does not use, because no label holder has the sample, or because its holders together
        lack a feature; ascending. Every row of the shard is in one of `rows`, `unlabelled` and `incomplete`, once.
    ignored
        The features that an earlier party gives instead of this one (`overlap = "first"`).
    feature_blocks
        For each of this party's blocks of features their positions among its own. A feature occurs exactly once. The
        server counts features by pseudonym; `in_columns` gives the layout that counts them as the party's table does.
    columns
        (m,) the position in the party's table of each feature that the server counts; no part of any message.
    holders, feature_holders
        The holders of each of this party's blocks of samples, and of features, in roster order.
    label_holder_counts
        (B,) |B_n|: the number of the block's holders that have labels.
    shared
        (B,) whether another party holds the block too.
    """

    party: ClientId
    clients: tuple[ClientId, ...]
    label_holders: frozenset[ClientId]
    sample_count: int
    feature_count: int
    slots: int
    feature_slots: int
    block_ids: NDArray[np.int64]
    block_sizes: NDArray[np.int64]
    cohorts: tuple[OpenedCohort, ...]
    leaves: tuple[bytes, ...]
    rows: NDArray[np.int64]
    samples_by_holders: tuple[int, ...]
    features_by_holders: tuple[int, ...]
    unlabelled: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    incomplete: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    ignored: tuple[IgnoredFeatures, ...] = ()
    feature_blocks: Mapping[int, NDArray[np.int64]] = field(default_factory=dict)
    columns: NDArray[np.int64] = field(init=False, repr=False)
    holders: Mapping[int, tuple[ClientId, ...]] = field(init=False, repr=False)
    feature_holders: Mapping[int, tuple[ClientId, ...]] = field(init=False, repr=False)
    label_holder_counts: NDArray[np.int64] = field(init=False, repr=False)
    shared: NDArray[np.bool_] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        features = {
            block: frozen_int64(positions, "feature_blocks") for block, positions in self.feature_blocks.items()
        }
        object.__setattr__(self, "feature_blocks", MappingProxyType(features))
        for name in ("block_ids", "block_sizes", "rows", "unlabelled", "incomplete"):
            object.__setattr__(self, name, frozen_int64(getattr(self, name), name))
        count = sum(len(positions) for positions in features.values())
        object.__setattr__(self, "columns", frozen_int64(np.arange(count), "columns"))
        check_counts(self.sample_count, self.slots, self.feature_slots)
        self._check_blocks()
        self._check_rows()
        self._check_features()
        self._check_parties()
        self._find_holders()
        self._check_holder_counts()

    @property
    def root(self) -> bytes:
        """The hash of the whole layout, the same at every party."""
        return layout_root(
            sample_count=self.sample_count,
            feature_count=self.feature_count,
            slots=self.slots,
            feature_slots=self.feature_slots,
            clients=self.clients,
            label_holders=self.label_holders,
            by_holders=(*self.samples_by_holders, *self.features_by_holders),
            leaves=self.leaves,
        )

    @property
    def groups(self) -> tuple[tuple[ClientId, ...], ...]:
        """The sets of holders of this party's blocks, each once, in the order of the cohorts; not that of everybody."""
        found = dict.fromkeys(opened.cohort.holders for opened in self.cohorts)
        return tuple(holders for holders in found if holders != self.clients)

    @property
    def reports(self) -> tuple[int, ...]:
        """The blocks of samples that this party reports on: it is the first of their holders that has labels."""
        return tuple(block for block, held_by in self.holders.items() if self.reporter_of(held_by) == self.party)

    @property
    def told_blocks(self) -> tuple[int, ...]:
        """The blocks of samples that this party reports on and that a party without labels holds too."""
        return tuple(block for block in self.reports if not self.label_holders.issuperset(self.holders[block]))

    def reporter_of(self, holders: Sequence[ClientId]) -> ClientId | None:
        """The first label holder among the holders of a block of samples."""
        return next((holder for holder in holders if holder in self.label_holders), None)

    def live_blocks(self, available: Collection[ClientId]) -> tuple[int, ...]:
        """This party's blocks of samples all of whose holders are available, ascending."""
        return tuple(block for block, held_by in self.holders.items() if all(one in available for one in held_by))

    def first_holder_of(self, among: Collection[ClientId]) -> tuple[int, ...]:
        """The blocks of features of which this party is the first holder among the given parties, ascending."""
        return tuple(
            block
            for block, held_by in self.feature_holders.items()
            if next((holder for holder in held_by if holder in among), None) == self.party
        )

    def in_columns(self, columns: NDArray[np.int64]) -> "ClientLayout":
        """The same layout, with features counted as the columns of the party's table.

        `columns` has, for each feature that the server counts, its position in the table. The caller must give one for
        every feature of the layout, each once.
        """
        counted = replace(
            self,
            ignored=tuple(replace(cut, features=np.sort(columns[cut.features])) for cut in self.ignored),
            feature_blocks={block: columns[positions] for block, positions in self.feature_blocks.items()},
        )
        object.__setattr__(counted, "columns", frozen_int64(columns, "columns"))
        return counted

    @property
    def offsets(self) -> NDArray[np.int64]:
        """(B + 1,) where each block starts in `rows`, and where the last one ends."""
        return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(self.block_sizes)])

    def rows_of(self, block_ids: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows of the given blocks of this party, in the given order."""
        wanted = np.asarray(block_ids, dtype=np.int64)
        positions = np.searchsorted(self.block_ids, wanted)
        if (positions >= len(self.block_ids)).any() or not np.array_equal(self.block_ids[positions], wanted):
            raise InvalidInput("block_ids: not all of them are blocks of this party")
        offsets = self.offsets
        pieces = [self.rows[offsets[position] : offsets[position + 1]] for position in positions]
        return np.concatenate(pieces) if pieces else np.zeros(0, dtype=np.int64)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ClientLayout):
            return NotImplemented
        arrays = ("block_ids", "block_sizes", "rows", "unlabelled", "incomplete")
        counts = ("sample_count", "feature_count", "slots", "feature_slots")
        by_holders = ("samples_by_holders", "features_by_holders")
        values = ("party", "clients", "label_holders", *counts, *by_holders, "cohorts", "leaves", "ignored")
        return (
            all(getattr(self, name) == getattr(other, name) for name in values)
            and all(np.array_equal(getattr(self, name), getattr(other, name)) for name in arrays)
            and self.feature_blocks.keys() == other.feature_blocks.keys()
            and all(np.array_equal(own, other.feature_blocks[block]) for block, own in self.feature_blocks.items())
        )

    def _check_blocks(self) -> None:
        count = len(self.block_ids)
        if self.block_sizes.shape != (count,):
            raise InvalidInput(f"block_sizes: must have one entry for each of the {count} blocks")
        if not is_ascending(self.block_ids) or not all_within(self.block_ids, 0, MAX_SAMPLES):
            raise InvalidInput("block_ids: must be ascending, from 0 up")
        if not all_within(self.block_sizes, 1, self.slots):
            raise InvalidInput(f"block_sizes: a block must have 1 to {self.slots} samples")
        for cut in self.ignored:
            if not np.isin(cut.block_ids, self.block_ids).all():
                raise InvalidInput("ignored: names a block that this party does not hold")

    def _check_rows(self) -> None:
        count = int(self.block_sizes.sum())
        if self.rows.shape != (count,) or count > self.sample_count:
            raise InvalidInput("rows: must have one entry for each slot in use, at most sample_count in all")
        listed = np.concatenate([self.rows, self.unlabelled, self.incomplete])
        if not np.array_equal(np.sort(listed), np.arange(len(listed))):
            raise InvalidInput("rows: every row of the shard must occur exactly once")
        if not is_ascending(self.unlabelled) or not is_ascending(self.incomplete):
            raise InvalidInput("unlabelled, incomplete: must be ascending")

    def _check_features(self) -> None:
        if any(not 1 <= len(positions) <= self.feature_slots for positions in self.feature_blocks.values()):
            raise InvalidInput(f"feature_blocks: a block must have 1 to {self.feature_slots} features")
        if list(self.feature_blocks) != sorted(self.feature_blocks):
            raise InvalidInput("feature_blocks: ids must be ascending")
        positions = np.concatenate([np.zeros(0, dtype=np.int64), *self.feature_blocks.values()])
        if not np.array_equal(np.sort(positions), np.arange(len(positions))):
            raise InvalidInput("feature_blocks: every feature must occur exactly once")
        if not len(positions) <= self.feature_count <= MAX_FEATURES:
            raise InvalidInput("feature_count: is below the number of this party's features, or too large")
        if any(cut.features[-1] >= len(positions) for cut in self.ignored):
            raise InvalidInput("ignored.features: a position beyond the party's features")

    def _check_parties(self) -> None:
        check_names(self.clients, "clients", limit=MAX_CLIENTS)
        if self.party not in self.clients or not self.label_holders <= set(self.clients):
            raise InvalidInput("clients: this party and all label holders must be among them")
        position = {client: number for number, client in enumerate(self.clients)}
        for opened in self.cohorts:
            places = [position.get(holder, -1) for holder in opened.cohort.holders]
            if self.party not in opened.cohort.holders or -1 in places or places != sorted(set(places)):
                raise InvalidInput("cohorts: holders must be clients in roster order, this party among them")
            if not 0 <= opened.leaf < len(self.leaves) or self.leaves[opened.leaf] != opened.cohort.leaf(opened.salt):
                raise InvalidInput("cohorts: the leaf of a cohort is not among the leaves of the federation")

    def _find_holders(self) -> None:
        """Makes the holders of each block; every block must be in one cohort, and cohorts of one kind must differ."""
        sizes = dict(zip(self.block_ids.tolist(), self.block_sizes.tolist(), strict=True))
        feature_sizes = {block: len(positions) for block, positions in self.feature_blocks.items()}
        for name, features, due in (("holders", False, sizes), ("feature_holders", True, feature_sizes)):
            own = [opened.cohort for opened in self.cohorts if opened.cohort.features is features]
            listed = [pair for cohort in own for pair in zip(cohort.blocks, cohort.sizes, strict=True)]
            if len({cohort.holders for cohort in own}) != len(own) or sorted(listed) != sorted(due.items()):
                raise InvalidInput("cohorts: each block of this party must be in exactly one cohort, with its size")
            held = {block: cohort.holders for cohort in own for block in cohort.blocks}
            object.__setattr__(self, name, MappingProxyType({block: held[block] for block in due}))
        counts = [sum(holder in self.label_holders for holder in held_by) for held_by in self.holders.values()]
        object.__setattr__(self, "label_holder_counts", frozen_int64(np.array(counts, dtype=np.int64), "counts"))
        shared = np.array([len(held_by) > 1 for held_by in self.holders.values()], dtype=bool)
        shared.setflags(write=False)
        object.__setattr__(self, "shared", shared)

    def _check_holder_counts(self) -> None:
        """Refuses counts by number of holders that do not add up, or are below this party's own."""
        own_features = {block: len(positions) for block, positions in self.feature_blocks.items()}
        own_samples = dict(zip(self.block_ids.tolist(), self.block_sizes.tolist(), strict=True))
        for name, total, held, sizes in (
            ("samples_by_holders", self.sample_count, self.holders, own_samples),
            ("features_by_holders", self.feature_count, self.feature_holders, own_features),
        ):
            counts: tuple[int, ...] = getattr(self, name)
            if len(counts) != len(self.clients) or sum(counts) != total:
                raise InvalidInput(f"{name}: must have one count for each number of holders, {total} in all")
            own = [0] * len(counts)
            for block, size in sizes.items():
                own[len(held[block]) - 1] += size
            if any(mine > count for mine, count in zip(own, counts, strict=True)):
                raise InvalidInput(f"{name}: a count is below that of this party alone")
