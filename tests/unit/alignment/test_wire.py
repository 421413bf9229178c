from collections.abc import Callable
from typing import Any

import pytest

from fenchel.v1 import alignment_pb2
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.errors import InvalidInput
from fenchel_common.wire import alignment as wire
from fenchel_common.wire.alignment import AlignmentMethod, Listing, TaggedList
from support.layouts import B, small_client_layout, small_federation_layout

ELEMENTS = bytes(32) + bytes(range(32))
AGE, BMI = bytes(range(16)), bytes(range(16, 32))
LISTED = TaggedList(ELEMENTS, bytes(range(100, 132)))


def read_client_layout(body: bytes) -> ClientLayout:
    return wire.client_layout_from_bytes(body, party=B, samples=3, features=2)


def test_layouts_survive_the_way_over_the_wire() -> None:
    federation, client = small_federation_layout(), small_client_layout()
    assert wire.federation_layout_from_bytes(wire.federation_layout_to_bytes(federation)) == federation
    assert read_client_layout(wire.client_layout_to_bytes(client)) == client


def test_messages_survive_the_way_over_the_wire() -> None:
    listing = Listing(features=AGE + BMI, has_labels=True, ids=LISTED)
    for method in AlignmentMethod:
        assert wire.start_from_bytes(wire.start_to_bytes(method)) is method
    assert wire.listing_from_bytes(wire.listing_to_bytes(listing)) == listing
    assert wire.relay_from_bytes(wire.relay_to_bytes(LISTED)) == LISTED
    assert wire.raised_from_bytes(wire.raised_to_bytes(LISTED)) == LISTED


@pytest.mark.parametrize(
    "parse",
    [
        wire.start_from_bytes,
        wire.listing_from_bytes,
        wire.relay_from_bytes,
        wire.raised_from_bytes,
        wire.federation_layout_from_bytes,
        read_client_layout,
    ],
)
@pytest.mark.parametrize("body", [b"", b"\xff\xff\xff", b"\x0a\x7f", b"not a message at all"])
def test_bytes_that_are_no_such_message_are_refused(parse: Callable[[bytes], object], body: bytes) -> None:
    with pytest.raises(InvalidInput):
        parse(body)


def test_a_truncated_list_is_refused() -> None:
    whole = alignment_pb2.AlignmentRaised(elements=ELEMENTS[:-1])
    with pytest.raises(InvalidInput, match="cut off"):
        wire.raised_from_bytes(whole.SerializeToString())


def test_an_oversized_list_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_PARTY_SAMPLES", 1)
    with pytest.raises(InvalidInput, match="1 to 1 elements"):
        wire.raised_from_bytes(wire.raised_to_bytes(LISTED))


def test_a_list_without_a_whole_tag_is_refused() -> None:
    with pytest.raises(InvalidInput, match="tag: must have 32 bytes"):
        wire.relay_from_bytes(wire.relay_to_bytes(TaggedList(ELEMENTS, bytes(31))))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ids": TaggedList(ELEMENTS, b"")}, "tag"),
        ({"features": b""}, "features"),
        ({"features": AGE + AGE}, "none of them twice"),
        ({"features": BMI + AGE}, "ascending"),
        ({"features": AGE + BMI[1:]}, "pseudonyms of 16 bytes"),
        ({"ids": TaggedList(b"", bytes(32))}, "elements"),
    ],
)
def test_a_bad_listing_is_refused(change: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {"features": AGE, "has_labels": True, "ids": LISTED}
    with pytest.raises(InvalidInput, match=message):
        wire.listing_from_bytes(wire.listing_to_bytes(Listing(**(good | change))))


def test_a_holder_beyond_the_clients_is_refused() -> None:
    message = alignment_pb2.FederationLayout.FromString(wire.federation_layout_to_bytes(small_federation_layout()))
    message.blocks[0].holders[0] = 2
    with pytest.raises(InvalidInput, match="not among the clients"):
        wire.federation_layout_from_bytes(message.SerializeToString())


@pytest.mark.parametrize("field", ["rows", "block_ids", "block_sizes"])
def test_a_layout_of_more_than_the_party_holds_is_refused(field: str) -> None:
    message = alignment_pb2.ClientLayout.FromString(wire.client_layout_to_bytes(small_client_layout()))
    setattr(message, field, getattr(message, field) + bytes(16))
    with pytest.raises(InvalidInput, match=f"{field}: .*at most 3 "):
        read_client_layout(message.SerializeToString())


@pytest.mark.parametrize("field", ["rows", "block_ids"])
def test_a_number_beyond_all_samples_is_refused(field: str) -> None:
    message = alignment_pb2.ClientLayout.FromString(wire.client_layout_to_bytes(small_client_layout()))
    setattr(message, field, getattr(message, field)[:-4] + b"\xff\xff\xff\xff")
    with pytest.raises(InvalidInput, match=f"{field}|this party does not hold"):
        read_client_layout(message.SerializeToString())


def change_holder(cohort: alignment_pb2.LayoutCohort) -> None:
    cohort.holders = (7).to_bytes(4, "little")


def change_block(cohort: alignment_pb2.LayoutCohort) -> None:
    cohort.blocks = (7).to_bytes(4, "little")


def change_salt(cohort: alignment_pb2.LayoutCohort) -> None:
    cohort.salt = b"\xff" * 16


def shorten_salt(cohort: alignment_pb2.LayoutCohort) -> None:
    cohort.salt = cohort.salt[:-1]


def change_kind(cohort: alignment_pb2.LayoutCohort) -> None:
    cohort.features = not cohort.features


def change_leaf(cohort: alignment_pb2.LayoutCohort) -> None:
    cohort.leaf += 1


@pytest.mark.parametrize("change", [change_holder, change_block, change_salt, shorten_salt, change_kind, change_leaf])
def test_a_cohort_that_is_not_behind_its_leaf_is_refused(
    change: Callable[[alignment_pb2.LayoutCohort], None],
) -> None:
    message = alignment_pb2.ClientLayout.FromString(wire.client_layout_to_bytes(small_client_layout()))
    change(message.cohorts[0])
    with pytest.raises(InvalidInput, match="cohorts"):
        read_client_layout(message.SerializeToString())


@pytest.mark.parametrize(
    ("field", "value"), [("leaves", bytes(31)), ("has_labels", b"\1"), ("has_labels", b"\1\2"), ("clients", b"a\0a\0")]
)
def test_malformed_lists_of_leaves_and_clients_are_refused(field: str, value: bytes) -> None:
    message = alignment_pb2.ClientLayout.FromString(wire.client_layout_to_bytes(small_client_layout()))
    setattr(message, field, value)
    with pytest.raises(InvalidInput, match=field):
        read_client_layout(message.SerializeToString())


@pytest.mark.parametrize("phase", ["align", "align_", "align_-1", "align_01", "align_1 ", "layout", "align_99999"])
def test_a_phase_of_another_name_is_refused(phase: str) -> None:
    with pytest.raises(InvalidInput, match="not a phase of the alignment"):
        wire.phase_step(phase)


def test_phase_names_count_from_zero() -> None:
    assert [wire.phase_step(wire.phase_name(step)) for step in (0, 1, 17)] == [0, 1, 17]
    assert wire.phase_name(0) == "align_0"
