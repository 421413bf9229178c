"""The alignment's messages and the layouts as bytes; every reader checks a message and raises `InvalidInput`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from fenchel.v1 import alignment_pb2
from fenchel_common.clientlayout import ClientLayout, IgnoredFeatures
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId
from fenchel_common.layout import MAX_CLIENTS, MAX_FEATURES, MAX_PARTY_SAMPLES, Block, FederationLayout, check_names
from fenchel_common.layoutroot import LEAF_BYTES, SALT_BYTES, Cohort, OpenedCohort
from fenchel_common.setup import GroupKey
from fenchel_common.wire.arrays import names_from_bytes, names_to_bytes, numbers_from_bytes, numbers_to_bytes
from fenchel_common.wire.blocks import block_positions_from_proto, block_positions_to_proto
from fenchel_common.wire.groupkeys import sealed_key_to_proto
from fenchel_common.wire.names import MAX_SEALED_NAMES_BYTES
from fenchel_common.wire.parsing import parsed_message
from fenchel_common.wire.pieces import ELEMENT_BYTES, TAG_BYTES, Piece, pieces_from_protos, pieces_to_protos

PSEUDONYM_BYTES = 16
"""The bytes of a feature's pseudonym."""
_PHASE = re.compile(r"align_(0|[1-9][0-9]{0,3})")


class AlignmentMethod(Enum):
    """The method by which the parties find their shared samples; the value is the word in a run's configuration."""

    BLINDERS = "blinders"
    RING = "ring"
    HMAC = "hmac"


_METHODS = {
    AlignmentMethod.BLINDERS: alignment_pb2.ALIGNMENT_METHOD_BLINDERS,
    AlignmentMethod.RING: alignment_pb2.ALIGNMENT_METHOD_RING,
    AlignmentMethod.HMAC: alignment_pb2.ALIGNMENT_METHOD_HMAC,
}


@dataclass(frozen=True, slots=True)
class TaggedList:
    """A list of the alignment, and the tag of the party that listed its elements or raised them last.

    `elements` has all elements end to end; `split_elements` separates them.
    """

    elements: bytes = field(repr=False)
    tag: bytes = field(repr=False)


NO_LIST = TaggedList(b"", b"")
"""In the place of a list that comes in pieces."""


@dataclass(frozen=True, slots=True)
class Listing:
    """A party's features and labels, and its sample ids under its own secret in its own order.

    `features` has the pseudonyms of its features end to end, ascending. `sealed_names` is the list of its names,
    sealed for the parties, or empty. With blinding parties, `samples` is the number of ids and `pieces` has the first
    ones; with other methods, `ids` has all of them.
    """

    features: bytes = field(repr=False)
    has_labels: bool
    ids: TaggedList
    sealed_names: bytes = field(default=b"", repr=False)
    samples: int = 0
    pieces: tuple[Piece, ...] = ()


def split_elements(elements: bytes) -> tuple[bytes, ...]:
    return tuple(elements[start : start + ELEMENT_BYTES] for start in range(0, len(elements), ELEMENT_BYTES))


def phase_name(step: int) -> str:
    """The phase in which every list is raised for the (step + 1)-th time."""
    return f"align_{step}"


def phase_step(phase: str) -> int:
    match = _PHASE.fullmatch(phase)
    if match is None:
        raise InvalidInput(f"phase: {phase!r} is not a phase of the alignment")
    return int(match[1])


def start_to_bytes(method: AlignmentMethod, vocabularies: Mapping[ClientId, bytes] | None = None) -> bytes:
    """The task of `align_0`; `vocabularies` are those of all parties, sealed, in a run with `[features]`."""
    given = [alignment_pb2.SealedVocabulary(party=party, sealed=one) for party, one in (vocabularies or {}).items()]
    return alignment_pb2.AlignmentStart(method=_METHODS[method], vocabularies=given).SerializeToString()


def start_from_bytes(body: bytes) -> AlignmentMethod:
    """The method; `wire.vocabulary` reads the rest."""
    message = parsed_message(alignment_pb2.AlignmentStart, body)
    for method, number in _METHODS.items():
        if message.method == number:
            return method
    raise InvalidInput(f"alignment start: method number {message.method} is unknown")


def listing_to_bytes(listing: Listing) -> bytes:
    return alignment_pb2.AlignmentListing(
        features=listing.features,
        has_labels=listing.has_labels,
        elements=listing.ids.elements,
        tag=listing.ids.tag,
        sealed_names=listing.sealed_names,
        samples=listing.samples,
        pieces=pieces_to_protos(listing.pieces),
    ).SerializeToString()


def listing_from_bytes(body: bytes) -> Listing:
    message = parsed_message(alignment_pb2.AlignmentListing, body)
    if message.samples > MAX_PARTY_SAMPLES:
        raise InvalidInput(f"alignment listing: samples: at most {MAX_PARTY_SAMPLES}")
    ids = NO_LIST if message.samples else _tagged_list(message)
    if len(message.sealed_names) > MAX_SEALED_NAMES_BYTES:
        raise InvalidInput(f"alignment listing: sealed_names: more than {MAX_SEALED_NAMES_BYTES} bytes")
    return Listing(
        _pseudonyms(message.features),
        message.has_labels,
        ids,
        message.sealed_names,
        message.samples,
        pieces_from_protos(message.pieces),
    )


