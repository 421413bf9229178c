"""The state of a corrective HyFDCA server between two rounds, as a value and as bytes.

The privacy level says which vectors of the state are ciphertexts; the server adds ciphertexts and cannot read them.
"""

from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Final

from fenchel.v1 import corrective_pb2 as pb
from fenchel_common.blocks import BlockSum
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import Vector
from fenchel_common.errors import CryptoError, InvalidInput, StateDamaged
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.privacy import Privacy
from fenchel_common.selection import AT_THE_START, Progress
from fenchel_common.wire.block_states import block_sum_from_proto, block_sum_to_proto
from fenchel_common.wire.parsing import parsed_message
from fenchel_common.wire.scope import numbers_to_proto
from fenchel_common.wire.vectors import vector_from_proto

NO_BLOCKS: Final = BlockSum()


@dataclass(frozen=True, slots=True)
class Memories:
    """What the server knows about the memories of the clients.

    Attributes
    ----------
    round_id
        The last round at whose end the clients stored a memory.
    participants
        The clients that took part in the last round. The blocks of all others have not changed since the last collapse.
    intact
        The clients whose memory the server has no reason to doubt.
    """

    round_id: int = 0
    participants: frozenset[ClientId] = frozenset()
    intact: frozenset[ClientId] = frozenset()


@dataclass(frozen=True, slots=True)
class StoredAnchor:
    """The dual variables on record by block of samples, their model by block of features, and the round of both."""

    round_id: int = 0
    alpha: BlockSum = NO_BLOCKS
    weights: BlockSum = NO_BLOCKS


@dataclass(frozen=True, slots=True)
class PendingPoints:
    """The sums of the clients' `PrimalResult`s of the last round, which the next round's `RoundStart` relays."""

    point: BlockSum = NO_BLOCKS
    vertex: BlockSum = NO_BLOCKS
    conjugates_and_products: Vector | None = None


@dataclass(frozen=True, slots=True)
class Reached:
    """The certificate of a problem; the gap includes the bound `gap_error`."""

    primal: float
    dual: float
    gap: float
    gap_error: float
    accuracy: float


@dataclass(frozen=True, slots=True)
class CorrectiveState:
    """All that the server knows of a problem between two rounds; a run of several classes has one for each class.

    Attributes
    ----------
    norms
        ‖x_i‖² of shared blocks of samples; the same in all rounds.
    model
        The best model, by block of features.
    latest
        The model of the last round in which P was not known; empty if the best model is newer.
    collapses, relative_rounds
        How often the anchor was rounded, and the number of rounds whose results were differences from the anchor's
        model.
    reached
        In a run of several classes, the certificate of a problem that stands still while others go on.
    progress
        How far a run with a path has come.
    certified
        The newest certificate.
    """

    norms: BlockSum = NO_BLOCKS
    memories: Memories = Memories()
    anchor: StoredAnchor = StoredAnchor()
    model: BlockSum = NO_BLOCKS
    latest: BlockSum = NO_BLOCKS
    pending: PendingPoints = PendingPoints()
    collapses: int = 0
    relative_rounds: int = 0
    reached: Reached | None = None
    progress: Progress = AT_THE_START
    certified: Reached | None = None

    @property
    def released(self) -> BlockSum:
        """The model that the parties would get if the run ended here."""
        return self.latest if self.latest.pieces else self.model

    def without_memories_of(self, clients: Set[ClientId]) -> "CorrectiveState":
        """The state after these clients have restarted or failed: their memories are not intact any more."""
        return replace(self, memories=replace(self.memories, intact=self.memories.intact - clients))


@dataclass(frozen=True, slots=True)
class CorrectiveSnapshot:
    """The state after the end of a round."""

    round_id: RoundId
    state: CorrectiveState


def snapshot_to_bytes(snapshot: CorrectiveSnapshot) -> bytes:
    return _snapshot_to_proto(snapshot).SerializeToString(deterministic=True)


def class_snapshot_to_bytes(snapshots: Sequence[CorrectiveSnapshot]) -> bytes:
    """The snapshots of the problems of all classes."""
    problems = [_snapshot_to_proto(snapshot) for snapshot in snapshots]
    return pb.CorrectiveClassSnapshot(problems=problems).SerializeToString(deterministic=True)


