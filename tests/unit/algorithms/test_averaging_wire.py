"""The rails' messages: what goes in comes out, and what no honest peer sends is refused."""

from collections.abc import Callable

import numpy as np
import pytest

from fenchel.v1 import averaging_pb2 as pb
from fenchel_client.crypto.plain import PlainCipher
from fenchel_common.algorithms.averaging.choices import RecordedPlan, RoundChoices
from fenchel_common.algorithms.averaging.rails import (
    FIGURES,
    MODEL,
    MODEL_FORMAT,
    Measurement,
    Result,
    StateUpdate,
    Task,
    Vectors,
)
from fenchel_common.blocks import BlockVector
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import Vector
from fenchel_common.errors import FenchelError
from fenchel_common.ids import ClientId
from fenchel_common.wire.averaging import Scope, result_from_bytes, result_to_bytes, task_from_bytes, task_to_bytes
from fenchel_common.wire.averaging_choices import (
    closing_from_bytes,
    closing_to_bytes,
    plan_from_bytes,
    plan_to_bytes,
    round_choices_from_bytes,
    round_choices_to_bytes,
)
from support.listed import add_numbers, drop_last
from support.tagged import encrypted

BITS = 384
SLOTS = PlainCipher(BITS).slots
CLIENTS = tuple(ClientId(name) for name in ("north", "south", "west"))
SCOPE = Scope(
    key=RunKey.in_clear(BITS),
    slots=SLOTS,
    length=5,
    samples={0: 2, 4: SLOTS},
    coordinate_blocks={1: 3, 2: 2},
    vectors=Vectors(kept=("own",), reported=("loss",)),
)


def vector(*blocks: int, bound: float = 0.0) -> BlockVector:
    values = np.arange(len(blocks) * SLOTS, dtype=np.float64)
    return BlockVector(blocks, encrypted(PlainCipher(BITS), values, VectorFormat(bound=bound)))


def figures(count: int = FIGURES) -> Vector:
    return encrypted(PlainCipher(BITS), np.arange(count, dtype=np.float64), MODEL_FORMAT)


TASK = Task(
    state=StateUpdate(True, {MODEL: vector(1, 2)}, ({MODEL: vector(1)}, {MODEL: vector(0, 1)}), {"own": vector(1, 2)}),
    products=vector(4),
    figures=figures(),
)
RESULT = Result(
    vectors={MODEL: vector(1, 2), "own": vector(1, 2)},
    reported={"loss": 1.5},
    checkpoint={MODEL: vector(1)},
    products=vector(0),
    figures=figures(),
    measurement=Measurement(3, 1.5, 2, 0.25),
)
PLAN = RecordedPlan({CLIENTS[0]: 0.5, CLIENTS[2]: 0.0}, {"step": 0.25}, np.array([1, 3]), True)
CHOICES = RoundChoices(CLIENTS, (CLIENTS[0], CLIENTS[2]), False, PLAN)


def test_a_task_survives_the_wire() -> None:
    sent = task_to_bytes(TASK)
    assert SLOTS == 4
    assert task_to_bytes(task_from_bytes(sent, SCOPE)) == sent


def test_a_result_survives_the_wire() -> None:
    sent = result_to_bytes(RESULT)
    assert result_to_bytes(result_from_bytes(sent, SCOPE)) == sent


def test_choices_survive_the_wire() -> None:
    sent = round_choices_to_bytes(CHOICES, CLIENTS)
    read = round_choices_from_bytes(sent, CLIENTS, length=5)
    assert round_choices_to_bytes(read, CLIENTS) == sent
    assert read.plan is not None
    assert read.plan.trainers == CLIENTS[:1]
    alone = plan_to_bytes(PLAN)
    assert plan_to_bytes(plan_from_bytes(alone, CHOICES.active, length=5)) == alone
    assert closing_from_bytes(closing_to_bytes({"total": 2.5})) == {"total": 2.5}


def test_sums_on_chosen_coordinates_have_blocks_of_their_own() -> None:
    sent = result_to_bytes(Result(vectors={MODEL: vector(0, 1)}))
    with pytest.raises(FenchelError, match="does not hold"):
        result_from_bytes(sent, SCOPE)
    assert result_from_bytes(sent, SCOPE, coordinates=np.arange(5)).vectors[MODEL].blocks == (0, 1)


CHOICE_LIES: dict[str, Callable[[pb.AveragingRoundChoices], object]] = {
    "an unknown party": lambda choices: add_numbers(choices, "present", 9),
    "parties out of order": lambda choices: add_numbers(choices, "active", 0),
    "a party without weight": lambda choices: setattr(choices.plan, "weights", bytes(8)),
    "a weight that is cut": lambda choices: setattr(choices.plan, "weights", bytes(15)),
    "coordinates too high": lambda choices: setattr(choices.plan.coordinates, "positions", b"\x07\x00\x00\x00"),
    "no coordinates": lambda choices: setattr(choices.plan.coordinates, "positions", b""),
    "an infinite number": lambda choices: setattr(choices.plan.told[0], "value", float("inf")),
}


@pytest.mark.parametrize("lie", CHOICE_LIES.values(), ids=CHOICE_LIES)
def test_choices_that_no_honest_server_makes_are_refused(lie: Callable[[pb.AveragingRoundChoices], object]) -> None:
    message = pb.AveragingRoundChoices.FromString(round_choices_to_bytes(CHOICES, CLIENTS))
    lie(message)
    with pytest.raises(FenchelError):
        round_choices_from_bytes(message.SerializeToString(), CLIENTS, length=5)


TASK_LIES: dict[str, Callable[[pb.AveragingTask], object]] = {
    "an entry without sums": lambda task: task.state.entries[0].ClearField("sums"),
    "an unknown block": lambda task: add_numbers(task.state.base[0].vector, "blocks", 9),
    "a foreign sample block": lambda task: setattr(task.products, "blocks", b"\x07\x00\x00\x00"),
    "an unknown vector": lambda task: setattr(task.state.base[0], "name", "other"),
    "a vector given twice": lambda task: task.state.kept.append(task.state.kept[0]),
    "figures of another length": lambda task: setattr(task.figures.plain, "values", bytes(24)),
    "figures of another kind": lambda task: setattr(task.figures.plain.format, "bound", 2.0),
}


@pytest.mark.parametrize("lie", TASK_LIES.values(), ids=TASK_LIES)
def test_a_task_that_no_honest_server_sends_is_refused(lie: Callable[[pb.AveragingTask], object]) -> None:
    message = pb.AveragingTask.FromString(task_to_bytes(TASK))
    lie(message)
    with pytest.raises(FenchelError):
        task_from_bytes(message.SerializeToString(), SCOPE)


RESULT_LIES: dict[str, Callable[[pb.AveragingResult], object]] = {
    "more right than there are": lambda result: setattr(result.measurement, "correct", 4),
    "an infinite loss": lambda result: setattr(result.measurement, "loss_sum", float("inf")),
    "a negative norm": lambda result: setattr(result.measurement, "squared_norm", -1.0),
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
