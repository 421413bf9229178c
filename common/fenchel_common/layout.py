"""The positions of samples and features in the encrypted vectors.

The samples of a federation are divided into *blocks* of at most S slots. All samples of a block have the same holders,
so a party that may decrypt one slot may decrypt the block. The features are divided into blocks in the same way, of at
most as many slots as a ciphertext has of 64 bits. The server knows a block by its number, size and holders
(`FederationLayout`); a party knows which of its own rows fill which of its blocks (`clientlayout.ClientLayout`).
Neither layout has a sample id.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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


@dataclass(frozen=True, slots=True)
class Block:
    """Up to S samples with the same holders, who are listed in roster order."""

    id: int
    size: int
    holders: tuple[ClientId, ...]


@dataclass(frozen=True, slots=True, eq=False)
class FeatureBlock:
    """Features with the same holders, who are listed in roster order; `features` are ascending indices."""

    id: int
    holders: tuple[ClientId, ...]
    features: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class BlockIndex:
    """Who holds which blocks of one kind. A block's id is its position in `holders` and `sizes`.

    Attributes
    ----------
    clients
        The parties in roster order.
    holders
        The holders of each block in roster order.
    sizes
        The number of slots that each block uses.
    shared
        The blocks with more than one holder.
    """

    clients: tuple[ClientId, ...]
    holders: tuple[tuple[ClientId, ...], ...]
    sizes: tuple[int, ...]
    shared: frozenset[int] = field(init=False)
    _sizes_of: Mapping[ClientId, Mapping[int, int]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        sizes_of: dict[ClientId, dict[int, int]] = {client: {} for client in self.clients}
        for block, (held_by, size) in enumerate(zip(self.holders, self.sizes, strict=True)):
            for client in held_by:
                sizes_of[client][block] = size
        read_only = {client: MappingProxyType(sizes) for client, sizes in sizes_of.items()}
        object.__setattr__(self, "_sizes_of", MappingProxyType(read_only))
        shared = frozenset(block for block, held_by in enumerate(self.holders) if len(held_by) > 1)
        object.__setattr__(self, "shared", shared)

    def of(self, client: ClientId) -> Mapping[int, int]:
        """The sizes of the client's blocks, by ascending id."""
        if client not in self._sizes_of:
            raise InvalidInput(f"clients: {client!r} is not part of this layout")
        return self._sizes_of[client]

    def shared_of(self, client: ClientId) -> tuple[int, ...]:
        """The blocks that the client holds together with others, ascending."""
        return tuple(block for block in self.of(client) if block in self.shared)

    def first_holders(self, among: Collection[ClientId]) -> dict[ClientId, tuple[int, ...]]:
        """The blocks that each client reports on, because it is the first of their holders `among` the given clients.

        Blocks without a holder among them are left out, and so are clients without blocks.
        """
        found: dict[ClientId, list[int]] = {}
        for block, held_by in enumerate(self.holders):
            first = next((client for client in held_by if client in among), None)
            if first is not None:
                found.setdefault(first, []).append(block)
        return {client: tuple(blocks) for client, blocks in found.items()}

    def by_holders(self) -> tuple[int, ...]:
        """How many slots have exactly 1, 2, … holders, up to the number of clients."""
        counts = [0] * len(self.clients)
        for held_by, size in zip(self.holders, self.sizes, strict=True):
            counts[len(held_by) - 1] += size
        return tuple(counts)

    def complete(self, present: frozenset[ClientId]) -> frozenset[int]:
        """The blocks all of whose holders are present."""
        return frozenset(block for block, held_by in enumerate(self.holders) if present.issuperset(held_by))


