"""The messages of the averaging algorithms on the wire.

Every reader checks a message against the `Scope` of its client, and raises `InvalidInput` with the name of the wrong
field.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from fenchel.v1 import averaging_pb2 as pb
from fenchel.v1 import hyfdca_pb2, vectors_pb2
from fenchel_common.algorithms.averaging.rails import (
    FIGURES,
    MODEL_FORMAT,
    Measurement,
    Positions,
    Result,
    StateUpdate,
    Sums,
    Task,
    Vectors,
    chosen_blocks,
)
from fenchel_common.blocks import BlockVector
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import Vector
from fenchel_common.errors import InvalidInput
from fenchel_common.wire.blocks import block_vector_from_proto, block_vector_to_proto
from fenchel_common.wire.parsing import Body, parsed_message
from fenchel_common.wire.vectors import vector_from_proto, vector_to_proto


@dataclass(frozen=True, slots=True)
class Scope:
    """The key, blocks and names against which every message to or from one client is checked.

    `key` encrypts all vectors. `samples` and `coordinate_blocks` give the size of each of the client's blocks of
    samples and of coordinates; `length` is the number of its coordinates.
    """

    key: RunKey
    slots: int
    length: int
    samples: Mapping[int, int]
    coordinate_blocks: Mapping[int, int]
    vectors: Vectors

    @property
    def entry_blocks(self) -> frozenset[int]:
        """The blocks that an entry may have: those of the layout, and those of chosen coordinates."""
        return frozenset(self.coordinate_blocks) | frozenset(range(-(-self.length // self.slots)))


def task_to_bytes(task: Task) -> bytes:
    return pb.AveragingTask(
        state=_state_to_proto(task.state),
        products=None if task.products is None else block_vector_to_proto(task.products),
        figures=None if task.figures is None else vector_to_proto(task.figures),
    ).SerializeToString(deterministic=True)


def task_from_bytes(data: bytes, scope: Scope) -> Task:
    message = parsed_message(pb.AveragingTask, data)
    return Task(
        state=_state_from_proto(message.state, scope),
        products=_block_vector(message.products, scope, scope.samples, "products")
        if message.HasField("products")
        else None,
        figures=_figures(message.figures, scope) if message.HasField("figures") else None,
    )


def state_to_bytes(state: StateUpdate) -> bytes:
    return _state_to_proto(state).SerializeToString(deterministic=True)


def state_from_bytes(data: bytes, scope: Scope) -> StateUpdate:
    return _state_from_proto(parsed_message(pb.AveragingState, data), scope)


def result_to_bytes(result: Result) -> bytes:
    measured = result.measurement
    return pb.AveragingResult(
        vectors=vectors_to_proto(result.vectors),
        reported=numbers_to_proto(result.reported),
        checkpoint=vectors_to_proto(result.checkpoint),
        products=None if result.products is None else block_vector_to_proto(result.products),
        figures=None if result.figures is None else vector_to_proto(result.figures),
        measurement=None
        if measured is None
        else pb.AveragingMeasurement(
            samples=measured.samples,
            loss_sum=measured.loss_sum,
            correct=measured.correct,
            squared_norm=measured.squared_norm,
        ),
        diverged=result.diverged,
    ).SerializeToString(deterministic=True)


def result_from_bytes(data: Body, scope: Scope, *, coordinates: Positions | None = None) -> Result:
    """Reads a result; its sums are on `coordinates` if the plan has some."""
    message = parsed_message(pb.AveragingResult, data)
    names = scope.vectors
    summed = scope.coordinate_blocks if coordinates is None else chosen_blocks(coordinates, scope.slots)
    allowed = dict.fromkeys(names.kept, scope.coordinate_blocks) | dict.fromkeys(names.summed, summed)
    return Result(
        vectors=_named_vectors(message.vectors, scope, allowed, "vectors"),
        reported=numbers_from_proto(message.reported, "reported"),
        checkpoint=vectors_from_proto(message.checkpoint, scope, names.state, "checkpoint"),
        products=_block_vector(message.products, scope, scope.samples, "products")
        if message.HasField("products")
        else None,
        figures=_figures(message.figures, scope) if message.HasField("figures") else None,
        measurement=_measurement_from_proto(message.measurement) if message.HasField("measurement") else None,
        diverged=message.diverged,
    )


def numbers_to_proto(numbers: Mapping[str, float]) -> list[pb.AveragingNumber]:
    return [pb.AveragingNumber(name=name, value=value) for name, value in numbers.items()]


def numbers_from_proto(numbers: Iterable[pb.AveragingNumber], field: str) -> dict[str, float]:
    values: dict[str, float] = {}
    for number in numbers:
        if number.name in values:
            raise InvalidInput(f"{field}: {number.name!r:.80} is there twice")
        if not math.isfinite(number.value):
            raise InvalidInput(f"{field}: {number.name!r:.80} is NaN or infinite")
        values[number.name] = number.value
    return values


def vectors_to_proto(vectors: Sums) -> list[pb.AveragingVector]:
    return [pb.AveragingVector(name=name, vector=block_vector_to_proto(vector)) for name, vector in vectors.items()]


def vectors_from_proto(
    vectors: Iterable[pb.AveragingVector], scope: Scope, names: Iterable[str], field: str
) -> dict[str, BlockVector]:
    """Vectors on blocks of coordinates that the client holds."""
    return _named_vectors(vectors, scope, dict.fromkeys(names, scope.coordinate_blocks), field)


def sums_from_proto(vectors: Iterable[pb.AveragingVector], scope: Scope) -> dict[str, BlockVector]:
    """The sums of an entry: every summed vector, all on the same blocks."""
    names = scope.vectors.summed
    sums = _named_vectors(vectors, scope, dict.fromkeys(names, scope.entry_blocks), "entries.sums")
    if set(sums) != set(names) or len({vector.blocks for vector in sums.values()}) != 1:
        raise InvalidInput("entries.sums: every summed vector is due, on all blocks of the entry")
    return sums


def _named_vectors(
    vectors: Iterable[pb.AveragingVector], scope: Scope, allowed: Mapping[str, Collection[int]], field: str
) -> dict[str, BlockVector]:
    found: dict[str, BlockVector] = {}
    for vector in vectors:
        if vector.name not in allowed or vector.name in found:
            raise InvalidInput(f"{field}: {vector.name!r:.80} is unknown here or is there twice")
        found[vector.name] = _block_vector(vector.vector, scope, allowed[vector.name], f"{field}.{vector.name}")
    return found


def _block_vector(message: hyfdca_pb2.BlockVector, scope: Scope, allowed: Collection[int], field: str) -> BlockVector:
    return block_vector_from_proto(
        message, allowed=allowed, slots=scope.slots, key=scope.key, formats=(MODEL_FORMAT,), field=field
    )


def _figures(message: vectors_pb2.Vector, scope: Scope) -> Vector:
    vector = vector_from_proto(message, scope.key)
    if (vector.format, vector.length, vector.slots) != (MODEL_FORMAT, FIGURES, scope.slots):
        raise InvalidInput(f"figures: must be {FIGURES} numbers of the format of all vectors")
    return vector


def _state_to_proto(state: StateUpdate) -> pb.AveragingState:
    return pb.AveragingState(
        reset=state.reset,
        base=vectors_to_proto(state.base),
        entries=[pb.AveragingEntry(sums=vectors_to_proto(sums)) for sums in state.entries],
        kept=vectors_to_proto(state.kept),
    )


def _state_from_proto(message: pb.AveragingState, scope: Scope) -> StateUpdate:
    names = scope.vectors
    return StateUpdate(
        reset=message.reset,
        base=vectors_from_proto(message.base, scope, names.state, "state.base"),
        entries=tuple(sums_from_proto(entry.sums, scope) for entry in message.entries),
        kept=vectors_from_proto(message.kept, scope, names.kept, "state.kept"),
    )


def _measurement_from_proto(message: pb.AveragingMeasurement) -> Measurement:
    if message.correct > message.samples:
        raise InvalidInput("measurement.correct: is more than measurement.samples")
    if not math.isfinite(message.loss_sum) or not 0.0 <= message.squared_norm < math.inf:
        raise InvalidInput("measurement: the sum of losses and the squared norm must be finite, the norm not negative")
    return Measurement(message.samples, message.loss_sum, message.correct, message.squared_norm)
