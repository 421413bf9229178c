"""Reads bytes of a party whose answer must be good: an error in them is the fault of that party."""

from collections.abc import Callable
from typing import TypeVar

from fenchel_common.errors import FenchelError, ResultRejected
from fenchel_common.ids import ClientId

T = TypeVar("T")


def read_or_reject(client: ClientId, parse: Callable[[bytes], T], body: bytes) -> T:
    """The result of `parse`; if it raises a `FenchelError`, `ResultRejected` names the client and the error."""
    try:
        return parse(body)
    except FenchelError as error:
        raise ResultRejected(client, str(error)) from None