@dataclass(frozen=True, slots=True, eq=False)
class FederationLayout:
    """The server's view: who holds which blocks and which features, and who holds labels.

    Attributes
    ----------
    clients
        The parties in roster order.
    sample_count
        N, the number of distinct samples, which is the sum of the block sizes.
    slots, feature_slots
        S, the most samples in a block, and the most features in a block.
    blocks
        Ordered by id, which counts from 0.
    features
        The pseudonyms of all features, sorted; a feature's index here is its position in the model.
    client_features
        For each client the ascending indices into `features` that it holds.
    label_holders
        The parties whose shards have labels.
    feature_blocks
        The features in blocks, ordered by id, which counts from 0.
    sample_index, feature_index
        Who holds which block of samples, and which block of features.
    label_index
        Which holders of a block of samples have labels; their number is the paper's |B_n|.
    reporters
        The blocks of samples that each client reports on: it is the first of their holders that has labels.
    """

    clients: tuple[ClientId, ...]
    sample_count: int
    slots: int
    feature_slots: int
    blocks: tuple[Block, ...]
    features: tuple[str, ...]
    client_features: Mapping[ClientId, NDArray[np.int64]]
    label_holders: frozenset[ClientId]
    feature_blocks: tuple[FeatureBlock, ...] = field(init=False, repr=False)
    sample_index: BlockIndex = field(init=False, repr=False)
    label_index: BlockIndex = field(init=False, repr=False)
    feature_index: BlockIndex = field(init=False, repr=False)
    reporters: Mapping[ClientId, tuple[int, ...]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        indices = {client: frozen_int64(own, "client_features") for client, own in self.client_features.items()}
        object.__setattr__(self, "client_features", MappingProxyType(indices))
        self._check_names()
        self._check_features()
        self._check_blocks()
        self._make_indices()

    def check_labelled(self) -> None:
        """Refuses a federation with samples whose label no party has."""
        if not all(self.label_index.holders):
            raise InvalidInput("blocks: every sample needs a party that has its label")

    def samples_of(self, client: ClientId) -> int:
        """The number of samples that the client holds."""
        return sum(self.sample_index.of(client).values())

    def feature_positions(self, client: ClientId) -> dict[int, NDArray[np.int64]]:
        """For each feature block of the client: the positions of its features among the client's own features."""
        position_of = np.empty(len(self.features), dtype=np.int64)
        position_of[self.client_features[client]] = np.arange(len(self.client_features[client]))
        return {block: position_of[self.feature_blocks[block].features] for block in self.feature_index.of(client)}

    def feature_cohorts(self) -> dict[tuple[ClientId, ...], NDArray[np.int64]]:
        """The features with exactly the same holders, by these holders; ordered by their first feature."""
        held = [self.client_features[client] for client in self.clients]
        found = by_holders(held, count=len(self.features))
        return {tuple(self.clients[holder] for holder in holders): own for holders, own in found.items()}

    @property
    def is_horizontal(self) -> bool:
        """Whether no sample is held by more than one party."""
        return not self.sample_index.shared

    @property
    def is_vertical(self) -> bool:
        """Whether every party holds every sample."""
        return all(len(block.holders) == len(self.clients) for block in self.blocks)

    @property
    def partition(self) -> Literal["horizontal", "vertical", "hybrid"]:
        """How the table is split: into whole rows, into whole columns of all rows, or into parts of both."""
        if self.is_horizontal and all(len(own) == len(self.features) for own in self.client_features.values()):
            return "horizontal"
        return "vertical" if self.is_vertical else "hybrid"

    @property
    def cohort_sizes(self) -> Counter[tuple[ClientId, ...]]:
        """How many samples have exactly these holders."""
        sizes: Counter[tuple[ClientId, ...]] = Counter()
        for block in self.blocks:
            sizes[block.holders] += block.size
        return sizes

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FederationLayout):
            return NotImplemented
        return (
            self.clients == other.clients
            and self.sample_count == other.sample_count
            and (self.slots, self.feature_slots) == (other.slots, other.feature_slots)
            and self.blocks == other.blocks
            and self.features == other.features
            and self.label_holders == other.label_holders
            and all(
                np.array_equal(self.client_features[client], other.client_features[client]) for client in self.clients
            )
        )

    def _make_indices(self) -> None:
        holders = tuple(block.holders for block in self.blocks)
        labelled = tuple(tuple(client for client in group if client in self.label_holders) for group in holders)
        sizes = tuple(block.size for block in self.blocks)
        feature_blocks = self._cut_features()
        feature_holders = tuple(block.holders for block in feature_blocks)
        feature_sizes = tuple(len(block.features) for block in feature_blocks)
        label_index = BlockIndex(self.clients, labelled, sizes)
        object.__setattr__(self, "feature_blocks", feature_blocks)
        object.__setattr__(self, "sample_index", BlockIndex(self.clients, holders, sizes))
        object.__setattr__(self, "label_index", label_index)
        object.__setattr__(self, "feature_index", BlockIndex(self.clients, feature_holders, feature_sizes))
        object.__setattr__(self, "reporters", MappingProxyType(label_index.first_holders(self.label_holders)))

    def _cut_features(self) -> tuple[FeatureBlock, ...]:
        """The features in blocks of one cohort: a party that may see one feature of a block may see all."""
        cohorts = {holders: frozen_int64(own, "features") for holders, own in self.feature_cohorts().items()}
        return tuple(
            FeatureBlock(number, holders, piece)
            for number, (holders, piece) in enumerate(cut(cohorts, self.feature_slots))
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
        has_holder = np.zeros(len(self.features), dtype=bool)
        for indices in self.client_features.values():
            if not is_ascending(indices) or not all_within(indices, 0, len(has_holder) - 1):
                raise InvalidInput("client_features: indices must be ascending and point into features")
            has_holder[indices] = True
        if not has_holder.all():
            raise InvalidInput("client_features: every feature must have a holder")

    def _check_blocks(self) -> None:
        check_counts(self.sample_count, self.slots, self.feature_slots)
        position_of = {client: position for position, client in enumerate(self.clients)}
        for expected_id, block in enumerate(self.blocks):
            if block.id != expected_id:
                raise InvalidInput("blocks: ids must count from 0 without gaps")
            if not 1 <= block.size <= self.slots:
                raise InvalidInput(f"blocks: block {block.id} must have 1 to {self.slots} samples")
            order = [position_of.get(holder, -1) for holder in block.holders]
            if not order or order[0] < 0 or not is_ascending(np.array(order)):
                raise InvalidInput(f"blocks: the holders of block {block.id} must be clients in roster order")
        if sum(block.size for block in self.blocks) != self.sample_count:
            raise InvalidInput("sample_count: must equal the sum of the block sizes")


def by_holders(held: Sequence[NDArray[np.int64]], *, count: int) -> dict[tuple[int, ...], NDArray[np.int64]]:
    """The numbers from 0 to `count` − 1 that exactly the same parties hold, ascending, by these parties.

    `held` has the numbers that each party holds; parties are named by their positions in it. The sets of parties are in
    the order of their first numbers.
    """
    code, masks = np.zeros(count, dtype=np.int64), np.zeros((len(held), count), dtype=bool)
    for mask, listed in zip(masks, held, strict=True):
        mask[listed] = True
        # Renumbered at each step, so that the codes stay below 2·count however many parties there are.
        code = np.unique(2 * code + mask, return_inverse=True)[1]
    order = np.argsort(code, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(code[order])) + 1)
    groups = sorted((group for group in groups if len(group)), key=lambda group: int(group[0]))
    return {tuple(np.flatnonzero(masks[:, group[0]]).tolist()): group for group in groups}


