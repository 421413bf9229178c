"""The server's state of a run on the averaging rails: encrypted sums by block and round, which it cannot read."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fenchel_common.algorithms.averaging.rails import Entry, Positions, StateUpdate, Vectors
from fenchel_common.blocks import BlockVector, joined
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.layout import BlockIndex, FederationLayout, cut
from fenchel_common.wire.averaging_snapshot import Base


@dataclass(frozen=True, slots=True, eq=False)
class CoordinateBlock:
    """Up to S coordinates with the same holders, who are in roster order; a coordinate is feature·width + class."""

    holders: tuple[ClientId, ...]
    coordinates: Positions


def coordinate_blocks(layout: FederationLayout, *, width: int) -> tuple[CoordinateBlock, ...]:
    """The blocks of the model: features with the same holders, in the order of their pseudonyms, cut into S slots."""
    cohorts = {
        who: [coordinate for feature in features for coordinate in range(feature * width, (feature + 1) * width)]
        for who, features in layout.feature_cohorts().items()
    }
    return tuple(
        CoordinateBlock(holders, np.array(coordinates, dtype=np.int64))
        for holders, coordinates in cut(cohorts, layout.slots)
    )


class AveragingLog:
    """The entries that make up the state, the bases from which they continue, and the clients' own memories.

    Attributes
    ----------
    index
        Who holds which block of coordinates.
    base
        For a block, its state before the entry of a round; older entries of the block are removed. The state of a block
        without a base begins at zero.
    entries
        The sums of the rounds, oldest first.
    kept
        The vectors that the server keeps for each client alone.
    """

    def __init__(self, layout: FederationLayout, *, vectors: Vectors, width: int) -> None:
        self._layout = layout
        self._vectors = vectors
        self._width = width
        self.blocks = coordinate_blocks(layout, width=width)
        self.index = BlockIndex(
            layout.clients,
            tuple(block.holders for block in self.blocks),
            tuple(len(block.coordinates) for block in self.blocks),
        )
        self.base: dict[int, Base] = {}
        self.entries: list[Entry] = []
        self.kept: dict[ClientId, dict[str, BlockVector]] = {}

    def update_for(self, client: ClientId, since: RoundId | None) -> StateUpdate:
        """The update for a client that has applied the entries up to round `since`, or none of them if None."""
        own = self.index.of(client)
        after = RoundId(-1) if since is None else since
        newer = [self._restricted(entry, own) for entry in self.entries if entry.round_id > after]
        rebased = [block for block in own if block in self.base and self.base[block].round_id > after + 1]
        return StateUpdate(
            reset=since is None,
            layout=self._positions(client) if since is None else None,
            base={name: base for name in self._vectors.state if (base := self._base_of(name, rebased)) is not None},
            entries=tuple(entry for entry in newer if entry is not None),
            kept=self.kept.get(client, {}) if since is None else {},
        )

    def add(self, entry: Entry) -> None:
        """Adds the newest entry; if entries restate the whole state, older entries of its blocks are removed."""
        if self._vectors.restates:
            assert entry.coordinates is None, "an entry on chosen coordinates cannot restate whole blocks"
            self._forget(entry.weights.keys(), before=entry.round_id)
        self.entries.append(entry)

    def rebase(self, checkpoint: Mapping[str, BlockVector], round_id: RoundId) -> None:
        """Takes the state of some blocks at the beginning of a round, and removes the entries that made this state."""
        (blocks,) = {vector.blocks for vector in checkpoint.values()}
        parts = {name: vector.parts() for name, vector in checkpoint.items()}
        for block in blocks:
            state = {name: BlockVector((block,), by_block[block]) for name, by_block in parts.items()}
            self.base[block] = Base(round_id, state)
        self._forget(blocks, before=round_id)
        oldest = min((self.base[block].round_id if block in self.base else 0) for block in range(len(self.blocks)))
        self.entries = [entry for entry in self.entries if entry.coordinates is None or entry.round_id >= oldest]

    def _forget(self, blocks: Iterable[int], *, before: RoundId) -> None:
        removed = frozenset(blocks)
        kept: list[Entry] = []
        for entry in self.entries:
            left = entry
            if entry.round_id < before and entry.coordinates is None:
                remaining = self._restricted(entry, entry.weights.keys() - removed)
                if remaining is None:
                    continue
                left = remaining
            kept.append(left)
        self.entries = kept

    def _restricted(self, entry: Entry, blocks: Collection[int]) -> Entry | None:
        """The entry restricted to some blocks; None if it covers none of them."""
        if entry.coordinates is not None:
            return entry
        chosen = {block: weight for block, weight in entry.weights.items() if block in blocks}
        if len(chosen) == len(entry.weights):
            return entry
        sums = {name: part for name, whole in entry.sums.items() if (part := whole.restricted_to(chosen)) is not None}
        return replace(entry, weights=chosen, sums=sums) if chosen else None

    def _base_of(self, name: str, blocks: Sequence[int]) -> BlockVector | None:
        return joined(blocks, {block: self.base[block].state[name].vector for block in blocks})

    def _positions(self, client: ClientId) -> dict[int, Positions]:
        """For each of the client's blocks, the positions of its coordinates among the client's coordinates."""
        features = self._layout.client_features[client]
        return {
            block: np.searchsorted(features, self.blocks[block].coordinates // self._width) * self._width
            + self.blocks[block].coordinates % self._width
            for block in self.index.of(client)
        }
