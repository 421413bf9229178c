"""Checks of clients' answers, for all families: an answer has exactly the content that its task asks for."""

from collections.abc import Hashable, Iterable

from fenchel_common.blocks import BlockVector, check_fresh
from fenchel_common.crypto.vectors import Vector
from fenchel_common.errors import InvalidInput


def check_presence(value: object | None, due: bool, name: str) -> None:
    """Refuses a value that is missing although it is due, or there although it is not due."""
    if (value is not None) != due:
        raise InvalidInput(f"{name}: must be there if and only if the task asks for it")


def check_blocks(vector: BlockVector | None, blocks: tuple[int, ...], name: str) -> None:
    """Refuses a vector that is not a fresh one on exactly these blocks; without blocks there must be no vector."""
    check_presence(vector, bool(blocks), name)
    if vector is not None:
        check_fresh(vector, blocks, name)


def check_fresh_numbers(vector: Vector, name: str, *, length: int | None = None) -> None:
    """Refuses a vector of numbers that is a sum of several vectors, or whose length is not `length`, if given."""
    if vector.terms != 1:
        raise InvalidInput(f"{name}: must be freshly made, with one term")
    if length is not None and vector.length != length:
        raise InvalidInput(f"{name}: must have {length} numbers")


def check_agree(values: Iterable[Hashable], message: str) -> None:
    """Raises `InvalidInput` with this message unless all values are equal."""
    if len(set(values)) > 1:
        raise InvalidInput(message)
