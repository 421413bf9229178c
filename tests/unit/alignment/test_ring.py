"""The tags of the ring: which lists a party raises, and which it refuses."""

from dataclasses import replace

import pytest

from fenchel_client.alignment import Ring
from fenchel_client.alignment.ring import NOT_DUE
from fenchel_client.crypto.derivedkeys import ring_key
from fenchel_common.errors import InvalidInput, Refusal
from fenchel_common.ids import ClientId, RunId
from fenchel_common.wire.alignment import AlignmentMethod, TaggedList, listing_from_bytes, start_to_bytes
from support.alignment import RING_KEY, RUN, make_client, make_shard

ROSTER = tuple(ClientId(name) for name in ("anna", "bert", "carl"))
LIST = bytes(range(96))


def ring_of(name: str, *, key: bytes = RING_KEY, run: RunId = RUN) -> Ring:
    return Ring(ROSTER, ClientId(name), key=key, run=run)


def refused(ring: Ring, step: int, relayed: TaggedList) -> str:
    with pytest.raises(Refusal) as caught:
        ring.check(step, relayed)
    assert caught.value.public_reason == NOT_DUE
    return str(caught.value)


def test_a_list_passes_from_party_to_party_in_its_steps() -> None:
    first = ring_of("carl").tagged(0, LIST)
    anna, bert = ring_of("anna"), ring_of("bert")
    anna.check(1, first)
    second = anna.tagged(1, LIST[::-1])
    bert.check(2, second)
    assert len({first.tag, second.tag, bert.tagged(2, LIST).tag}) == 3


def test_each_origin_is_raised_once() -> None:
    bert, listed = ring_of("bert"), ring_of("anna").tagged(0, LIST)
    bert.check(1, listed)
    assert "list of 'anna' again" in refused(bert, 1, listed)


def test_a_list_is_refused_in_any_step_but_its_own() -> None:
    listed = ring_of("anna").tagged(0, LIST)
    assert "not the one of 'carl'" in refused(ring_of("bert"), 2, listed)
    for name, step in (("carl", 1), ("carl", 2), ("anna", 1), ("anna", 2)):
        refused(ring_of(name), step, listed)
    ring_of("bert").check(1, listed)


@pytest.mark.parametrize("step", [0, 3, 4, 9999])
def test_there_are_as_many_steps_as_other_parties(step: int) -> None:
    """A finished list carries a tag too: with it the server could begin a second round of the ring."""
    finished = ring_of("carl").tagged(2, LIST)
    assert f"no step {step}" in refused(ring_of("anna"), step, finished)


@pytest.mark.parametrize(
    "altered",
    [
        TaggedList(LIST[:-32], ring_of("anna").tagged(0, LIST).tag),
        TaggedList(LIST[32:] + LIST[:32], ring_of("anna").tagged(0, LIST).tag),
        TaggedList(LIST, bytes(32)),
        ring_of("anna", key=bytes(32)).tagged(0, LIST),
        ring_of("anna", run=RunId("run-2")).tagged(0, LIST),
        ring_of("anna").tagged(1, LIST),
    ],
    ids=["cut", "other order", "no tag", "other key", "other run", "other step"],
)
def test_a_list_that_is_not_as_it_was_tagged_is_refused_and_the_right_one_is_still_taken(altered: TaggedList) -> None:
    bert = ring_of("bert")
    refused(bert, 1, altered)
    bert.check(1, ring_of("anna").tagged(0, LIST))


def test_a_party_that_began_another_set_up_refuses_the_lists_of_this_one() -> None:
    """Each set-up has a tag secret of its own."""
    shard = make_shard(["patient-1", "patient-2"], ["age"])
    listed = make_client(shard, roster=ROSTER, own=ROSTER[0]).answer("align_0", start_to_bytes(AlignmentMethod.RING))
    other = ring_of("bert", key=ring_key(bytes(32), RUN))
    refused(other, 1, listing_from_bytes(listed).ids)


def test_a_list_by_hmac_has_its_tag_too() -> None:
    shard = make_shard(["patient-1", "patient-2"], ["age"])
    client = make_client(shard, method=AlignmentMethod.HMAC, roster=ROSTER, own=ROSTER[0])
    ids = listing_from_bytes(client.answer("align_0", start_to_bytes(AlignmentMethod.HMAC))).ids
    ring_of("bert").check(1, ids)
    refused(ring_of("bert"), 1, replace(ids, elements=ids.elements[32:]))


def test_a_party_stands_in_its_own_ring() -> None:
    with pytest.raises(InvalidInput, match="not one of the ring"):
        ring_of("dora")


def test_a_ring_key_belongs_to_one_run_and_one_secret() -> None:
    keys = {ring_key(secret, RunId(run)) for secret in (bytes(32), bytes(31) + b"1") for run in ("run-1", "run-2")}
    assert len(keys) == 4
    assert all(len(key) == 32 for key in keys)
