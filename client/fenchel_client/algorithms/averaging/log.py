"""A party's account of the log of a run on the averaging rails, kept by the records alone.

It says of which contributions each entry and each checkpoint of the party's own blocks consists. The server keeps the
sums themselves, under the same rules; so a party knows exactly what must come when it is told of the state.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fenchel_client.algorithms.averaging.blocks import CoordinateBlocks
from fenchel_client.algorithms.averaging.work import checkpoint_field, vector_field
from fenchel_client.algorithms.codec import Origins
from fenchel_client.crypto.stamps import Origin, Stamp
from fenchel_common.algorithms.averaging.choices import Numbers, RecordedPlan
from fenchel_common.algorithms.averaging.rails import Positions, chosen_blocks
from fenchel_common.ids import ClientId, RoundId


def same_origins(stamps: Sequence[Stamp], name: str) -> Origins:
    """The origins of a vector to each of whose blocks all these messages contributed."""
    origins = tuple(Origin(stamp, name) for stamp in stamps)
    return lambda _block: origins


@dataclass(frozen=True, slots=True, eq=False)
class LoggedEntry:
    """The entry of a round on the party's own blocks.

    Attributes
    ----------
    told
        The server's numbers at the end of the round.
    plan
        The plan of the round, with the weights of the contributions.
    stamps
        The messages that contributed, in roster order.
    blocks
        The blocks of the entry that are still needed, ascending.
    """

    round_id: RoundId
    told: Numbers
    plan: RecordedPlan
    stamps: Mapping[ClientId, Stamp]
    blocks: tuple[int, ...]
    own: CoordinateBlocks = field(repr=False)

    @property
    def coordinates(self) -> Positions | None:
        return self.plan.coordinates

    def weight(self, block: int) -> float:
        """The total weight of the contributions to a block."""
        return sum((self.plan.weights[client] for client in self._givers(block)), start=0.0)

    def origins(self, name: str) -> Origins:
        """The origins of the sums of the vector of this name."""
        by_client = {client: Origin(stamp, vector_field(name)) for client, stamp in self.stamps.items()}
        return lambda block: [by_client[client] for client in self._givers(block)]

    def _givers(self, block: int) -> Iterable[ClientId]:
        if self.coordinates is not None:
            return self.stamps
        return (client for client in self.own.holders[block] if client in self.stamps)

    def without(self, blocks: Collection[int]) -> "LoggedEntry | None":
        """The entry without some blocks of the layout; None if no block remains."""
        remaining = tuple(block for block in self.blocks if block not in blocks)
        return replace(self, blocks=remaining) if remaining else None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The message that restated a block's state at the beginning of a round."""

    round_id: RoundId
    stamp: Stamp


@dataclass(frozen=True, slots=True, eq=False)
class Due:
    """What a party must be told to have the present state: checkpoints of some blocks, and then these entries."""

    base: Mapping[int, Checkpoint]
    entries: tuple[LoggedEntry, ...]

    def base_origins(self, name: str) -> Origins:
        return lambda block: [Origin(self.base[block].stamp, checkpoint_field(name))]


@dataclass(frozen=True, slots=True, eq=False)
class OwnLog:
    """The checkpoints and entries of the party's own blocks of which its state consists."""

    own: CoordinateBlocks
    base: Mapping[int, Checkpoint] = field(default_factory=dict)
    entries: tuple[LoggedEntry, ...] = ()

    @property
    def made_by(self) -> Mapping[ClientId, Stamp]:
        """The messages that made the present state of the one before it; none before the first entry."""
        return self.entries[-1].stamps if self.entries else {}

    def due(self, since: RoundId | None) -> Due:
        """What is due to a party that has applied the entries up to round `since`, or none of them if None."""
        after = -1 if since is None else since
        return Due(
            base={block: self.base[block] for block in self.own.positions if self._rebased(block, after)},
            entries=tuple(entry for entry in self.entries if entry.round_id > after),
        )

    def with_entry(
        self,
        round_id: RoundId,
        *,
        plan: RecordedPlan,
        told: Numbers,
        stamps: Mapping[ClientId, Stamp],
        restates: bool,
    ) -> "OwnLog":
        """The log with the entry of a round; if entries restate the state, older entries of its blocks are removed."""
        blocks = self.own.held_by(stamps)
        if plan.coordinates is not None:
            blocks = tuple(chosen_blocks(plan.coordinates, self.own.slots))
        if not blocks:
            return self
        entry = LoggedEntry(round_id, told, plan, stamps, blocks, self.own)
        earlier = self._without(blocks) if restates else self.entries
        return replace(self, entries=(*earlier, entry))

    def with_checkpoints(self, round_id: RoundId, given: Mapping[int, Stamp]) -> "OwnLog":
        """The log that begins, in some blocks, with the state before a round; the entries that made it are removed."""
        base = {**self.base, **{block: Checkpoint(round_id, stamp) for block, stamp in given.items()}}
        oldest = min((base[block].round_id if block in base else 0) for block in self.own.positions)
        kept = (entry for entry in self._without(given) if entry.coordinates is None or entry.round_id >= oldest)
        return replace(self, base=base, entries=tuple(kept))

    def _without(self, blocks: Collection[int]) -> tuple[LoggedEntry, ...]:
        """The entries without some blocks; entries on chosen coordinates stay whole."""
        removed = frozenset(blocks)
        remaining = (entry if entry.coordinates is not None else entry.without(removed) for entry in self.entries)
        return tuple(entry for entry in remaining if entry is not None)

    def _rebased(self, block: int, after: int) -> bool:
        return block in self.base and self.base[block].round_id > after + 1
