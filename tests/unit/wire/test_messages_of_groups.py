"""Layouts and keys of groups have room for every set of holders that a federation of 13 parties can have."""

from itertools import combinations
from math import comb

import numpy as np

from fenchel.v1 import alignment_pb2
from fenchel_common.ids import ClientId
from fenchel_common.setup import GroupKey
from fenchel_common.wire.alignment import client_layout_from_bytes, client_layout_to_bytes
from fenchel_common.wire.chunks import MAX_BODY_BYTES
from fenchel_common.wire.groupkeys import (
    MAX_SEALED_KEY_BYTES,
    group_keys_from_bytes,
    group_keys_to_bytes,
    sealed_keys_from_bytes,
)
from fenchel_common.wire.limits import group_keys_limit, layout_task_limit
from fenchel_common.wire.parsing import MAX_ELEMENTS, MAX_LAYOUT_ELEMENTS, count_elements
from support.layouts import client_layout

PARTIES = 13
SEALED = bytes(MAX_SEALED_KEY_BYTES)


def names(count: int) -> tuple[ClientId, ...]:
    return tuple(ClientId(f"party-{number:02d}") for number in range(count))


def elements(message: alignment_pb2.ClientLayout | alignment_pb2.GroupKeys) -> int:
    return count_elements(type(message), message.SerializeToString(), limit=MAX_LAYOUT_ELEMENTS)


def test_thirteen_parties_with_every_set_of_holders_have_room() -> None:
    """A party has at most one cohort of samples, and one of features, for each set of other holders."""
    others, sets = PARTIES - 1, 2 ** (PARTIES - 1)
    key = alignment_pb2.SealedGroupKey(holders=bytes(4 * PARTIES), recipient=1, sealed=SEALED)
    cohort = alignment_pb2.LayoutCohort(features=True, holders=b"1234", blocks=b"1234", leaf=1, salt=bytes(16))
    cut = alignment_pb2.IgnoredFeatures(features=b"1234", block_ids=b"1234")
    one_of_each = alignment_pb2.ClientLayout(cohorts=[cohort, cohort], sealed_keys=[key], ignored=[cut])
    assert sets * elements(one_of_each) < MAX_LAYOUT_ELEMENTS - MAX_ELEMENTS
    led = sum(size * comb(others, size) for size in range(1, others))
    one = alignment_pb2.GroupKeys(keys=[key])
    assert led * elements(one) < MAX_LAYOUT_ELEMENTS
    assert led * one.ByteSize() < MAX_BODY_BYTES


def test_more_groups_than_other_messages_have_elements_pass() -> None:
    clients = names(13)
    first, *others = clients
    groups = [(first, *chosen) for size in range(len(others) + 1) for chosen in combinations(others, size)]
    count = len(groups)
    layout = client_layout(
        dict.fromkeys(range(count), 1),
        slots=1,
        party=first,
        clients=clients,
        holders=dict(enumerate(groups)),
        feature_blocks={0: np.array([0])},
    )
    keys = tuple(GroupKey(holders, one, SEALED) for holders in layout.groups for one in holders[1:])
    body = group_keys_to_bytes(keys, clients)
    assert 4 * len(keys) > MAX_ELEMENTS
    assert len(body) < group_keys_limit(layout)
    assert group_keys_from_bytes(body, clients) == keys
    received = tuple(GroupKey(holders, holders[-1], SEALED) for holders in layout.groups)
    body = client_layout_to_bytes(layout, received)
    assert len(body) < layout_task_limit(samples=count, features=1, parties=len(clients), overlapping=False)
    assert client_layout_from_bytes(body, party=first, samples=count, features=1) == layout
    assert sealed_keys_from_bytes(body, clients) == received