def relay_to_bytes(relayed: TaggedList) -> bytes:
    return alignment_pb2.AlignmentRelay(elements=relayed.elements, tag=relayed.tag).SerializeToString()


def relay_from_bytes(body: bytes) -> TaggedList:
    return _tagged_list(parsed_message(alignment_pb2.AlignmentRelay, body))


def raised_to_bytes(raised: TaggedList) -> bytes:
    return alignment_pb2.AlignmentRaised(elements=raised.elements, tag=raised.tag).SerializeToString()


def raised_from_bytes(body: bytes) -> TaggedList:
    return _tagged_list(parsed_message(alignment_pb2.AlignmentRaised, body))


def federation_layout_to_bytes(layout: FederationLayout) -> bytes:
    position_of = {client: position for position, client in enumerate(layout.clients)}
    message = alignment_pb2.FederationLayout(
        sample_count=layout.sample_count,
        slots=layout.slots,
        feature_slots=layout.feature_slots,
        features=names_to_bytes(layout.features),
        clients=[
            alignment_pb2.LayoutClient(
                name=client,
                features=numbers_to_bytes(layout.client_features[client]),
                has_labels=client in layout.label_holders,
            )
            for client in layout.clients
        ],
        blocks=[
            alignment_pb2.LayoutBlock(size=block.size, holders=[position_of[holder] for holder in block.holders])
            for block in layout.blocks
        ],
    )
    return message.SerializeToString(deterministic=True)


def federation_layout_from_bytes(body: bytes) -> FederationLayout:
    """Reads a layout that this server wrote."""
    message = parsed_message(alignment_pb2.FederationLayout, body, limit=None)
    clients = tuple(ClientId(client.name) for client in message.clients)
    check_names(clients, "federation layout: clients", limit=MAX_CLIENTS)
    if any(holder >= len(clients) for block in message.blocks for holder in block.holders):
        raise InvalidInput("federation layout: blocks: a holder is not among the clients")
    return FederationLayout(
        clients=clients,
        sample_count=message.sample_count,
        slots=message.slots,
        feature_slots=message.feature_slots,
        blocks=tuple(
            Block(id=number, size=block.size, holders=tuple(clients[holder] for holder in block.holders))
            for number, block in enumerate(message.blocks)
        ),
        features=names_from_bytes(message.features, most=MAX_FEATURES, field="features"),
        client_features={
            ClientId(client.name): numbers_from_bytes(client.features, most=MAX_FEATURES, field="client_features")
            for client in message.clients
        },
        label_holders=frozenset(ClientId(client.name) for client in message.clients if client.has_labels),
    )


def client_layout_to_bytes(layout: ClientLayout, sealed_keys: Sequence[GroupKey] = ()) -> bytes:
    return alignment_pb2.ClientLayout(
        sample_count=layout.sample_count,
        feature_count=layout.feature_count,
        slots=layout.slots,
        feature_slots=layout.feature_slots,
        block_ids=numbers_to_bytes(layout.block_ids),
        block_sizes=numbers_to_bytes(layout.block_sizes),
        rows=numbers_to_bytes(layout.rows),
        ignored=[
            alignment_pb2.IgnoredFeatures(
                features=numbers_to_bytes(cut.features), block_ids=numbers_to_bytes(cut.block_ids)
            )
            for cut in layout.ignored
        ],
        feature_blocks=block_positions_to_proto(layout.feature_blocks),
        clients=names_to_bytes(layout.clients),
        has_labels=bytes(client in layout.label_holders for client in layout.clients),
        cohorts=[
            alignment_pb2.LayoutCohort(
                features=opened.cohort.features,
                holders=numbers_to_bytes([layout.clients.index(holder) for holder in opened.cohort.holders]),
                blocks=numbers_to_bytes(opened.cohort.blocks),
                leaf=opened.leaf,
                salt=opened.salt,
            )
            for opened in layout.cohorts
        ],
        leaves=b"".join(layout.leaves),
        unlabelled=numbers_to_bytes(layout.unlabelled),
        incomplete=numbers_to_bytes(layout.incomplete),
        samples_by_holders=numbers_to_bytes(layout.samples_by_holders),
        features_by_holders=numbers_to_bytes(layout.features_by_holders),
        sealed_keys=[sealed_key_to_proto(key, layout.clients) for key in sealed_keys],
    ).SerializeToString(deterministic=True)


