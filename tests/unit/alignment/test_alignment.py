"""Both halves together, over the bodies that would cross the wire."""

from dataclasses import replace

import pytest

from fenchel_client.alignment import AlignmentClient, Ring, arrange
from fenchel_common.data.shard import Shard
from fenchel_common.errors import AlignmentIncomplete, InvalidInput, Refusal, ResultRejected
from fenchel_common.ids import ClientId
from fenchel_common.wire.alignment import (
    AlignmentMethod,
    listing_from_bytes,
    raised_from_bytes,
    raised_to_bytes,
    relay_from_bytes,
    split_elements,
    start_to_bytes,
)
from fenchel_common.wire.pieces import ELEMENT_BYTES
from fenchel_server.alignment import AlignmentServer
from fenchel_server.contract import PhaseRequest
from support.alignment import RING_KEY, RUN, TAG_SECRET, Aligned, align, make_client, make_shard

NAMES = [ClientId(name) for name in ("anna", "bert", "carl", "dora")]
IDS = [f"patient-{number:06d}" for number in range(12)]


def four_shards() -> dict[ClientId, Shard]:
    return {
        NAMES[0]: make_shard(IDS[:8], ["age"]),
        NAMES[1]: make_shard(IDS[2:], ["bmi"]),
        NAMES[2]: make_shard(IDS[4:], ["sex"], labels=False),
        NAMES[3]: make_shard(IDS[::3], ["zip"]),
    }


@pytest.fixture(scope="module")
def aligned() -> Aligned:
    return align(four_shards())


def test_the_ring_takes_one_phase_a_party_and_one_task_for_each_in_every_phase(aligned: Aligned) -> None:
    assert [(phase, client) for phase, client, _, _ in aligned.transcript] == [
        (f"align_{step}", client) for step in range(4) for client in NAMES
    ]


def test_no_party_meets_its_own_list_again(aligned: Aligned) -> None:
    own = {
        client: set(split_elements(listing_from_bytes(result).ids.elements))
        for phase, client, _, result in aligned.transcript
        if phase == "align_0"
    }
    finished = {
        NAMES[(NAMES.index(client) + 1) % 4]: set(split_elements(raised_from_bytes(result).elements))
        for phase, client, _, result in aligned.transcript
        if phase == "align_3"
    }
    for phase, client, task, _ in aligned.transcript:
        if phase != "align_0":
            received = set(split_elements(relay_from_bytes(task).elements))
            assert received.isdisjoint(own[client])
            assert received.isdisjoint(finished[client])


def test_lists_can_be_compared_only_when_finished(aligned: Aligned) -> None:
    stages = [
        set(
            split_elements(
                (listing_from_bytes(result).ids if phase == "align_0" else raised_from_bytes(result)).elements
            )
        )
        for phase, _, _, result in aligned.transcript
    ]
    unfinished, finished = stages[:-4], stages[-4:]
    everything = finished + unfinished
    for number, stage in enumerate(everything):
        for other in unfinished:
            assert stage is other or stage.isdisjoint(other), number
    assert finished[0] & finished[1]


@pytest.mark.parametrize("method", list(AlignmentMethod))
def test_no_id_is_in_any_message(method: AlignmentMethod) -> None:
    transcript = align(four_shards(), method=method).transcript
    messages = {AlignmentMethod.RING: 4 * 4, AlignmentMethod.HMAC: 4, AlignmentMethod.BLINDERS: 4 + 3 + 3 + 1 + 1}
    assert len(transcript) == messages[method]
    for _, _, task, result in transcript:
        for sample_id in [*IDS, "patient"]:
            assert sample_id.encode() not in task + result


def test_all_methods_give_the_same_layouts() -> None:
    one, *others = (align(four_shards(), method=method).unsalted() for method in AlignmentMethod)
    assert all(other == one for other in others)


def test_two_runs_of_one_seed_have_the_same_layouts_though_not_the_same_pseudonyms(aligned: Aligned) -> None:
    again = align(four_shards())
    assert again.unsalted() == aligned.unsalted()
    assert again.transcript[-1][3] != aligned.transcript[-1][3]
    assert align(four_shards(), seed=8).unsalted() != aligned.unsalted()


def test_the_order_of_rows_in_a_file_does_not_matter(aligned: Aligned) -> None:
    shards = four_shards() | {NAMES[0]: make_shard(IDS[:8][::-1], ["age"])}
    again = align(shards)
    assert again.unsalted() == aligned.unsalted()
    assert again.ids_by_block(NAMES[0]) == aligned.ids_by_block(NAMES[0])


