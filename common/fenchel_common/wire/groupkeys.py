"""The sealed keys of groups of holders as bytes."""

from collections.abc import Sequence

from fenchel.v1 import alignment_pb2
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId
from fenchel_common.setup import GroupKey
from fenchel_common.wire.arrays import numbers_from_bytes, numbers_to_bytes
from fenchel_common.wire.parsing import parsed_message

MAX_SEALED_KEY_BYTES = 64
"""The most bytes of a group's key, sealed."""


def sealed_keys_from_bytes(body: bytes, clients: Sequence[ClientId]) -> tuple[GroupKey, ...]:
    """The keys of groups in a party's layout."""
    message = parsed_message(alignment_pb2.ClientLayout, body)
    return tuple(_sealed_key_from_proto(key, clients) for key in message.sealed_keys)


def group_keys_to_bytes(keys: Sequence[GroupKey], clients: Sequence[ClientId]) -> bytes:
    return alignment_pb2.GroupKeys(keys=[sealed_key_to_proto(key, clients) for key in keys]).SerializeToString()


def group_keys_from_bytes(body: bytes, clients: Sequence[ClientId]) -> tuple[GroupKey, ...]:
    message = parsed_message(alignment_pb2.GroupKeys, body)
    return tuple(_sealed_key_from_proto(key, clients) for key in message.keys)


def sealed_key_to_proto(key: GroupKey, clients: Sequence[ClientId]) -> alignment_pb2.SealedGroupKey:
    """A sealed key, as a layout and as an answer have it."""
    return alignment_pb2.SealedGroupKey(
        holders=numbers_to_bytes([clients.index(holder) for holder in key.holders]),
        recipient=clients.index(key.recipient),
        sealed=key.sealed,
    )


def _sealed_key_from_proto(message: alignment_pb2.SealedGroupKey, clients: Sequence[ClientId]) -> GroupKey:
    positions = numbers_from_bytes(message.holders, most=len(clients), field="holders").tolist()
    if any(position >= len(clients) for position in (*positions, message.recipient)):
        raise InvalidInput("sealed_keys: holders and recipient must be positions in the roster")
    if len(message.sealed) > MAX_SEALED_KEY_BYTES:
        raise InvalidInput(f"sealed_keys: at most {MAX_SEALED_KEY_BYTES} bytes each")
    holders = tuple(clients[position] for position in positions)
    return GroupKey(holders, clients[message.recipient], message.sealed)