def client_layout_from_bytes(body: bytes, *, party: ClientId, samples: int, features: int) -> ClientLayout:
    """Reads the layout of a party that holds `samples` samples and `features` features; the layout covers no more."""
    message = parsed_message(alignment_pb2.ClientLayout, body)
    names = names_from_bytes(message.clients, most=MAX_CLIENTS, field="clients")
    if len(message.has_labels) != len(names) or not set(message.has_labels) <= {0, 1}:
        raise InvalidInput("has_labels: must have one byte for each client, 0 or 1")
    clients = tuple(ClientId(name) for name in names)
    block_ids = numbers_from_bytes(message.block_ids, most=samples, field="block_ids")
    block_sizes = numbers_from_bytes(message.block_sizes, most=samples, field="block_sizes")
    feature_blocks = block_positions_from_proto(message.feature_blocks, most=features, field="feature_blocks")
    sizes = dict(zip(block_ids.tolist(), block_sizes.tolist(), strict=False))
    feature_sizes = {block: len(positions) for block, positions in feature_blocks.items()}
    leaves = message.leaves  # every look at a field of bytes copies it
    if len(leaves) % LEAF_BYTES:
        raise InvalidInput(f"leaves: must have {LEAF_BYTES} bytes each")
    return ClientLayout(
        party=party,
        clients=clients,
        label_holders=frozenset(
            client for client, labelled in zip(clients, message.has_labels, strict=True) if labelled
        ),
        sample_count=message.sample_count,
        feature_count=message.feature_count,
        slots=message.slots,
        feature_slots=message.feature_slots,
        block_ids=block_ids,
        block_sizes=block_sizes,
        cohorts=tuple(
            _opened_cohort(cohort, clients, feature_sizes if cohort.features else sizes) for cohort in message.cohorts
        ),
        leaves=tuple(leaves[start : start + LEAF_BYTES] for start in range(0, len(leaves), LEAF_BYTES)),
        rows=numbers_from_bytes(message.rows, most=samples, field="rows"),
        samples_by_holders=_counts(message.samples_by_holders, clients, "samples_by_holders"),
        features_by_holders=_counts(message.features_by_holders, clients, "features_by_holders"),
        unlabelled=numbers_from_bytes(message.unlabelled, most=samples, field="unlabelled"),
        incomplete=numbers_from_bytes(message.incomplete, most=samples, field="incomplete"),
        ignored=tuple(
            IgnoredFeatures(
                features=numbers_from_bytes(cut.features, most=features, field="ignored.features"),
                block_ids=numbers_from_bytes(cut.block_ids, most=samples, field="ignored.block_ids"),
            )
            for cut in message.ignored
        ),
        feature_blocks=feature_blocks,
    )


def _counts(data: bytes, clients: Sequence[ClientId], field: str) -> tuple[int, ...]:
    return tuple(numbers_from_bytes(data, most=len(clients), field=field).tolist())


def _opened_cohort(
    message: alignment_pb2.LayoutCohort, clients: Sequence[ClientId], sizes: Mapping[int, int]
) -> OpenedCohort:
    """A cohort of a party; `sizes` are those of the party's blocks of the same kind."""
    holders = numbers_from_bytes(message.holders, most=len(clients), field="cohorts.holders").tolist()
    blocks = tuple(numbers_from_bytes(message.blocks, most=len(sizes), field="cohorts.blocks").tolist())
    if any(holder >= len(clients) for holder in holders) or any(block not in sizes for block in blocks):
        raise InvalidInput("cohorts: names a holder that is no client, or a block that this party does not hold")
    if len(message.salt) != SALT_BYTES:
        raise InvalidInput(f"cohorts.salt: must have {SALT_BYTES} bytes")
    cohort = Cohort(
        features=message.features,
        holders=tuple(clients[holder] for holder in holders),
        blocks=blocks,
        sizes=tuple(sizes[block] for block in blocks),
    )
    return OpenedCohort(cohort, message.leaf, message.salt)


def _pseudonyms(data: bytes) -> bytes:
    count, rest = divmod(len(data), PSEUDONYM_BYTES)
    if rest or not 1 <= count <= MAX_FEATURES:
        raise InvalidInput(
            f"alignment listing: features: must be 1 to {MAX_FEATURES} pseudonyms of {PSEUDONYM_BYTES} bytes"
        )
    listed = np.frombuffer(data, dtype=f"S{PSEUDONYM_BYTES}")
    if not (listed[:-1] < listed[1:]).all():
        raise InvalidInput("alignment listing: features: must be ascending, none of them twice")
    return data


def _tagged_list(
    message: alignment_pb2.AlignmentListing | alignment_pb2.AlignmentRelay | alignment_pb2.AlignmentRaised,
) -> TaggedList:
    count, rest = divmod(len(message.elements), ELEMENT_BYTES)
    if rest:
        raise InvalidInput(f"alignment: elements: the list is cut off inside an element of {ELEMENT_BYTES} bytes")
    if not 1 <= count <= MAX_PARTY_SAMPLES:
        raise InvalidInput(f"alignment: elements: a list must have 1 to {MAX_PARTY_SAMPLES} elements")
    if len(message.tag) != TAG_BYTES:
        raise InvalidInput(f"alignment: tag: must have {TAG_BYTES} bytes")
    return TaggedList(message.elements, message.tag)
