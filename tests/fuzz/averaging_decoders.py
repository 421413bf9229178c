"""The messages and the snapshot of the averaging rails, with a valid one of each."""

from dataclasses import replace

import numpy as np

from fenchel.v1 import averaging_pb2 as pb
from fenchel_common.algorithms.averaging.rails import (
    MODEL,
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
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.wire import averaging as wire
from fenchel_common.wire.averaging_snapshot import AveragingSnapshot, Base, snapshot_from_bytes, snapshot_to_bytes
from fuzz.decoder import Decoder, parsed
from support.keys import cipher, run_key

BITS = 2048
SLOTS = PlainCipher(BITS).slots
LAYOUT = {1: np.array([0, 2, 4]), 2: np.array([1, 3])}
SCOPE = wire.Scope(
    key=RunKey.in_clear(BITS),
    slots=SLOTS,
    length=5,
    samples={0: 2, 4: SLOTS},
    coordinate_blocks={1: 3, 2: 2},
    vectors=Vectors(kept=("own",), reported=("loss",)),
)


def _vector(*blocks: int, encrypted: bool = False) -> BlockVector:
    values = np.arange(len(blocks) * SLOTS, dtype=np.float64)
    used = cipher(BITS) if encrypted else PlainCipher(BITS)
    return BlockVector(blocks, used.encrypt(values, VectorFormat()))


def _task() -> Task:
    entry = Entry(RoundId(3), {"step": 0.5}, {1: 2.0}, {MODEL: _vector(1)})
    chosen = Entry(RoundId(4), {}, {0: 1.0}, {MODEL: _vector(0)}, np.arange(4))
    return Task(
        round_id=RoundId(5),
        stream=2,
        state=StateUpdate(True, LAYOUT, {MODEL: _vector(1, 2)}, (entry, chosen), {"own": _vector(1, 2)}),
        work=Work({"step": 0.25}, 0.5, np.array([1, 3])),
        checkpoint_blocks=(1,),
        product_blocks=(0, 4),
        report_blocks=(4,),
        norm_blocks=(2,),
        products=_vector(4),
    )


def _result(*, encrypted: bool) -> Result:
    return Result(
        vectors={MODEL: _vector(1, 2, encrypted=encrypted), "own": _vector(1, 2, encrypted=encrypted)},
        reported={"loss": 1.5},
        checkpoint={MODEL: _vector(1, encrypted=encrypted)},
        products=_vector(0, encrypted=encrypted),
        measurement=Measurement(3, 1.5, 2, 0.25),
    )


def averaging_decoders() -> list[Decoder]:
    task, encrypted = _task(), replace(SCOPE, key=run_key(BITS))
    snapshot = AveragingSnapshot(
        RoundId(5),
        {1: Base(RoundId(2), {MODEL: _vector(1)})},
        task.state.entries,
        {ClientId("north"): {"own": _vector(1, 2)}},
        {"step": 0.5},
    )
    entries = tuple(wire.entry_to_proto(entry).SerializeToString() for entry in task.state.entries)
    result = wire.result_to_bytes(_result(encrypted=False))
    return [
        Decoder(
            "averaging.task_from_bytes",
            lambda data: wire.task_from_bytes(data, replace(SCOPE, coordinate_blocks={})),
            (wire.task_to_bytes(task),),
            (wire.task_from_bytes,),
            pb.AveragingTask,
        ),
        Decoder(
            "averaging.state_from_bytes",
            lambda data: wire.state_from_bytes(data, SCOPE),
            (wire.state_to_bytes(task.state),),
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
            "averaging.entry_from_proto",
            lambda data: wire.entry_from_proto(parsed(pb.AveragingEntry, data), SCOPE),
            entries,
            (wire.entry_from_proto,),
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
            (wire.state_to_bytes(task.state),),
            (wire.vectors_from_proto,),
            pb.AveragingState,
        ),
        Decoder(
            "averaging_snapshot.snapshot_from_bytes",
            lambda data: snapshot_from_bytes(data, SCOPE),
            (snapshot_to_bytes(snapshot),),
            (snapshot_from_bytes,),
            pb.AveragingSnapshot,
        ),
    ]
