"""Fenchel's messages inside FLARE's auxiliary messages."""

from collections.abc import Sequence
from typing import Final

from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.shareable import Shareable, make_reply

TOPIC: Final = "fenchel"
_MESSAGES: Final = "messages"


def shareable_of(messages: Sequence[bytes]) -> Shareable:
    return Shareable({_MESSAGES: list(messages)})


def messages_of(shareable: Shareable | None) -> list[bytes] | None:
    """The messages in it; None if the other side gave none."""
    if shareable is None or shareable.get_return_code() != ReturnCode.OK:
        return None
    messages = shareable.get(_MESSAGES)
    if not isinstance(messages, list) or not all(isinstance(message, bytes) for message in messages):
        return None
    return messages


def unavailable() -> Shareable:
    """The reply of a party that cannot answer now."""
    return make_reply(ReturnCode.SERVICE_UNAVAILABLE)
