"""The averaging server's state between two rounds, as bytes."""

from dataclasses import dataclass, field

from fenchel.v1 import averaging_pb2 as pb
from fenchel_common.algorithms.averaging.rails import Sums
from fenchel_common.blocks import BlockVector
from fenchel_common.errors import CryptoError, InvalidInput, StateDamaged
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.wire.averaging import (
    Scope,
    numbers_from_proto,
    numbers_to_proto,
    sums_from_proto,
    vectors_from_proto,
    vectors_to_proto,
)
from fenchel_common.wire.parsing import parsed_message


@dataclass(frozen=True, slots=True)
class Entry:
    """The sums of one round; with `chosen`, their blocks are pieces of the round's chosen coordinates."""

    round_id: RoundId
    sums: Sums
    chosen: bool = False

    @property
    def blocks(self) -> tuple[int, ...]:
        return next(iter(self.sums.values())).blocks


@dataclass(frozen=True, slots=True)
class Base:
    """The state of one block before the entry of a round."""

    round_id: RoundId
    state: dict[str, BlockVector]


@dataclass(frozen=True, slots=True)
class AveragingSnapshot:
    """The server's state; `kept` are the vectors that it keeps for each client, `memory` are its own numbers."""

    round_id: RoundId
    base: dict[int, Base] = field(default_factory=dict)
    entries: tuple[Entry, ...] = ()
    kept: dict[ClientId, dict[str, BlockVector]] = field(default_factory=dict)
    memory: dict[str, float] = field(default_factory=dict)


def snapshot_to_bytes(snapshot: AveragingSnapshot) -> bytes:
    return pb.AveragingSnapshot(
        round=snapshot.round_id,
        base=[
            pb.AveragingBase(round=base.round_id, state=vectors_to_proto(base.state))
            for _, base in sorted(snapshot.base.items())
        ],
        entries=[
            pb.AveragingLogEntry(round=entry.round_id, chosen=entry.chosen, sums=vectors_to_proto(entry.sums))
            for entry in snapshot.entries
        ],
        clients=[
            pb.AveragingClientState(client=client, kept=vectors_to_proto(kept))
            for client, kept in sorted(snapshot.kept.items())
        ],
        memory=numbers_to_proto(snapshot.memory),
    ).SerializeToString(deterministic=True)


def snapshot_from_bytes(data: bytes, scope: Scope) -> AveragingSnapshot:
    """Reads a snapshot of all blocks in `scope` that `snapshot_to_bytes` wrote; else raises `StateDamaged`."""
    names = scope.vectors
    try:
        message = parsed_message(pb.AveragingSnapshot, data, limit=None)
        bases = [
            Base(RoundId(base.round), vectors_from_proto(base.state, scope, names.state, "base"))
            for base in message.base
        ]
        return AveragingSnapshot(
            round_id=RoundId(message.round),
            base={base.state[names.state[0]].blocks[0]: base for base in bases},
            entries=tuple(
                Entry(RoundId(entry.round), sums_from_proto(entry.sums, scope), entry.chosen)
                for entry in message.entries
            ),
            kept={
                ClientId(state.client): vectors_from_proto(state.kept, scope, names.kept, "kept")
                for state in message.clients
            },
            memory=numbers_from_proto(message.memory, "memory"),
        )
    except (InvalidInput, CryptoError, KeyError) as error:
        raise StateDamaged(f"the snapshot of the run cannot be read: {error}") from None
