"""How long a body may be: every phase has a limit, which admits all that is legal and grows with what a party holds."""

from collections.abc import Iterator
from dataclasses import replace
from typing import cast

import numpy as np
import pytest
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

from fenchel.v1 import hyfdca_pb2, vectors_pb2
from fenchel_common.algorithms import SETTINGS
from fenchel_common.algorithms.corrective.pairs import MESSAGES as PAIRS
from fenchel_common.algorithms.dual import MAX_CLASSES
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.crypto.packing import VectorFormat, slot_layout
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import RoundId
from fenchel_common.layout import MAX_FEATURES, MAX_NAME_CHARS
from fenchel_common.layoutroot import LEAF_BYTES
from fenchel_common.moments import MOMENT_FIELDS
from fenchel_common.ranges import MOST_COUNTS
from fenchel_common.records import Given, Moment, Record
from fenchel_common.setup import (
    BEFORE_ROUNDS,
    FINISH,
    INTRODUCE,
    KEY_MAKE,
    KEY_TAKE,
    LAYOUT,
    MAX_INTRODUCTION_BYTES,
    PREPARE,
)
from fenchel_common.wire.alignment import (
    Listing,
    TaggedList,
    client_layout_from_bytes,
    client_layout_to_bytes,
    listing_from_bytes,
    listing_to_bytes,
    phase_name,
    relay_to_bytes,
)
from fenchel_common.wire.catalogue import SETUP, phases_of
from fenchel_common.wire.chunks import MAX_BODY_BYTES
from fenchel_common.wire.limits import (
    RECORDS_A_ROUND,
    Extent,
    extents_of,
    finish_task_limit,
    layout_task_limit,
    round_limits,
    setup_limits,
)
from fenchel_common.wire.records import record_to_bytes, round_task_to_bytes
from support.families import BY_FAMILY, EVERY, SEVERAL_CLASSES
from support.keys import private_key
from support.layouts import A, B, client_layout, small_federation_layout

