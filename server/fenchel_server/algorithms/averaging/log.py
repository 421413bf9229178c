"""The server's state of a run on the averaging rails: encrypted sums by block and round, which it cannot read.

Parties follow the same rules by the records alone, and accept exactly the entries and checkpoints that are due by them.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fenchel_common.algorithms.averaging.coordinates import pieces
from fenchel_common.algorithms.averaging.rails import Positions, StateUpdate, Sums, Vectors
from fenchel_common.blocks import BlockVector, joined
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.layout import BlockIndex, FederationLayout
from fenchel_common.wire.averaging_snapshot import Base, Entry


@dataclass(frozen=True, slots=True, eq=False)
class CoordinateBlock:
    """Up to S coordinates with the same holders, who are in roster order; a coordinate is feature·width + class."""

    holders: tuple[ClientId, ...]
    coordinates: Positions


def coordinate_blocks(layout: FederationLayout, *, width: int) -> dict[int, CoordinateBlock]:
    """The blocks of the model: features with the same holders, in the order of their pseudonyms, cut into S slots."""
    first_blocks: dict[tuple[ClientId, ...], int] = {}
    for block in layout.feature_blocks:
        first_blocks.setdefault(block.holders, block.id)
    found = {}
    for holders, features in layout.feature_cohorts().items():
        for piece in pieces(features, first_block=first_blocks[holders], width=width, slots=layout.slots):
            found[piece.number] = CoordinateBlock(holders, piece.coordinates)
    return found


def index_of(blocks: dict[int, CoordinateBlock], clients: tuple[ClientId, ...]) -> BlockIndex:
    """Who holds which block; a number that no block has is without holders."""
    missing = CoordinateBlock((), np.zeros(0, dtype=np.int64))
    listed = [blocks.get(number, missing) for number in range(max(blocks) + 1)]
    return BlockIndex(
        clients, tuple(block.holders for block in listed), tuple(len(block.coordinates) for block in listed)
    )


class AveragingLog:
    """The entries that make up the state, the bases from which they continue, and the clients' own memories.

    Attributes
    ----------
    index
        Who holds which block of coordinates.
    sizes
        The size of each block.
    base
        For a block, its state before the entry of a round; older entries of the block are removed. The state of a block
        without a base begins at zero.
    entries
        The sums of the rounds, oldest first.
    kept
        The vectors that the server keeps for each client alone.
    """

    def __init__(self, layout: FederationLayout, *, vectors: Vectors, width: int) -> None:
        self._vectors = vectors
        blocks = coordinate_blocks(layout, width=width)
        self.index = index_of(blocks, layout.clients)
        self.sizes = {number: len(block.coordinates) for number, block in sorted(blocks.items())}
        self.base: dict[int, Base] = {}
        self.entries: list[Entry] = []
        self.kept: dict[ClientId, dict[str, BlockVector]] = {}

    def update_for(self, client: ClientId, since: RoundId | None) -> StateUpdate:
        """The update for a client that has applied the entries up to round `since`, or none of them if None."""
        own = self.index.of(client)
        after = RoundId(-1) if since is None else since
        newer = [_restricted(entry, own) for entry in self.entries if entry.round_id > after]
        rebased = [block for block in own if block in self.base and self.base[block].round_id > after + 1]
        return StateUpdate(
            reset=since is None,
            base={name: base for name in self._vectors.state if (base := self._base_of(name, rebased)) is not None},
            entries=tuple(entry.sums for entry in newer if entry is not None),
            kept=self.kept.get(client, {}) if since is None else {},
        )

    def add(self, entry: Entry) -> None:
        """Adds the newest entry; if entries restate the whole state, older entries of its blocks are removed."""
        if self._vectors.restates:
            assert not entry.chosen, "an entry on chosen coordinates cannot restate whole blocks"
            self._forget(entry.blocks)
        self.entries.append(entry)

    def rebase(self, checkpoint: Sums, round_id: RoundId) -> None:
        """Takes the state of some blocks at the beginning of a round, and removes the entries that made this state.

        Called before the entry of the round is added.
        """
        (blocks,) = {vector.blocks for vector in checkpoint.values()}
        parts = {name: vector.parts() for name, vector in checkpoint.items()}
        for block in blocks:
            state = {name: BlockVector((block,), by_block[block]) for name, by_block in parts.items()}
            self.base[block] = Base(round_id, state)
        self._forget(blocks)
        oldest = min((self.base[block].round_id if block in self.base else 0) for block in self.sizes)
        self.entries = [entry for entry in self.entries if not entry.chosen or entry.round_id >= oldest]

    def _forget(self, blocks: Iterable[int]) -> None:
        removed = frozenset(blocks)
        remaining = (
            entry if entry.chosen else _restricted(entry, frozenset(entry.blocks) - removed) for entry in self.entries
        )
        self.entries = [entry for entry in remaining if entry is not None]

    def _base_of(self, name: str, blocks: Sequence[int]) -> BlockVector | None:
        return joined(blocks, {block: self.base[block].state[name].vector for block in blocks})


def _restricted(entry: Entry, blocks: Collection[int]) -> Entry | None:
    """The entry restricted to some blocks; None if it covers none of them."""
    if entry.chosen:
        return entry
    sums = {name: part for name, whole in entry.sums.items() if (part := whole.restricted_to(blocks)) is not None}
    return replace(entry, sums=sums) if sums else None
