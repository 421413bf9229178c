"""The messages of a task and of a result, in the order in which they go over a connection."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from fenchel.v1.federation_pb2 import ClientMessage, Result, ServerMessage, Task
from fenchel.v1.federation_pb2 import TaskKey as TaskKeyMessage
from fenchel_common.errors import InvalidInput, ProtocolViolation
from fenchel_common.ids import RoundId, RunId, check_run_id
from fenchel_common.wire.chunks import body_to_proto, chunks_to_proto

PROTOCOL_VERSION = 6
MAX_REASON_CHARACTERS = 500
PHASE_PATTERN: Final = re.compile(r"[a-z0-9_]{1,64}")
PARTY_METADATA_KEY = "fenchel-party"
"""The name that a caller gives itself on a connection without certificates; ignored if there are certificates."""


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


def public_text(reason: str) -> str:
    """The reason as one printable line of bounded length, which may be shown and stored."""
    line = "".join(character if character.isprintable() else " " for character in reason)
    return line[:MAX_REASON_CHARACTERS]
