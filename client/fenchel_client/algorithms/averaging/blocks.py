"""A party's blocks of coordinates, as its own layout gives them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fenchel_common.algorithms.averaging.coordinates import coordinates_of, pieces
from fenchel_common.algorithms.averaging.rails import Positions
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.ids import ClientId


@dataclass(frozen=True, slots=True, eq=False)
class CoordinateBlocks:
    """The blocks of a party's coordinates, which are its features by name, times `width`.

    Attributes
    ----------
    party
        The party itself.
    length
        The number of its coordinates.
    positions
        The positions of each block's coordinates among the party's own.
    holders
        The holders of each block, in roster order.
    numbered
        The position among the party's coordinates of each one that the server counts.
    shared_by_all
        Whether every party holds every feature of this one.
    """

    party: ClientId
    slots: int
    length: int
    positions: Mapping[int, Positions]
    holders: Mapping[int, tuple[ClientId, ...]]
    numbered: Positions
    shared_by_all: bool

    @classmethod
    def of(cls, layout: ClientLayout, *, width: int) -> "CoordinateBlocks":
        found: dict[int, tuple[Positions, tuple[ClientId, ...]]] = {}
        for opened in layout.cohorts:
            cohort = opened.cohort
            if cohort.features:
                features = np.concatenate([layout.feature_blocks[block] for block in cohort.blocks])
                for piece in pieces(features, first_block=cohort.blocks[0], width=width, slots=layout.slots):
                    found[piece.number] = (piece.coordinates, cohort.holders)
        ordered = dict(sorted(found.items()))
        return cls(
            party=layout.party,
            slots=layout.slots,
            length=len(layout.columns) * width,
            positions={block: positions for block, (positions, _) in ordered.items()},
            holders={block: holders for block, (_, holders) in ordered.items()},
            numbered=coordinates_of(layout.columns, width),
            shared_by_all=all(holders == layout.clients for _, holders in ordered.values()),
        )

    @property
    def sizes(self) -> dict[int, int]:
        return {block: len(positions) for block, positions in self.positions.items()}

    @property
    def beside(self) -> frozenset[ClientId]:
        """The holders, this party included, of those of its blocks that three or more parties hold.

        The two holders of a block know each other's part by subtraction, and need no masks between them.
        """
        several = (holders for holders in set(self.holders.values()) if len(holders) > 2)
        return frozenset(holder for holders in several for holder in holders)

    def names(self, features: Sequence[str], *, width: int) -> list[str]:
        """The name of each coordinate: that of its feature, and its class."""
        return [f"{feature}/{number}" for feature in features for number in range(width)]

    def held_by(self, parties: Collection[ClientId]) -> tuple[int, ...]:
        """The blocks that at least one of these parties holds, ascending."""
        held = {holders: any(holder in parties for holder in holders) for holders in set(self.holders.values())}
        return tuple(block for block, holders in self.holders.items() if held[holders])

    def first_holders(self, parties: Collection[ClientId]) -> dict[int, ClientId]:
        """For each block that one of these parties holds, the first of them."""
        first = {
            holders: next((holder for holder in holders if holder in parties), None)
            for holders in set(self.holders.values())
        }
        return {block: who for block, holders in self.holders.items() if (who := first[holders]) is not None}

    def first_held_of(self, parties: Collection[ClientId]) -> tuple[int, ...]:
        """The blocks of which this party is the first holder among these parties."""
        return tuple(block for block, client in self.first_holders(parties).items() if client == self.party)