def cut(
    cohorts: Mapping[tuple[ClientId, ...], NDArray[np.int64]], slots: int
) -> Iterator[tuple[tuple[ClientId, ...], NDArray[np.int64]]]:
    """The members of each cohort in pieces of at most `slots`, each piece with its holders."""
    for holders, members in cohorts.items():
        for start in range(0, len(members), slots):
            yield holders, members[start : start + slots]


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


def check_counts(sample_count: int, slots: int, feature_slots: int) -> None:
    if not 1 <= sample_count <= MAX_SAMPLES:
        raise InvalidInput(f"sample_count: must lie between 1 and {MAX_SAMPLES}")
    for name, count in (("slots", slots), ("feature_slots", feature_slots)):
        if not 1 <= count <= MAX_SLOTS:
            raise InvalidInput(f"{name}: must lie between 1 and {MAX_SLOTS}")


def frozen_int64(values: NDArray[np.int64], field: str) -> NDArray[np.int64]:
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise InvalidInput(f"{field}: must be a one-dimensional array of integers")
    frozen = array.astype(np.int64)
    frozen.setflags(write=False)
    return frozen


def is_ascending(values: NDArray[np.int64]) -> bool:
    return bool((np.diff(values) > 0).all())


def all_within(values: NDArray[np.int64], low: int, high: int) -> bool:
    return bool(((values >= low) & (values <= high)).all())
