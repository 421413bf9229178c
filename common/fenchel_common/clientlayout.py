"""One party's view of where its samples live in the encrypted vectors: which of its rows fill which of its blocks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from fenchel_common.errors import InvalidInput
from fenchel_common.layout import MAX_CLIENTS, MAX_SAMPLES, all_within, check_counts, frozen_int64, is_ascending


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
    """One party's view of the layout: its blocks, and the rows that fill them.

    Attributes
    ----------
    sample_count
        N, the number of distinct samples in the federation.
    slots
        S, the most samples in a block.
    block_ids
        (B,) the ids of this party's blocks, ascending.
    block_sizes
        (B,) the number of samples in each block.
    label_holder_counts
        (B,) |B_n|: the number of the block's holders that have labels.
    shared
        (B,) whether another party holds the block too.
    rows
        (n,) the row of this party's shard in each slot, for the blocks in the order of `block_ids`. A row
        occurs exactly once.
    ignored
        The features that an earlier party gives instead of this one (`overlap = "first"`).
    feature_blocks
        For each of this party's blocks of features their positions among its own. A feature occurs exactly once. The
        server counts features by pseudonym; `in_columns` gives the layout that counts them as the party's table does.
    columns
        (m,) the position in the party's table of each feature that the server counts; no part of any message.
    """

    sample_count: int
    slots: int
    block_ids: NDArray[np.int64]
    block_sizes: NDArray[np.int64]
    label_holder_counts: NDArray[np.int64]
    shared: NDArray[np.bool_]
    rows: NDArray[np.int64]
    ignored: tuple[IgnoredFeatures, ...] = ()
    feature_blocks: Mapping[int, NDArray[np.int64]] = field(default_factory=dict)
    columns: NDArray[np.int64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        features = {
            block: frozen_int64(positions, "feature_blocks") for block, positions in self.feature_blocks.items()
        }
        object.__setattr__(self, "feature_blocks", MappingProxyType(features))
        for name in ("block_ids", "block_sizes", "label_holder_counts", "rows"):
            object.__setattr__(self, name, frozen_int64(getattr(self, name), name))
        shared = np.array(self.shared, dtype=bool)
        shared.setflags(write=False)
        object.__setattr__(self, "shared", shared)
        count = sum(len(positions) for positions in features.values())
        object.__setattr__(self, "columns", frozen_int64(np.arange(count), "columns"))
        check_counts(self.sample_count, self.slots)
        self._check_blocks()
        self._check_rows()
        self._check_features()

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
        arrays = ("block_ids", "block_sizes", "label_holder_counts", "shared", "rows")
        return (
            (self.sample_count, self.slots, self.ignored) == (other.sample_count, other.slots, other.ignored)
            and all(np.array_equal(getattr(self, name), getattr(other, name)) for name in arrays)
            and self.feature_blocks.keys() == other.feature_blocks.keys()
            and all(np.array_equal(own, other.feature_blocks[block]) for block, own in self.feature_blocks.items())
        )

    def _check_blocks(self) -> None:
        count = len(self.block_ids)
        for name in ("block_sizes", "label_holder_counts", "shared"):
            if getattr(self, name).shape != (count,):
                raise InvalidInput(f"{name}: must have one entry for each of the {count} blocks")
        if not is_ascending(self.block_ids) or not all_within(self.block_ids, 0, MAX_SAMPLES):
            raise InvalidInput("block_ids: must be ascending, from 0 up")
        if not all_within(self.block_sizes, 1, self.slots):
            raise InvalidInput(f"block_sizes: a block must have 1 to {self.slots} samples")
        if not all_within(self.label_holder_counts, 0, MAX_CLIENTS):
            raise InvalidInput(f"label_holder_counts: must lie between 0 and {MAX_CLIENTS}")
        for cut in self.ignored:
            if not np.isin(cut.block_ids, self.block_ids).all():
                raise InvalidInput("ignored: names a block that this party does not hold")

    def _check_rows(self) -> None:
        count = int(self.block_sizes.sum())
        if self.rows.shape != (count,) or count > self.sample_count:
            raise InvalidInput("rows: must have one entry for each slot in use, at most sample_count in all")
        if not np.array_equal(np.sort(self.rows), np.arange(count)):
            raise InvalidInput("rows: every row of the shard must occur exactly once")

    def _check_features(self) -> None:
        if any(not 1 <= len(positions) <= self.slots for positions in self.feature_blocks.values()):
            raise InvalidInput(f"feature_blocks: a block must have 1 to {self.slots} features")
        if list(self.feature_blocks) != sorted(self.feature_blocks):
            raise InvalidInput("feature_blocks: ids must be ascending")
        positions = np.concatenate([np.zeros(0, dtype=np.int64), *self.feature_blocks.values()])
        if not np.array_equal(np.sort(positions), np.arange(len(positions))):
            raise InvalidInput("feature_blocks: every feature must occur exactly once")
        if any(cut.features[-1] >= len(positions) for cut in self.ignored):
            raise InvalidInput("ignored.features: a position beyond the party's features")
