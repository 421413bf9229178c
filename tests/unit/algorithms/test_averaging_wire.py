"""The rails' messages: what goes in comes out, and what no honest peer sends is refused."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from fenchel.v1 import averaging_pb2 as pb
from fenchel_common.algorithms.averaging.rails import (
    MODEL,
    MODEL_FORMAT,
    Entry,
    Measurement,
    Result,
    StateUpdate,
    Task,
    Vectors,
    Work,
)
from fenchel_common.blocks import BlockVector
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import PlainCipher
from fenchel_common.errors import FenchelError
from fenchel_common.ids import RoundId
from fenchel_common.wire.averaging import Scope, result_from_bytes, result_to_bytes, task_from_bytes, task_to_bytes
from support.listed import add_numbers, drop_last

BITS = 256
SLOTS = PlainCipher(BITS).slots
SCOPE = Scope(
    key=RunKey.in_clear(BITS),
    slots=SLOTS,
    length=5,
    samples={0: 2, 4: SLOTS},
    coordinate_blocks={1: 3, 2: 2},
    vectors=Vectors(kept=("own",), reported=("loss",)),
)
LAYOUT = {1: np.array([0, 2, 4]), 2: np.array([1, 3])}


def vector(*blocks: int, bound: float = 0.0) -> BlockVector:
    values = np.arange(len(blocks) * SLOTS, dtype=np.float64)
    return BlockVector(blocks, PlainCipher(BITS).encrypt(values, VectorFormat(bound=bound)))


ENTRY = Entry(RoundId(3), {"step": 0.5}, {1: 2.0}, {MODEL: vector(1)})
CHOSEN = Entry(RoundId(4), {}, {0: 1.0, 1: 1.0}, {MODEL: vector(0, 1)}, np.arange(4))
TASK = Task(
    round_id=RoundId(5),
    stream=2,
    state=StateUpdate(True, LAYOUT, {MODEL: vector(1, 2)}, (ENTRY, CHOSEN), {"own": vector(1, 2)}),
    work=Work({"step": 0.25}, 0.5, np.array([1, 3])),
    checkpoint_blocks=(1,),
    product_blocks=(0, 4),
    report_blocks=(4,),
    norm_blocks=(2,),
    products=vector(4),
)
RESULT = Result(
    vectors={MODEL: vector(1, 2), "own": vector(1, 2)},
    reported={"loss": 1.5},
    checkpoint={MODEL: vector(1)},
    products=vector(0),
    measurement=Measurement(3, 1.5, 2, 0.25),
)


def test_a_task_survives_the_wire() -> None:
    sent = task_to_bytes(TASK)
    assert SLOTS == 3
    assert task_to_bytes(task_from_bytes(sent, replace(SCOPE, coordinate_blocks={}))) == sent


def test_a_result_survives_the_wire() -> None:
    sent = result_to_bytes(RESULT)
    assert result_to_bytes(result_from_bytes(sent, SCOPE)) == sent


def test_sums_on_chosen_coordinates_have_blocks_of_their_own() -> None:
    sent = result_to_bytes(Result(vectors={MODEL: vector(0, 1)}))
    with pytest.raises(FenchelError, match="does not hold"):
        result_from_bytes(sent, SCOPE)
    assert result_from_bytes(sent, SCOPE, coordinates=np.arange(4)).vectors[MODEL].blocks == (0, 1)


TASK_LIES: dict[str, Callable[[pb.AveragingTask], object]] = {
    "a layout that misses a coordinate": lambda task: drop_last(task.state.layout, "places"),
    "a cut layout": lambda task: setattr(task.state.layout, "places", task.state.layout.places[:-1]),
    "a layout with an empty block": lambda task: add_numbers(task.state.layout, "sizes", 0),
    "a layout with a block given twice": lambda task: setattr(task.state.layout, "blocks", bytes(8)),
    "a reset without layout": lambda task: task.state.ClearField("layout"),
    "an unknown block": lambda task: add_numbers(task, "norm_blocks", 9),
    "blocks out of order": lambda task: add_numbers(task, "product_blocks", 0),
    "a foreign sample block": lambda task: add_numbers(task, "report_blocks", 7),
    "a weight of zero": lambda task: setattr(task.work, "weight", 0.0),
    "a weight that is no number": lambda task: setattr(task.work, "weight", float("nan")),
    "coordinates too high": lambda task: setattr(task.work.coordinates, "positions", b"\x07\x00\x00\x00"),
    "no coordinates": lambda task: setattr(task.work.coordinates, "positions", b""),
    "an infinite number": lambda task: setattr(task.work.told[0], "value", float("inf")),
    "an entry without sums": lambda task: task.state.entries[0].ClearField("sums"),
    "an entry with a negative weight": lambda task: setattr(
        task.state.entries[0], "weights", np.array([-1.0]).tobytes()
    ),
    "an entry with too few weights": lambda task: setattr(task.state.entries[0], "weights", b""),
    "an unknown vector": lambda task: setattr(task.state.base[0], "name", "other"),
    "a vector given twice": lambda task: task.state.kept.append(task.state.kept[0]),
}


@pytest.mark.parametrize("lie", TASK_LIES.values(), ids=TASK_LIES)
def test_a_task_that_no_honest_server_sends_is_refused(lie: Callable[[pb.AveragingTask], object]) -> None:
    message = pb.AveragingTask.FromString(task_to_bytes(TASK))
    lie(message)
    with pytest.raises(FenchelError):
        task_from_bytes(message.SerializeToString(), SCOPE)


RESULT_LIES: dict[str, Callable[[pb.AveragingResult], object]] = {
    "more right than there are": lambda result: setattr(result.measurement, "correct", 4),
    "a negative loss": lambda result: setattr(result.measurement, "loss_sum", -1.0),
    "an infinite norm": lambda result: setattr(result.measurement, "squared_norm", float("inf")),
    "a number given twice": lambda result: result.reported.append(result.reported[0]),
    "a foreign block": lambda result: add_numbers(result.vectors[0].vector, "blocks", 9),
    "a short vector": lambda result: drop_last(result.vectors[0].vector, "blocks"),
    "a vector of another kind": lambda result: setattr(result.products.vector.plain.format, "bound", 2.0),
    "an unknown vector": lambda result: setattr(result.vectors[0], "name", "other"),
    "an unknown checkpoint": lambda result: setattr(result.checkpoint[0], "name", "own"),
}


@pytest.mark.parametrize("lie", RESULT_LIES.values(), ids=RESULT_LIES)
def test_a_result_that_no_honest_client_gives_is_refused(lie: Callable[[pb.AveragingResult], object]) -> None:
    message = pb.AveragingResult.FromString(result_to_bytes(RESULT))
    lie(message)
    with pytest.raises(FenchelError):
        result_from_bytes(message.SerializeToString(), SCOPE)


def test_bytes_that_are_no_message_are_refused() -> None:
    for read in (task_from_bytes, result_from_bytes):
        with pytest.raises(FenchelError, match="cut or altered"):
            read(b"\xff\xff\xff", SCOPE)


def test_all_vectors_have_one_public_format() -> None:
    assert vector(1).vector.format == MODEL_FORMAT
