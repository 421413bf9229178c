"""The alignment's messages and the layouts as bytes; what comes in is checked before it is used."""

import re
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeVar

import numpy as np
from google.protobuf.message import DecodeError, Message

from fenchel.v1 import alignment_pb2
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId
from fenchel_common.layout import (
    MAX_CLIENTS,
    MAX_FEATURES,
    MAX_SAMPLES,
    Block,
    ClientLayout,
    FederationLayout,
    IgnoredFeatures,
    check_names,
)

_M = TypeVar("_M", bound=Message)

ELEMENT_BYTES = 32
SESSION_BYTES = 16
_PHASE = re.compile(r"align_(0|[1-9][0-9]{0,3})")


class AlignmentMethod(Enum):
    """How the parties find their common samples; the value is the word in a run's configuration."""

    ECDH = "ecdh"
    HMAC = "hmac"


_METHODS = {
    AlignmentMethod.ECDH: alignment_pb2.ALIGNMENT_METHOD_ECDH,
    AlignmentMethod.HMAC: alignment_pb2.ALIGNMENT_METHOD_HMAC,
}


@dataclass(frozen=True, slots=True)
class Listing:
    """What a party says of itself in the first phase, and its ids under its own secret in its own order."""

    session: bytes
    features: tuple[str, ...]
    has_labels: bool
    elements: tuple[bytes, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Relay:
    """Another party's list, for the party that gave `session` to raise."""

    session: bytes
    elements: tuple[bytes, ...] = field(repr=False)


def phase_name(step: int) -> str:
    """The phase in which every list is raised for the (step + 1)-th time."""
    return f"align_{step}"


def phase_step(phase: str) -> int:
    match = _PHASE.fullmatch(phase)
    if match is None:
        raise InvalidInput(f"phase: {phase!r} is not a phase of the alignment")
    return int(match[1])


def opening_to_bytes(method: AlignmentMethod) -> bytes:
    return alignment_pb2.AlignmentOpening(method=_METHODS[method]).SerializeToString()


def opening_from_bytes(body: bytes) -> AlignmentMethod:
    message = _parsed(alignment_pb2.AlignmentOpening(), body)
    for method, number in _METHODS.items():
        if message.method == number:
            return method
    raise InvalidInput(f"alignment opening: method number {message.method} is unknown")


def listing_to_bytes(listing: Listing) -> bytes:
    return alignment_pb2.AlignmentListing(
        session=listing.session,
        features=listing.features,
        has_labels=listing.has_labels,
        elements=b"".join(listing.elements),
    ).SerializeToString()


def listing_from_bytes(body: bytes) -> Listing:
    message = _parsed(alignment_pb2.AlignmentListing(), body)
    check_names(message.features, "alignment listing: features", limit=MAX_FEATURES)
    if not message.features:
        raise InvalidInput("alignment listing: features: at least one is needed")
    return Listing(
        session=_session(message.session),
        features=tuple(message.features),
        has_labels=message.has_labels,
        elements=_split(message.elements),
    )


def relay_to_bytes(relay: Relay) -> bytes:
    return alignment_pb2.AlignmentRelay(session=relay.session, elements=b"".join(relay.elements)).SerializeToString()


def relay_from_bytes(body: bytes) -> Relay:
    message = _parsed(alignment_pb2.AlignmentRelay(), body)
    return Relay(session=_session(message.session), elements=_split(message.elements))


def raised_to_bytes(elements: tuple[bytes, ...]) -> bytes:
    return alignment_pb2.AlignmentRaised(elements=b"".join(elements)).SerializeToString()


def raised_from_bytes(body: bytes) -> tuple[bytes, ...]:
    return _split(_parsed(alignment_pb2.AlignmentRaised(), body).elements)


def federation_layout_to_bytes(layout: FederationLayout) -> bytes:
    place = {client: position for position, client in enumerate(layout.clients)}
    message = alignment_pb2.FederationLayout(
        sample_count=layout.sample_count,
        slots=layout.slots,
        features=layout.features,
        clients=[
            alignment_pb2.LayoutClient(
                name=client,
                features=layout.client_features[client].tolist(),
                has_labels=client in layout.label_holders,
            )
            for client in layout.clients
        ],
        blocks=[
            alignment_pb2.LayoutBlock(size=block.size, holders=[place[holder] for holder in block.holders])
            for block in layout.blocks
        ],
    )
    return message.SerializeToString(deterministic=True)


def federation_layout_from_bytes(body: bytes) -> FederationLayout:
    message = _parsed(alignment_pb2.FederationLayout(), body)
    clients = tuple(ClientId(client.name) for client in message.clients)
    check_names(clients, "federation layout: clients", limit=MAX_CLIENTS)
    if any(holder >= len(clients) for block in message.blocks for holder in block.holders):
        raise InvalidInput("federation layout: blocks: a holder is not among the clients")
    return FederationLayout(
        clients=clients,
        sample_count=message.sample_count,
        slots=message.slots,
        blocks=tuple(
            Block(id=number, size=block.size, holders=tuple(clients[holder] for holder in block.holders))
            for number, block in enumerate(message.blocks)
        ),
        features=tuple(message.features),
        client_features={ClientId(client.name): np.array(client.features) for client in message.clients},
        label_holders=frozenset(ClientId(client.name) for client in message.clients if client.has_labels),
    )


def client_layout_to_bytes(layout: ClientLayout) -> bytes:
    return alignment_pb2.ClientLayout(
        sample_count=layout.sample_count,
        slots=layout.slots,
        block_ids=layout.block_ids.tolist(),
        block_sizes=layout.block_sizes.tolist(),
        holder_counts=layout.holder_counts.tolist(),
        shared=layout.shared.tolist(),
        rows=layout.rows.tolist(),
        ignored=[
            alignment_pb2.IgnoredFeatures(features=cut.features, block_ids=cut.block_ids.tolist())
            for cut in layout.ignored
        ],
        feature_blocks=[
            alignment_pb2.FeatureBlock(id=block, places=places.tolist())
            for block, places in layout.feature_blocks.items()
        ],
    ).SerializeToString(deterministic=True)


def client_layout_from_bytes(body: bytes) -> ClientLayout:
    message = _parsed(alignment_pb2.ClientLayout(), body)
    return ClientLayout(
        sample_count=message.sample_count,
        slots=message.slots,
        block_ids=np.array(message.block_ids),
        block_sizes=np.array(message.block_sizes),
        holder_counts=np.array(message.holder_counts),
        shared=np.array(message.shared, dtype=bool),
        rows=np.array(message.rows),
        ignored=tuple(
            IgnoredFeatures(features=tuple(cut.features), block_ids=np.array(cut.block_ids)) for cut in message.ignored
        ),
        feature_blocks={block.id: np.array(block.places) for block in message.feature_blocks},
    )


def _parsed(message: _M, body: bytes) -> _M:
    try:
        message.ParseFromString(body)
    except DecodeError:
        raise InvalidInput(f"{message.DESCRIPTOR.name}: the bytes are not such a message") from None
    return message


def _session(session: bytes) -> bytes:
    if len(session) != SESSION_BYTES:
        raise InvalidInput(f"alignment: session: must have {SESSION_BYTES} bytes")
    return session


def _split(elements: bytes) -> tuple[bytes, ...]:
    count, rest = divmod(len(elements), ELEMENT_BYTES)
    if rest:
        raise InvalidInput(f"alignment: elements: the list is cut off inside an element of {ELEMENT_BYTES} bytes")
    if not 1 <= count <= MAX_SAMPLES:
        raise InvalidInput(f"alignment: elements: a list must have 1 to {MAX_SAMPLES} elements")
    return tuple(elements[place : place + ELEMENT_BYTES] for place in range(0, len(elements), ELEMENT_BYTES))