def test_a_party_lists_its_rows_in_an_order_that_its_ids_alone_do_not_give() -> None:
    shard = make_shard(IDS, ["age"])
    other_values = Shard(ids=shard.ids, features=shard.features, X=-shard.X, y=shard.y)
    assert arrange(shard).ids != shard.ids
    assert arrange(shard).ids != arrange(other_values).ids


def test_the_same_task_gets_the_same_answer() -> None:
    client = make_client(make_shard(IDS, ["age"]))
    body = start_to_bytes(AlignmentMethod.RING)
    assert client.answer("align_0", body) == client.answer("align_0", body)


def test_duplicate_ids_are_refused_by_their_rows_and_named_to_nobody() -> None:
    with pytest.raises(Refusal, match=f"rows 4 and {len(IDS) + 1} have the same id") as caught:
        make_client(make_shard([*IDS, IDS[3]], ["age"]))
    assert "patient" not in f"{caught.value} {caught.value.public_reason}"


def test_a_party_refuses_another_method_than_it_agreed_to() -> None:
    with pytest.raises(InvalidInput, match="asks for hmac, this party agreed to ring"):
        make_client(make_shard(IDS, ["age"])).answer("align_0", start_to_bytes(AlignmentMethod.HMAC))
    with pytest.raises(InvalidInput, match="only in the ring"):
        make_client(make_shard(IDS, ["age"]), method=AlignmentMethod.HMAC).answer("align_1", b"")


def test_the_shared_secret_goes_with_hmac_alone() -> None:
    table, ring = arrange(make_shard(IDS, ["age"])), Ring(NAMES, NAMES[0], key=RING_KEY, run=RUN)
    for method, secret in ((AlignmentMethod.HMAC, None), (AlignmentMethod.RING, bytes(32))):
        with pytest.raises(InvalidInput, match="shared_secret"):
            AlignmentClient(table, run=RUN, method=method, tag_secret=TAG_SECRET, ring=ring, shared_secret=secret)


def opened() -> tuple[AlignmentServer, dict[ClientId, AlignmentClient], PhaseRequest]:
    """A ring of two whose first phase is over."""
    clients = {
        name: make_client(make_shard(IDS, [feature]), roster=NAMES[:2], own=name)
        for name, feature in zip(NAMES[:2], ("age", "bmi"), strict=True)
    }
    server = AlignmentServer(list(clients), method=AlignmentMethod.RING, slots=4, feature_slots=4, seed=1)
    request = server.begin()
    following = server.advance("align_0", {c: clients[c].answer("align_0", b) for c, b in request.tasks.items()})
    assert isinstance(following, PhaseRequest)
    return server, clients, following


def test_a_missing_answer_names_the_party_and_the_alignment_can_start_afresh() -> None:
    server, clients, request = opened()
    with pytest.raises(AlignmentIncomplete, match="align_1 from bert"):
        server.advance("align_1", {NAMES[0]: clients[NAMES[0]].answer("align_1", request.tasks[NAMES[0]])})
    assert server.begin().phase == "align_0"


@pytest.mark.parametrize("cut", [1, 32])
def test_a_truncated_result_is_rejected_with_the_name_of_its_sender(cut: int) -> None:
    server, clients, request = opened()
    results = {client: clients[client].answer("align_1", body) for client, body in request.tasks.items()}
    whole = raised_from_bytes(results[NAMES[1]])
    results[NAMES[1]] = raised_to_bytes(replace(whole, elements=whole.elements[:-cut]))
    with pytest.raises(ResultRejected) as caught:
        server.advance("align_1", results)
    assert caught.value.client == "bert"


def test_bytes_that_are_no_listing_are_rejected_with_the_name_of_their_sender() -> None:
    server = AlignmentServer(NAMES, method=AlignmentMethod.HMAC, slots=4, feature_slots=4, seed=1)
    with pytest.raises(ResultRejected, match="anna"):
        server.advance(server.begin().phase, dict.fromkeys(NAMES, b"\xff"))


def test_a_result_with_a_repeated_element_is_rejected() -> None:
    server, clients, request = opened()
    results = {client: clients[client].answer("align_1", body) for client, body in request.tasks.items()}
    raised = raised_from_bytes(results[NAMES[1]])
    repeated = raised.elements[:ELEMENT_BYTES] + raised.elements[:-ELEMENT_BYTES]
    results[NAMES[1]] = raised_to_bytes(replace(raised, elements=repeated))
    with pytest.raises(ResultRejected, match="lists a sample twice"):
        server.advance("align_1", results)


def test_a_server_needs_distinct_parties() -> None:
    for clients in ([], [NAMES[0], NAMES[0]]):
        with pytest.raises(InvalidInput, match="clients"):
            AlignmentServer(clients, method=AlignmentMethod.RING, slots=4, feature_slots=4, seed=1)
