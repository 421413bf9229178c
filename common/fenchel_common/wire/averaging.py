"""The messages of the averaging algorithms on the wire.

Every reader checks a message against the `Scope` of its client, and raises `InvalidInput` with the name of the wrong
field.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from fenchel.v1 import averaging_pb2 as pb
from fenchel.v1 import hyfdca_pb2
from fenchel_common.algorithms.averaging.rails import (
    MODEL_FORMAT,
    Entry,
    Measurement,
    Positions,
    Result,
    StateUpdate,
    Task,
    Vectors,
    Work,
    chosen_blocks,
)
from fenchel_common.blocks import BlockVector
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import RoundId
from fenchel_common.wire.arrays import doubles_from_bytes, doubles_to_bytes, numbers_from_bytes, numbers_to_bytes
from fenchel_common.wire.blocks import (
    block_ids_from_bytes,
    block_places_from_proto,
    block_places_to_proto,
    block_vector_from_proto,
    block_vector_to_proto,
)
from fenchel_common.wire.parsing import parsed_message


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


def task_to_bytes(task: Task) -> bytes:
    work = task.work
    return pb.AveragingTask(
        round=task.round_id,
        stream=task.stream,
        state=_state_to_proto(task.state),
        work=None
        if work is None
        else pb.AveragingWork(
            told=numbers_to_proto(work.told), weight=work.weight, coordinates=_coordinates_to_proto(work.coordinates)
        ),
        checkpoint_blocks=numbers_to_bytes(task.checkpoint_blocks),
        product_blocks=numbers_to_bytes(task.product_blocks),
        report_blocks=numbers_to_bytes(task.report_blocks),
        norm_blocks=numbers_to_bytes(task.norm_blocks),
        products=None if task.products is None else block_vector_to_proto(task.products),
    ).SerializeToString(deterministic=True)


def task_from_bytes(data: bytes, scope: Scope) -> Task:
    message = parsed_message(pb.AveragingTask, data)
    state = _state_from_proto(message.state, scope)
    known = scope if state.layout is None else _with_layout(scope, state.layout)
    if not known.coordinate_blocks:
        raise InvalidInput("state.layout: missing; it comes with the first task")
    return Task(
        round_id=RoundId(message.round),
        stream=message.stream,
        state=state,
        work=_work_from_proto(message.work, known) if message.HasField("work") else None,
        checkpoint_blocks=block_ids_from_bytes(message.checkpoint_blocks, known.coordinate_blocks, "checkpoint_blocks"),
        product_blocks=block_ids_from_bytes(message.product_blocks, known.samples, "product_blocks"),
        report_blocks=block_ids_from_bytes(message.report_blocks, known.samples, "report_blocks"),
        norm_blocks=block_ids_from_bytes(message.norm_blocks, known.coordinate_blocks, "norm_blocks"),
        products=_block_vector(message.products, known, known.samples, "products")
        if message.HasField("products")
        else None,
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


def result_from_bytes(data: bytes, scope: Scope, *, coordinates: Positions | None = None) -> Result:
    """Reads a result; its sums are on `coordinates` if the task had some."""
    message = parsed_message(pb.AveragingResult, data)
    names = scope.vectors
    summed = scope.coordinate_blocks if coordinates is None else chosen_blocks(coordinates, scope.slots)
    allowed = dict.fromkeys(names.kept, scope.coordinate_blocks) | dict.fromkeys(names.summed, summed)
    return Result(
        vectors=_named_vectors(message.vectors, scope, allowed, "vectors"),
        reported=numbers_from_proto(message.reported, "reported"),
        checkpoint=_named_vectors(
            message.checkpoint, scope, dict.fromkeys(names.state, scope.coordinate_blocks), "checkpoint"
        ),
        products=_block_vector(message.products, scope, scope.samples, "products")
        if message.HasField("products")
        else None,
        measurement=_measurement_from_proto(message.measurement) if message.HasField("measurement") else None,
        diverged=message.diverged,
    )


def entry_to_proto(entry: Entry) -> pb.AveragingEntry:
    return pb.AveragingEntry(
        round=entry.round_id,
        told=numbers_to_proto(entry.told),
        blocks=numbers_to_bytes(list(entry.weights)),
        weights=doubles_to_bytes(np.array(list(entry.weights.values()), dtype=np.float64)),
        sums=vectors_to_proto(entry.sums),
        coordinates=_coordinates_to_proto(entry.coordinates),
    )


def entry_from_proto(message: pb.AveragingEntry, scope: Scope) -> Entry:
    coordinates = _coordinates_from_proto(message.coordinates, scope) if message.HasField("coordinates") else None
    allowed = scope.coordinate_blocks if coordinates is None else chosen_blocks(coordinates, scope.slots)
    blocks = block_ids_from_bytes(message.blocks, allowed, "entries.blocks")
    weights = doubles_from_bytes(message.weights, field="entries.weights")
    if len(weights) != len(blocks) or not (np.isfinite(weights) & (weights > 0.0)).all():
        raise InvalidInput("entries.weights: a finite number above 0 is due for each block")
    sums = _named_vectors(message.sums, scope, dict.fromkeys(scope.vectors.summed, allowed), "entries.sums")
    if set(sums) != set(scope.vectors.summed) or any(vector.blocks != blocks for vector in sums.values()):
        raise InvalidInput("entries.sums: every summed vector is due, on all blocks of the entry")
    return Entry(
        round_id=RoundId(message.round),
        told=numbers_from_proto(message.told, "entries.told"),
        weights=dict(zip(blocks, weights.tolist(), strict=True)),
        sums=sums,
        coordinates=coordinates,
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


def vectors_to_proto(vectors: Mapping[str, BlockVector]) -> list[pb.AveragingVector]:
    return [pb.AveragingVector(name=name, vector=block_vector_to_proto(vector)) for name, vector in vectors.items()]


def vectors_from_proto(
    vectors: Iterable[pb.AveragingVector], scope: Scope, names: Iterable[str], field: str
) -> dict[str, BlockVector]:
    """Vectors on blocks of coordinates that the client holds."""
    return _named_vectors(vectors, scope, dict.fromkeys(names, scope.coordinate_blocks), field)


def _named_vectors(
    vectors: Iterable[pb.AveragingVector], scope: Scope, allowed: Mapping[str, Mapping[int, object]], field: str
) -> dict[str, BlockVector]:
    found: dict[str, BlockVector] = {}
    for vector in vectors:
        if vector.name not in allowed or vector.name in found:
            raise InvalidInput(f"{field}: {vector.name!r:.80} is unknown here or is there twice")
        found[vector.name] = _block_vector(vector.vector, scope, allowed[vector.name], f"{field}.{vector.name}")
    return found


def _block_vector(
    message: hyfdca_pb2.BlockVector, scope: Scope, allowed: Mapping[int, object], field: str
) -> BlockVector:
    return block_vector_from_proto(
        message, allowed=allowed, slots=scope.slots, key=scope.key, vector_format=MODEL_FORMAT, field=field
    )


def _state_to_proto(state: StateUpdate) -> pb.AveragingState:
    return pb.AveragingState(
        reset=state.reset,
        layout=None if state.layout is None else block_places_to_proto(state.layout),
        base=vectors_to_proto(state.base),
        entries=[entry_to_proto(entry) for entry in state.entries],
        kept=vectors_to_proto(state.kept),
    )


def _state_from_proto(message: pb.AveragingState, scope: Scope) -> StateUpdate:
    layout = None
    if message.HasField("layout"):
        layout = block_places_from_proto(message.layout, most=scope.length, field="state.layout")
        scope = _with_layout(scope, layout)
    if message.reset and layout is None:
        raise InvalidInput("state.layout: missing; a reset comes with it")
    names = scope.vectors
    return StateUpdate(
        reset=message.reset,
        layout=layout,
        base=vectors_from_proto(message.base, scope, names.state, "state.base"),
        entries=tuple(entry_from_proto(entry, scope) for entry in message.entries),
        kept=vectors_from_proto(message.kept, scope, names.kept, "state.kept"),
    )


def _with_layout(scope: Scope, layout: Mapping[int, Positions]) -> Scope:
    """The scope of a client that has just been told its blocks, which must cover its coordinates once each."""
    if any(not 0 < len(positions) <= scope.slots for positions in layout.values()):
        raise InvalidInput(f"state.layout: a block has 1 to {scope.slots} coordinates")
    covered = np.sort(np.concatenate([np.zeros(0, dtype=np.int64), *layout.values()]))
    if not np.array_equal(covered, np.arange(scope.length)):
        raise InvalidInput("state.layout: every coordinate of the client must occur once")
    return replace(scope, coordinate_blocks={block: len(positions) for block, positions in layout.items()})


def _work_from_proto(message: pb.AveragingWork, scope: Scope) -> Work:
    if not 0.0 < message.weight < math.inf:
        raise InvalidInput("work.weight: must be above 0 and finite")
    coordinates = _coordinates_from_proto(message.coordinates, scope) if message.HasField("coordinates") else None
    return Work(numbers_from_proto(message.told, "work.told"), message.weight, coordinates)


def _measurement_from_proto(message: pb.AveragingMeasurement) -> Measurement:
    if message.correct > message.samples:
        raise InvalidInput("measurement.correct: is more than measurement.samples")
    for name, value in (("loss_sum", message.loss_sum), ("squared_norm", message.squared_norm)):
        if not 0.0 <= value < math.inf:
            raise InvalidInput(f"measurement.{name}: must be finite and not negative")
    return Measurement(message.samples, message.loss_sum, message.correct, message.squared_norm)


def _coordinates_to_proto(coordinates: Positions | None) -> pb.AveragingCoordinates | None:
    return None if coordinates is None else pb.AveragingCoordinates(positions=numbers_to_bytes(coordinates))


def _coordinates_from_proto(message: pb.AveragingCoordinates, scope: Scope) -> Positions:
    coordinates = numbers_from_bytes(message.positions, most=scope.length, field="coordinates")
    if not len(coordinates) or coordinates[-1] >= scope.length or not (np.diff(coordinates) > 0).all():
        raise InvalidInput(f"coordinates: must be ascending and below {scope.length}, at least one of them")
    return coordinates
