"""The messages of a task and of a result, in the order in which they go over a connection."""

from collections.abc import Iterator
from dataclasses import dataclass

from fenchel.v1.federation_pb2 import ClientMessage, Result, ServerMessage, Task
from fenchel.v1.federation_pb2 import TaskKey as TaskKeyMessage
from fenchel_common.errors import ProtocolViolation
from fenchel_common.ids import RoundId, RunId
from fenchel_common.wire.chunks import body_to_proto, chunks_to_proto

PROTOCOL_VERSION = 1
MAX_REASON_CHARACTERS = 500
MAX_NAME_CHARACTERS = 100
PARTY_METADATA_KEY = "fenchel-party"
"""Who a caller says it is, on a connection without certificates; with them nobody looks at it."""


@dataclass(frozen=True, slots=True)
class TaskKey:
    """What identifies a task on one client's connection; results are idempotent under it."""

    run: RunId
    round: RoundId
    phase: str
    attempt: int = 0

    def __str__(self) -> str:
        return f"{self.run}/{self.round}/{self.phase}#{self.attempt}"


def key_to_proto(key: TaskKey) -> TaskKeyMessage:
    return TaskKeyMessage(run=key.run, round=key.round, phase=key.phase, attempt=key.attempt)


def key_from_proto(message: TaskKeyMessage) -> TaskKey:
    """A key whose names are safe to show, and whose run may become part of a file's name."""
    for field, name in (("run", message.run), ("phase", message.phase)):
        if not 1 <= len(name) <= MAX_NAME_CHARACTERS or not name.isprintable():
            raise ProtocolViolation(f"key.{field}: must have 1 to {MAX_NAME_CHARACTERS} printable characters")
    if message.run.startswith(".") or "/" in message.run or "\\" in message.run:
        raise ProtocolViolation("key.run: is not usable as a file name")
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
    """The one message of a party that does not answer."""
    return ClientMessage(result=Result(key=key_to_proto(key), refusal=public_text(reason)))


def public_text(reason: str) -> str:
    """A reason as it may be shown and stored: one line, printable, of bounded length."""
    line = "".join(character if character.isprintable() else " " for character in reason)
    return line[:MAX_REASON_CHARACTERS]
