"""Changes to lists of numbers that a message has in one field of bytes."""

from google.protobuf.message import Message

from fenchel_common.wire.arrays import NUMBER_BYTES, numbers_from_bytes, numbers_to_bytes


def numbers_in(data: bytes) -> list[int]:
    return list(numbers_from_bytes(data, most=len(data), field="numbers").tolist())


def add_numbers(message: Message, field: str, *numbers: int) -> None:
    setattr(message, field, getattr(message, field) + numbers_to_bytes(numbers))


def drop_last(message: Message, field: str) -> None:
    setattr(message, field, getattr(message, field)[:-NUMBER_BYTES])