SAMPLES, FEATURES, KEY_BITS, PARTIES = 1_000_000, 2_000_000, 3072, 2
OF_PAIRS = frozenset(PAIRS.phases)
"""Phases whose messages have as many vectors as a party has missed, bounded by `MAX_BODY_BYTES` alone."""
SLOTS = slot_layout(VectorFormat(), KEY_BITS).slots
LARGE = Extent(FEATURES, -(-SAMPLES // SLOTS), -(-FEATURES // SLOTS), 2 * KEY_BITS // 8, PARTIES)
SMALL = Extent(features=3, blocks=2, feature_blocks=1, block_bytes=512, parties=PARTIES)


def messages_in(descriptor: Descriptor) -> Iterator[Descriptor]:
    """The vectors in a message: of blocks, or alone, which are vectors of numbers."""
    for field in descriptor.fields:
        if field.message_type in (hyfdca_pb2.BlockVector.DESCRIPTOR, vectors_pb2.Vector.DESCRIPTOR):
            # Only moments and counts of a search come in a list of vectors.
            counts = field.name == "counts" or descriptor.name == "CountSums"
            most = MOST_COUNTS if counts else MOMENT_FIELDS
            yield from [field.message_type] * (most if field.is_repeated else 1)
        elif field.message_type is not None:
            yield from messages_in(field.message_type)


def vectors_in(kind: type[Message] | None) -> tuple[int, int]:
    """Vectors of blocks, and of numbers, that a message has room for."""
    found = [] if kind is None else [message.name for message in messages_in(cast(Descriptor, kind.DESCRIPTOR))]
    return found.count("BlockVector"), found.count("Vector")


@pytest.mark.parametrize("family", ["hyfdca", "corrective"])
def test_the_catalogue_counts_the_vectors_that_the_messages_have(family: str) -> None:
    for phase, messages in phases_of(BY_FAMILY[family]).items():
        if phase in OF_PAIRS:
            continue
        task, result = messages.task_carries, messages.result_carries
        kind = messages.inside.get("RoundTask.body", messages.task)
        assert (task.by_sample + task.by_feature, task.numbers) == vectors_in(kind), phase
        inside = vectors_in(messages.inside.get("LayoutResult.preparation"))[0]
        blocks, numbers = vectors_in(messages.inside.get("RoundResult.body", messages.result))
        assert (result.by_sample + result.by_feature, result.numbers) == (blocks + inside, numbers), phase


def test_every_phase_of_the_catalogue_has_limits_and_no_other() -> None:
    for phase in SETUP:
        assert 0 < setup_limits(phase, parties=4).task <= MAX_BODY_BYTES
    for settings in EVERY.values():
        for phase in phases_of(settings):
            assert 0 < round_limits(phase, SMALL, settings).result < 2**20
    with pytest.raises(InvalidInput, match="not a phase"):
        setup_limits("tell_all", parties=4)
    with pytest.raises(InvalidInput, match="not a phase"):
        round_limits("tell_all", SMALL, BY_FAMILY["hyfdca"])


def test_set_up_limits_follow_the_roster() -> None:
    assert setup_limits(INTRODUCE, parties=2) == setup_limits(INTRODUCE, parties=500)
    assert setup_limits(INTRODUCE, parties=2).result < 32 * 1024
    few, many = setup_limits(KEY_MAKE, parties=2), setup_limits(KEY_MAKE, parties=20)
    assert (many.task - few.task, many.result - few.result) == (18 * MAX_INTRODUCTION_BYTES, 18 * 100 * 1024)
    few, many = setup_limits(KEY_TAKE, parties=2), setup_limits(KEY_TAKE, parties=20)
    assert (many.task - few.task, many.result - few.result) == (18 * MAX_INTRODUCTION_BYTES, 0)
    assert setup_limits(phase_name(1), parties=2) == setup_limits(phase_name(17), parties=2)


def test_limits_of_rounds_follow_what_a_party_holds() -> None:
    settings = BY_FAMILY["corrective"]
    extents = extents_of(small_federation_layout(), key_bits=2048)
    assert (extents[A].blocks, extents[B].blocks) == (3, 2)
    assert (extents[A].features, extents[A].feature_blocks, extents[B].features) == (2, 1, 1)
    limits = {name: round_limits("local_dual", extent, settings) for name, extent in extents.items()}
    assert limits[A].result > limits[B].result
    assert limits[A].task < 2**20


@pytest.mark.parametrize("family", ["hyfdca", "corrective"])
def test_a_million_samples_and_two_million_features_fit_every_round(family: str) -> None:
    """All vectors that a message can carry at once, at the longest key.

    Moments fit for a million features, and counts of a search, for which tables are dense, for a hundred thousand.
    """
    for phase, messages in phases_of(BY_FAMILY[family]).items():
        if phase in OF_PAIRS:
            continue
        extent = replace(LARGE, feature_blocks=LARGE.feature_blocks // 20) if phase in BEFORE_ROUNDS else LARGE
        limits = round_limits(phase, extent, BY_FAMILY[family])
        for carried, limit in ((messages.task_carries, limits.task), (messages.result_carries, limits.result)):
            blocks = carried.by_sample * extent.blocks + carried.by_feature * extent.feature_blocks
            assert blocks * (LARGE.block_bytes + 4) < limit <= MAX_BODY_BYTES, phase
    moments = MOMENT_FIELDS * (LARGE.feature_blocks // 2) * (LARGE.block_bytes + 4)
    assert moments < round_limits(LAYOUT, LARGE, BY_FAMILY[family]).result
    assert moments < round_limits(PREPARE, LARGE, BY_FAMILY[family]).task


def test_messages_of_several_classes_have_room_for_each_of_them() -> None:
    for phase in ("inner_product", "local_dual", "primal"):
        one, several = (phases_of(settings)[phase] for settings in (BY_FAMILY["corrective"], SEVERAL_CLASSES))
        assert several.task_carries == one.task_carries.times(3)
        assert several.result_carries == one.result_carries.times(3)
        limits = [round_limits(phase, SMALL, settings) for settings in (BY_FAMILY["corrective"], SEVERAL_CLASSES)]
        assert limits[1].task > limits[0].task
        assert limits[1].result > limits[0].result


def test_the_end_told_again_fits_a_party_that_forgot_the_run() -> None:
    many = SETTINGS["hyfdca"].parse({"classes": list(range(MAX_CLASSES))})
    for settings in (*BY_FAMILY.values(), many):
        assert round_limits(FINISH, SMALL, settings).task <= finish_task_limit(features=3, parties=PARTIES, round_id=0)


def large_layout() -> ClientLayout:
    rng = np.random.default_rng(0)
    sizes = np.full(-(-SAMPLES // SLOTS), SLOTS)
    sizes[-1] = SAMPLES - SLOTS * (len(sizes) - 1)
    positions = np.split(rng.permutation(FEATURES), range(SLOTS, FEATURES, SLOTS))
    return client_layout(
        dict(enumerate(sizes.tolist())),
        slots=SLOTS,
        rows=rng.permutation(SAMPLES),
        feature_blocks=dict(enumerate(positions)),
    )


def test_a_listing_and_a_layout_of_two_million_features_and_a_million_samples_pass() -> None:
    assert FEATURES == MAX_FEATURES
    pseudonyms = b"".join(number.to_bytes(16, "big") for number in range(FEATURES))
    elements = np.random.default_rng(1).bytes(32 * SAMPLES)
    ids = TaggedList(elements, bytes(32))
    listing = Listing(pseudonyms, has_labels=True, ids=ids)
    body = listing_to_bytes(listing)
    assert len(body) < setup_limits(phase_name(0), parties=2).result
    assert listing_from_bytes(body) == listing
    assert len(relay_to_bytes(ids)) < setup_limits(phase_name(1), parties=2).task
    layout = large_layout()
    body = client_layout_to_bytes(layout)
    limit = layout_task_limit(samples=SAMPLES, features=FEATURES, parties=2, overlapping=False)
    assert len(body) < limit < MAX_BODY_BYTES
    assert client_layout_from_bytes(body, party=layout.party, samples=SAMPLES, features=FEATURES) == layout
    assert Extent.of_client(layout, key_bits=KEY_BITS) == LARGE


def test_overlaps_make_room_in_the_layout_for_what_is_ignored() -> None:
    apart = layout_task_limit(samples=1000, features=100, parties=4, overlapping=False)
    assert layout_task_limit(samples=1000, features=100, parties=4, overlapping=True) >= apart + 8 * 400
    assert layout_task_limit(samples=10**6, features=10**6, parties=1024, overlapping=True) == MAX_BODY_BYTES


def test_a_block_takes_what_a_ciphertext_takes() -> None:
    assert SMALL.block_bytes == private_key(2048).public_key.ciphertext_bytes


def test_a_task_has_room_for_all_records_up_to_its_round() -> None:
    """A party that restarts gets the records from the first on."""
    settings = BY_FAMILY["corrective"]
    given = tuple(Given(client, bytes(16), bytes(16)) for client in (A, B))
    longest = record_to_bytes(Record(Moment(2**31, RoundId(10**9), "x" * 20), given, bytes(64)), (A, B))
    for round_id in (1, 10, 1000):
        records = [longest] * (RECORDS_A_ROUND * (round_id + 1))
        task = round_task_to_bytes(b"", first=0, records=records)
        assert len(task) < round_limits("local_dual", SMALL, settings, round_id=round_id).task
        assert len(task) < finish_task_limit(features=3, parties=PARTIES, round_id=round_id)


@pytest.mark.parametrize("parties", [2, 3, 10])
def test_a_layout_has_room_for_a_leaf_of_every_set_of_holders_of_samples_and_of_features(parties: int) -> None:
    leaves = 2 * (2**parties - 1)
    limit = layout_task_limit(samples=1, features=1, parties=parties, overlapping=False)
    assert limit > LEAF_BYTES * leaves + parties * (MAX_NAME_CHARS + 1)