def _snapshot_to_proto(snapshot: CorrectiveSnapshot) -> pb.CorrectiveSnapshot:
    state = snapshot.state
    return pb.CorrectiveSnapshot(
        round=snapshot.round_id,
        memory_round=state.memories.round_id,
        anchor_round=state.anchor.round_id,
        participants=sorted(state.memories.participants),
        intact=sorted(state.memories.intact),
        alpha=block_sum_to_proto(state.anchor.alpha),
        weights=block_sum_to_proto(state.anchor.weights),
        norms=block_sum_to_proto(state.norms),
        model=block_sum_to_proto(state.model),
        latest=block_sum_to_proto(state.latest),
        point=block_sum_to_proto(state.pending.point),
        vertex=block_sum_to_proto(state.pending.vertex),
        conjugates_and_products=numbers_to_proto(state.pending.conjugates_and_products),
        collapses=state.collapses,
        relative_rounds=state.relative_rounds,
        reached=_reached_to_proto(state.reached),
        certified=_reached_to_proto(state.certified),
        leg=state.progress.leg,
        leg_since=state.progress.since,
        measured=state.progress.measured,
    )


def snapshot_from_bytes(data: bytes, key: RunKey, *, privacy: Privacy) -> CorrectiveSnapshot:
    """Reads a snapshot that `snapshot_to_bytes` wrote; raises `StateDamaged` for any other bytes."""
    with _damage():
        return _snapshot_from_proto(parsed_message(pb.CorrectiveSnapshot, data, limit=None), key, privacy)


def class_snapshot_from_bytes(data: bytes, key: RunKey, *, privacy: Privacy) -> list[CorrectiveSnapshot]:
    """Reads what `class_snapshot_to_bytes` wrote; raises `StateDamaged` for any other bytes."""
    with _damage():
        message = parsed_message(pb.CorrectiveClassSnapshot, data, limit=None)
        return [_snapshot_from_proto(problem, key, privacy) for problem in message.problems]


@contextmanager
def _damage() -> Iterator[None]:
    try:
        yield
    except (InvalidInput, CryptoError) as error:
        raise StateDamaged(f"the snapshot of a HyFDCA run cannot be read: {error}") from None


def _snapshot_from_proto(message: pb.CorrectiveSnapshot, key: RunKey, privacy: Privacy) -> CorrectiveSnapshot:
    return CorrectiveSnapshot(RoundId(message.round), _state_from_proto(message, key, key.by_feature(privacy)))


def _state_from_proto(message: pb.CorrectiveSnapshot, by_sample: RunKey, by_feature: RunKey) -> CorrectiveState:
    numbers = None
    if message.HasField("conjugates_and_products"):
        numbers = vector_from_proto(message.conjugates_and_products, by_feature)
    return CorrectiveState(
        norms=block_sum_from_proto(message.norms, by_sample, "norms"),
        memories=Memories(
            round_id=message.memory_round,
            participants=frozenset(ClientId(name) for name in message.participants),
            intact=frozenset(ClientId(name) for name in message.intact),
        ),
        anchor=StoredAnchor(
            round_id=message.anchor_round,
            alpha=block_sum_from_proto(message.alpha, by_sample, "alpha"),
            weights=block_sum_from_proto(message.weights, by_feature, "weights"),
        ),
        model=block_sum_from_proto(message.model, by_feature, "model"),
        latest=block_sum_from_proto(message.latest, by_feature, "latest"),
        pending=PendingPoints(
            point=block_sum_from_proto(message.point, by_feature, "point"),
            vertex=block_sum_from_proto(message.vertex, by_feature, "vertex"),
            conjugates_and_products=numbers,
        ),
        collapses=message.collapses,
        relative_rounds=message.relative_rounds,
        reached=_reached_from_proto(message.reached) if message.HasField("reached") else None,
        progress=Progress(message.leg, message.leg_since, tuple(message.measured)),
        certified=_reached_from_proto(message.certified) if message.HasField("certified") else None,
    )


def _reached_to_proto(reached: Reached | None) -> pb.CorrectiveReached | None:
    return None if reached is None else pb.CorrectiveReached(**asdict(reached))


def _reached_from_proto(message: pb.CorrectiveReached) -> Reached:
    return Reached(message.primal, message.dual, message.gap, message.gap_error, message.accuracy)
