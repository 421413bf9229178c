"""The messages and the snapshot of the averaging rails, with a valid one of each."""

from dataclasses import replace

import numpy as np

from fenchel.v1 import averaging_pb2 as pb
from fenchel_client.crypto.plain import Cipher, PlainCipher
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
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import Vector
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.wire import averaging as wire
from fenchel_common.wire import averaging_choices as choices_wire
from fenchel_common.wire.averaging_snapshot import (
    AveragingSnapshot,
    Base,
    Entry,
    snapshot_from_bytes,
    snapshot_to_bytes,
)
from fuzz.decoder import Decoder, parsed
from support.keys import cipher, run_key
from support.tagged import encrypted as made

BITS = 2048
SLOTS = PlainCipher(BITS).slots
CLIENTS = (ClientId("north"), ClientId("south"))
SCOPE = wire.Scope(
    key=RunKey.in_clear(BITS),
    slots=SLOTS,
    length=5,
    samples={0: 2, 4: SLOTS},
    coordinate_blocks={1: 3, 2: 2},
    vectors=Vectors(kept=("own",), reported=("loss",)),
)


def _cipher(*, encrypted: bool) -> Cipher:
    return cipher(BITS) if encrypted else PlainCipher(BITS)


def _vector(*blocks: int, encrypted: bool = False) -> BlockVector:
    values = np.arange(len(blocks) * SLOTS, dtype=np.float64)
    return BlockVector(blocks, made(_cipher(encrypted=encrypted), values, MODEL_FORMAT))


def _figures(*, encrypted: bool = False) -> Vector:
    return made(_cipher(encrypted=encrypted), np.arange(FIGURES, dtype=np.float64), MODEL_FORMAT)


def _task() -> Task:
    entries = ({MODEL: _vector(1)}, {MODEL: _vector(0)})
    return Task(
        state=StateUpdate(True, {MODEL: _vector(1, 2)}, entries, {"own": _vector(1, 2)}),
        products=_vector(4),
        figures=_figures(),
    )


def _result(*, encrypted: bool) -> Result:
    return Result(
        vectors={MODEL: _vector(1, 2, encrypted=encrypted), "own": _vector(1, 2, encrypted=encrypted)},
        reported={"loss": 1.5},
        checkpoint={MODEL: _vector(1, encrypted=encrypted)},
        products=_vector(0, encrypted=encrypted),
        figures=_figures(encrypted=encrypted),
        measurement=Measurement(3, 1.5, 2, 0.25),
    )


def averaging_decoders() -> list[Decoder]:
    task, encrypted = _task(), replace(SCOPE, key=run_key(BITS))
    snapshot = AveragingSnapshot(
        RoundId(5),
        {1: Base(RoundId(2), {MODEL: _vector(1)})},
        tuple(Entry(RoundId(3), sums) for sums in task.state.entries),
        {ClientId("north"): {"own": _vector(1, 2)}},
        {"step": 0.5},
    )
    state = wire.state_to_bytes(task.state)
    result = wire.result_to_bytes(_result(encrypted=False))
    plan = RecordedPlan(dict.fromkeys(CLIENTS, 0.5), {"step": 0.25}, np.array([1, 3]), True)
    return [
        Decoder(
            "averaging.task_from_bytes",
            lambda data: wire.task_from_bytes(data, SCOPE),
            (wire.task_to_bytes(task),),
            (wire.task_from_bytes,),
            pb.AveragingTask,
        ),
        Decoder(
            "averaging.state_from_bytes",
            lambda data: wire.state_from_bytes(data, SCOPE),
            (state,),
            (wire.state_from_bytes,),
            pb.AveragingState,
        ),
        Decoder(
            "averaging.result_from_bytes",
            lambda data: wire.result_from_bytes(data, SCOPE),
            (result,),
            (wire.result_from_bytes,),
            pb.AveragingResult,
        ),
        Decoder(
            "averaging.result_from_bytes (encrypted)",
            lambda data: wire.result_from_bytes(data, encrypted),
            (wire.result_to_bytes(_result(encrypted=True)),),
            message=pb.AveragingResult,
        ),
        Decoder(
            "averaging.sums_from_proto",
            lambda data: wire.sums_from_proto(parsed(pb.AveragingEntry, data).sums, SCOPE),
            (pb.AveragingEntry(sums=wire.vectors_to_proto(task.state.entries[0])).SerializeToString(),),
            (wire.sums_from_proto,),
            pb.AveragingEntry,
        ),
        Decoder(
            "averaging.numbers_from_proto",
            lambda data: wire.numbers_from_proto(parsed(pb.AveragingResult, data).reported, "reported"),
            (result,),
            (wire.numbers_from_proto,),
            pb.AveragingResult,
        ),
        Decoder(
            "averaging.vectors_from_proto",
            lambda data: wire.vectors_from_proto(
                parsed(pb.AveragingState, data).base, SCOPE, SCOPE.vectors.state, "base"
            ),
            (state,),
            (wire.vectors_from_proto,),
            pb.AveragingState,
        ),
        Decoder(
            "averaging_choices.round_choices_from_bytes",
            lambda data: choices_wire.round_choices_from_bytes(data, CLIENTS, length=5),
            (choices_wire.round_choices_to_bytes(RoundChoices(CLIENTS, CLIENTS, False, plan), CLIENTS),),
            (choices_wire.round_choices_from_bytes,),
            pb.AveragingRoundChoices,
        ),
        Decoder(
            "averaging_choices.plan_from_bytes",
            lambda data: choices_wire.plan_from_bytes(data, CLIENTS, length=5),
            (choices_wire.plan_to_bytes(plan),),
            (choices_wire.plan_from_bytes,),
            pb.AveragingPlan,
        ),
        Decoder(
            "averaging_choices.closing_from_bytes",
            choices_wire.closing_from_bytes,
            (choices_wire.closing_to_bytes({"total": 2.5}),),
            (choices_wire.closing_from_bytes,),
            pb.AveragingClosing,
        ),
        Decoder(
            "averaging_snapshot.snapshot_from_bytes",
            lambda data: snapshot_from_bytes(data, SCOPE),
            (snapshot_to_bytes(snapshot),),
            (snapshot_from_bytes,),
            pb.AveragingSnapshot,
        ),
    ]
