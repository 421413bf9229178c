"""Where each sample lives in the encrypted vectors.

The samples of a federation are cut into *blocks* of at most S slots. All samples of a block have the same holders,
so whoever may decrypt one slot may decrypt the block. The server knows a block by its number, size and
holders (`FederationLayout`); a party knows which of its own rows fill which of its blocks (`ClientLayout`).
Neither holds a sample id.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId

MAX_SAMPLES = 10_000_000
MAX_PARTY_SAMPLES = 4_000_000
MAX_SLOTS = 1024
MAX_CLIENTS = 1024
MAX_FEATURES = 2_000_000
MAX_NAME_CHARS = 256
MAX_NAMES_BYTES = 64 * 1024 * 1024
"""What all names of one party's features may take together, each with one byte to end it."""


@dataclass(frozen=True, slots=True)
class Block:
    """Up to S samples with the same holders, who are listed in roster order."""

    id: int
    size: int
    holders: tuple[ClientId, ...]


@dataclass(frozen=True, slots=True, eq=False)
class FeatureBlock:
    """Up to S features with the same holders, who are listed in roster order; `features` are ascending indices."""

    id: int
    holders: tuple[ClientId, ...]
    features: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class FederationLayout:
    """The server's view: who holds which blocks and which features, and who holds labels.

    Attributes
    ----------
    clients
        The parties in roster order.
    sample_count
        N, the number of distinct samples, which is the sum of the block sizes.
    slots
        S, the most samples a block holds.
    blocks
        Ordered by id, which counts from 0.
    features
        The names of all features, sorted; a feature's index here is its place in the model.
    client_features
        For each client the ascending indices into `features` that it holds.
    label_holders
        The parties whose shards have labels.
    """

    clients: tuple[ClientId, ...]
    sample_count: int
    slots: int
    blocks: tuple[Block, ...]
    features: tuple[str, ...]
    client_features: Mapping[ClientId, NDArray[np.int64]]
    label_holders: frozenset[ClientId]

    def __post_init__(self) -> None:
        indices = {client: _frozen_int64(held, "client_features") for client, held in self.client_features.items()}
        object.__setattr__(self, "client_features", MappingProxyType(indices))
        self._check_names()
        self._check_features()
        self._check_blocks()

    def blocks_of(self, client: ClientId) -> tuple[int, ...]:
        """The ids of the blocks that `client` holds, ascending."""
        if client not in self.client_features:
            raise InvalidInput(f"clients: {client!r} is not part of this layout")
        return tuple(block.id for block in self.blocks if client in block.holders)

    def label_holders_of(self, block_id: int) -> tuple[ClientId, ...]:
        """The holders of a block that have labels, in roster order; their number is the paper's |B_n|."""
        return tuple(client for client in self.blocks[block_id].holders if client in self.label_holders)

    def feature_cohorts(self) -> dict[tuple[ClientId, ...], list[int]]:
        """The features with exactly the same holders, by these in roster order, in the order of first mention."""
        holders: list[list[ClientId]] = [[] for _ in self.features]
        for client in self.clients:
            for feature in self.client_features[client]:
                holders[int(feature)].append(client)
        cohorts: dict[tuple[ClientId, ...], list[int]] = {}
        for feature, held_by in enumerate(holders):
            cohorts.setdefault(tuple(held_by), []).append(feature)
        return cohorts

    def feature_blocks(self) -> tuple[FeatureBlock, ...]:
        """The features in blocks of one cohort: whoever may see one of a block may see all of it."""
        pieces = [
            (held_by, features[start : start + self.slots])
            for held_by, features in self.feature_cohorts().items()
            for start in range(0, len(features), self.slots)
        ]
        return tuple(
            FeatureBlock(number, held_by, np.array(piece, dtype=np.int64))
            for number, (held_by, piece) in enumerate(pieces)
        )

    @property
    def is_horizontal(self) -> bool:
        """Whether no sample is held by more than one party."""
        return all(len(block.holders) == 1 for block in self.blocks)

    @property
    def partition(self) -> Literal["horizontal", "vertical", "hybrid"]:
        """How the table is split: into whole rows, into whole columns of all rows, or into parts of both."""
        if self.is_horizontal and all(len(held) == len(self.features) for held in self.client_features.values()):
            return "horizontal"
        vertical = all(len(block.holders) == len(self.clients) for block in self.blocks)
        return "vertical" if vertical else "hybrid"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FederationLayout):
            return NotImplemented
        return (
            self.clients == other.clients
            and self.sample_count == other.sample_count
            and self.slots == other.slots
            and self.blocks == other.blocks
            and self.features == other.features
            and self.label_holders == other.label_holders
            and all(
                np.array_equal(self.client_features[client], other.client_features[client]) for client in self.clients
            )
        )

    def _check_names(self) -> None:
        check_names(self.clients, "clients", limit=MAX_CLIENTS)
        check_names(self.features, "features", limit=MAX_FEATURES)
        if not self.clients:
            raise InvalidInput("clients: a layout needs at least one party")
        if list(self.features) != sorted(self.features):
            raise InvalidInput("features: names must be sorted")
        if not self.label_holders <= set(self.clients):
            raise InvalidInput("label_holders: every label holder must be one of the clients")

    def _check_features(self) -> None:
        if set(self.client_features) != set(self.clients):
            raise InvalidInput("client_features: must list exactly the clients")
        held = np.zeros(len(self.features), dtype=bool)
        for indices in self.client_features.values():
            if not _is_ascending(indices) or not _all_within(indices, 0, len(held) - 1):
                raise InvalidInput("client_features: indices must be ascending and point into features")
            held[indices] = True
        if not held.all():
            raise InvalidInput("client_features: every feature must have a holder")

    def _check_blocks(self) -> None:
        _check_counts(self.sample_count, self.slots)
        place = {client: position for position, client in enumerate(self.clients)}
        for expected_id, block in enumerate(self.blocks):
            if block.id != expected_id:
                raise InvalidInput("blocks: ids must count from 0 without gaps")
            if not 1 <= block.size <= self.slots:
                raise InvalidInput(f"blocks: block {block.id} must hold 1 to {self.slots} samples")
            order = [place.get(holder, -1) for holder in block.holders]
            if not order or order[0] < 0 or not _is_ascending(np.array(order)):
                raise InvalidInput(f"blocks: the holders of block {block.id} must be clients in roster order")
        if sum(block.size for block in self.blocks) != self.sample_count:
            raise InvalidInput("sample_count: must equal the sum of the block sizes")


