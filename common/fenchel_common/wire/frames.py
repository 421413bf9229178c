"""The messages of a task and of a result, in the order in which they go over a connection."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from fenchel.v1 import federation_pb2
from fenchel.v1.federation_pb2 import ClientMessage, Result, ServerMessage, Task
from fenchel.v1.federation_pb2 import Dismissal as DismissalMessage
from fenchel.v1.federation_pb2 import TaskKey as TaskKeyMessage
from fenchel_common.dismissal import MAX_UNFIT_FEATURES, Dismissal, Misfit, UnfitData
from fenchel_common.errors import InvalidInput, ProtocolViolation
from fenchel_common.ids import RoundId, RunId, check_run_id
from fenchel_common.wire.arrays import names_from_bytes, names_to_bytes
from fenchel_common.wire.chunks import body_to_proto, chunks_to_proto

PROTOCOL_VERSION = 7
MAX_REASON_CHARACTERS = 500
PHASE_PATTERN: Final = re.compile(r"[a-z0-9_]{1,64}")
PARTY_METADATA_KEY = "fenchel-party"
"""The name that a caller gives itself on a connection without certificates; ignored if there are certificates."""

_MISFITS: Final = {
    Misfit.NO_COMMON_SAMPLE: federation_pb2.MISFIT_NO_COMMON_SAMPLE,
    Misfit.NO_SAMPLE_USED: federation_pb2.MISFIT_NO_SAMPLE_USED,
    Misfit.FEATURES_HELD_TWICE: federation_pb2.MISFIT_FEATURES_HELD_TWICE,
}


@dataclass(frozen=True, slots=True)
class TaskKey:
    """The identity of a task on one client's connection. A second result with the same key changes nothing."""

    run: RunId
    round: RoundId
    phase: str
    attempt: int = 0

    def __str__(self) -> str:
        return f"{self.run}/{self.round}/{self.phase}#{self.attempt}"


def key_to_proto(key: TaskKey) -> TaskKeyMessage:
    return TaskKeyMessage(run=key.run, round=key.round, phase=key.phase, attempt=key.attempt)


def key_from_proto(message: TaskKeyMessage) -> TaskKey:
    """A key with short ASCII names: people see them, and the run's id becomes part of file names."""
    try:
        check_run_id(message.run)
    except InvalidInput as error:
        raise ProtocolViolation(f"key.run: {error}") from None
    if PHASE_PATTERN.fullmatch(message.phase) is None:
        raise ProtocolViolation("key.phase: must have 1 to 64 lower-case letters, digits or '_'")
    return TaskKey(run=RunId(message.run), round=RoundId(message.round), phase=message.phase, attempt=message.attempt)


def task_frames(key: TaskKey, body: bytes) -> Iterator[ServerMessage]:
    """A task, announced and then streamed."""
    yield ServerMessage(task=Task(key=key_to_proto(key), body=body_to_proto(body)))
    for chunk in chunks_to_proto(body):
        yield ServerMessage(chunk=chunk)


def result_frames(key: TaskKey, body: bytes) -> Iterator[ClientMessage]:
    """A result, announced and then streamed."""
    yield ClientMessage(result=Result(key=key_to_proto(key), body=body_to_proto(body)))
    for chunk in chunks_to_proto(body):
        yield ClientMessage(chunk=chunk)


def refusal_frame(key: TaskKey, reason: str) -> ClientMessage:
    """The message with which a party declines a task."""
    return ClientMessage(result=Result(key=key_to_proto(key), refusal=public_text(reason)))


def dismissal_to_proto(dismissal: Dismissal) -> DismissalMessage:
    message = DismissalMessage(reason=public_text(dismissal.reason))
    if dismissal.unfit is not None:
        message.misfit = _MISFITS[dismissal.unfit.misfit]
        message.features = names_to_bytes(dismissal.unfit.features)
    return message


def dismissal_from_proto(message: DismissalMessage) -> Dismissal:
    """A dismissal; `ProtocolViolation` if it names a misfit that this version does not know, or too many features."""
    reason = public_text(message.reason)
    if message.misfit == federation_pb2.MISFIT_UNSPECIFIED:
        return Dismissal(reason)
    known = {number: misfit for misfit, number in _MISFITS.items()}
    if message.misfit not in known:
        raise ProtocolViolation("dismissal.misfit: is unknown")
    try:
        features = names_from_bytes(message.features, most=MAX_UNFIT_FEATURES, field="dismissal.features")
    except InvalidInput as error:
        raise ProtocolViolation(str(error)) from None
    return Dismissal(reason, UnfitData(known[message.misfit], features))


def public_text(reason: str) -> str:
    """The reason as one printable line of bounded length, which may be shown and stored."""
    line = "".join(character if character.isprintable() else " " for character in reason)
    return line[:MAX_REASON_CHARACTERS]