@dataclass(frozen=True, slots=True, eq=False)
class IgnoredFeatures:
    """Features that a party must leave out in some of its blocks, because an earlier party gives them.

    `features` are ascending places among the party's features, sorted by name.
    """

    features: NDArray[np.int64]
    block_ids: NDArray[np.int64]

    def __post_init__(self) -> None:
        for name in ("features", "block_ids"):
            numbers = _frozen_int64(getattr(self, name), f"ignored.{name}")
            object.__setattr__(self, name, numbers)
            if not len(numbers) or not _is_ascending(numbers):
                raise InvalidInput(f"ignored.{name}: must be ascending, at least one")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IgnoredFeatures):
            return NotImplemented
        return np.array_equal(self.features, other.features) and np.array_equal(self.block_ids, other.block_ids)


@dataclass(frozen=True, slots=True, eq=False)
class ClientLayout:
    """One party's view: which of its rows fill which of its blocks.

    Attributes
    ----------
    sample_count
        N, the number of distinct samples in the federation.
    slots
        S, the most samples a block holds.
    block_ids
        (B,) the ids of this party's blocks, ascending.
    block_sizes
        (B,) how many samples each block holds.
    holder_counts
        (B,) |B_n|: how many of the block's holders have labels.
    shared
        (B,) whether another party holds the block too.
    rows
        (n,) the row of this party's shard in each slot, for the blocks in the order of `block_ids`. A row
        occurs exactly once.
    ignored
        What an earlier party gives in this one's stead (`overlap = "first"`).
    feature_blocks
        For each of this party's blocks of features the places of these among its own, sorted by name. A feature
        occurs exactly once.
    """

    sample_count: int
    slots: int
    block_ids: NDArray[np.int64]
    block_sizes: NDArray[np.int64]
    holder_counts: NDArray[np.int64]
    shared: NDArray[np.bool_]
    rows: NDArray[np.int64]
    ignored: tuple[IgnoredFeatures, ...] = ()
    feature_blocks: Mapping[int, NDArray[np.int64]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        features = {block: _frozen_int64(places, "feature_blocks") for block, places in self.feature_blocks.items()}
        object.__setattr__(self, "feature_blocks", MappingProxyType(features))
        for name in ("block_ids", "block_sizes", "holder_counts", "rows"):
            object.__setattr__(self, name, _frozen_int64(getattr(self, name), name))
        shared = np.array(self.shared, dtype=bool)
        shared.setflags(write=False)
        object.__setattr__(self, "shared", shared)
        _check_counts(self.sample_count, self.slots)
        self._check_blocks()
        self._check_rows()
        self._check_features()

    @property
    def offsets(self) -> NDArray[np.int64]:
        """(B + 1,) where each block starts in `rows`, and where the last one ends."""
        return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(self.block_sizes)])

    def rows_of(self, block_ids: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows of the given blocks of this party, in the given order."""
        wanted = np.asarray(block_ids, dtype=np.int64)
        places = np.searchsorted(self.block_ids, wanted)
        if (places >= len(self.block_ids)).any() or not np.array_equal(self.block_ids[places], wanted):
            raise InvalidInput("block_ids: not all of them are blocks of this party")
        offsets = self.offsets
        pieces = [self.rows[offsets[place] : offsets[place + 1]] for place in places]
        return np.concatenate(pieces) if pieces else np.zeros(0, dtype=np.int64)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ClientLayout):
            return NotImplemented
        arrays = ("block_ids", "block_sizes", "holder_counts", "shared", "rows")
        return (
            (self.sample_count, self.slots, self.ignored) == (other.sample_count, other.slots, other.ignored)
            and all(np.array_equal(getattr(self, name), getattr(other, name)) for name in arrays)
            and self.feature_blocks.keys() == other.feature_blocks.keys()
            and all(np.array_equal(held, other.feature_blocks[block]) for block, held in self.feature_blocks.items())
        )

    def _check_blocks(self) -> None:
        count = len(self.block_ids)
        for name in ("block_sizes", "holder_counts", "shared"):
            if getattr(self, name).shape != (count,):
                raise InvalidInput(f"{name}: must have one entry for each of the {count} blocks")
        if not _is_ascending(self.block_ids) or not _all_within(self.block_ids, 0, MAX_SAMPLES):
            raise InvalidInput("block_ids: must be ascending, from 0 up")
        if not _all_within(self.block_sizes, 1, self.slots):
            raise InvalidInput(f"block_sizes: a block must hold 1 to {self.slots} samples")
        if not _all_within(self.holder_counts, 0, MAX_CLIENTS):
            raise InvalidInput(f"holder_counts: must lie between 0 and {MAX_CLIENTS}")
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
        if any(not 1 <= len(places) <= self.slots for places in self.feature_blocks.values()):
            raise InvalidInput(f"feature_blocks: a block must hold 1 to {self.slots} features")
        if list(self.feature_blocks) != sorted(self.feature_blocks):
            raise InvalidInput("feature_blocks: ids must be ascending")
        places = np.concatenate([np.zeros(0, dtype=np.int64), *self.feature_blocks.values()])
        if not np.array_equal(np.sort(places), np.arange(len(places))):
            raise InvalidInput("feature_blocks: every feature must occur exactly once")
        if any(cut.features[-1] >= len(places) for cut in self.ignored):
            raise InvalidInput("ignored.features: a place beyond the party's features")


def check_names(names: Iterable[str], field: str, *, limit: int) -> None:
    """Refuses names that are empty, overlong or repeated, that have a zero character, or too many of them."""
    listed = tuple(names)
    if len(listed) > limit:
        raise InvalidInput(f"{field}: more than {limit} names")
    if any("\0" in name for name in listed):
        raise InvalidInput(f"{field}: a name must not have a zero character")
    if any(not 1 <= len(name) <= MAX_NAME_CHARS for name in listed):
        raise InvalidInput(f"{field}: a name must have 1 to {MAX_NAME_CHARS} characters")
    if len(set(listed)) != len(listed):
        raise InvalidInput(f"{field}: a name occurs twice")


def _check_counts(sample_count: int, slots: int) -> None:
    if not 1 <= sample_count <= MAX_SAMPLES:
        raise InvalidInput(f"sample_count: must lie between 1 and {MAX_SAMPLES}")
    if not 1 <= slots <= MAX_SLOTS:
        raise InvalidInput(f"slots: must lie between 1 and {MAX_SLOTS}")


def _frozen_int64(values: NDArray[np.int64], field: str) -> NDArray[np.int64]:
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise InvalidInput(f"{field}: must be a one-dimensional array of integers")
    frozen = array.astype(np.int64)
    frozen.setflags(write=False)
    return frozen


def _is_ascending(values: NDArray[np.int64]) -> bool:
    return bool((np.diff(values) > 0).all())


def _all_within(values: NDArray[np.int64], low: int, high: int) -> bool:
    return bool(((values >= low) & (values <= high)).all())
