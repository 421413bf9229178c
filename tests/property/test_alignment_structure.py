"""Whatever the overlaps, an alignment over blinded ids has the structure of the plain sets."""

from collections import defaultdict

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fenchel_common.ids import ClientId
from fenchel_common.wire.alignment import (
    AlignmentMethod,
    client_layout_from_bytes,
    client_layout_to_bytes,
    federation_layout_from_bytes,
    federation_layout_to_bytes,
)
from support.alignment import Aligned, align, make_shard

Holders = dict[str, tuple[ClientId, ...]]


@st.composite
def holders_of_samples(draw: st.DrawFn) -> Holders:
    """For each of up to 14 samples, which of 2 to 5 parties hold it; every party holds one, and all are linked."""
    roster = [ClientId(f"party-{number}") for number in range(draw(st.integers(2, 5)))]
    choices = st.sets(st.sampled_from(roster), min_size=1)
    drawn = draw(st.lists(choices, max_size=13))
    in_roster_order = [tuple(client for client in roster if client in chosen) for chosen in [set(roster), *drawn]]
    return {f"patient-{number}": holders for number, holders in enumerate(in_roster_order)}


def _aligned(holders: Holders, *, orders: st.DataObject, method: AlignmentMethod, slots: int, seed: int) -> Aligned:
    roster = holders["patient-0"]
    shards = {}
    for client in roster:
        own = [sample for sample, own_holders in holders.items() if client in own_holders]
        shards[client] = make_shard(orders.draw(st.permutations(own)), [f"feature of {client}"])
    return align(shards, method=method, slots=slots, seed=seed)


@settings(max_examples=60, deadline=None)
@given(holders_of_samples(), st.data(), st.sampled_from(AlignmentMethod), st.integers(1, 5), st.integers(0, 9))
def test_blocks_are_the_plain_cohorts_cut_in_pieces(
    holders: Holders, orders: st.DataObject, method: AlignmentMethod, slots: int, seed: int
) -> None:
    aligned = _aligned(holders, orders=orders, method=method, slots=slots, seed=seed)
    federation = aligned.outcome.federation
    seen: dict[tuple[ClientId, ...], list[str]] = defaultdict(list)
    for block in federation.blocks:
        contents = {aligned.ids_by_block(client)[block.id] for client in block.holders}
        assert len(contents) == 1, "all holders see the same samples in the same slots"
        seen[block.holders].extend(contents.pop())
    plain: dict[tuple[ClientId, ...], list[str]] = defaultdict(list)
    for sample, own_holders in holders.items():
        plain[own_holders].append(sample)
    assert {key: sorted(samples) for key, samples in seen.items()} == {
        key: sorted(samples) for key, samples in plain.items()
    }
    assert federation.sample_count == len(holders)
    for own_holders, samples in plain.items():
        assert sum(block.holders == own_holders for block in federation.blocks) == -(-len(samples) // slots)


@settings(max_examples=40, deadline=None)
@given(holders_of_samples(), st.data(), st.integers(1, 5))
def test_every_sample_is_exactly_once_in_each_holders_layout_with_its_holder_count(
    holders: Holders, orders: st.DataObject, slots: int
) -> None:
    aligned = _aligned(holders, orders=orders, method=AlignmentMethod.HMAC, slots=slots, seed=0)
    for client, layout in aligned.outcome.clients.items():
        by_block = aligned.ids_by_block(client)
        assert sorted(sample for samples in by_block.values() for sample in samples) == sorted(
            sample for sample, own_holders in holders.items() if client in own_holders
        )
        for block_id, count, shared in zip(layout.block_ids, layout.label_holder_counts, layout.shared, strict=True):
            for sample in by_block[int(block_id)]:
                assert count == len(holders[sample])
                assert shared == (len(holders[sample]) > 1)


@settings(max_examples=30, deadline=None)
@given(holders_of_samples(), st.data(), st.data())
def test_row_order_never_matters(holders: Holders, orders: st.DataObject, other_orders: st.DataObject) -> None:
    one = _aligned(holders, orders=orders, method=AlignmentMethod.HMAC, slots=3, seed=4)
    other = _aligned(holders, orders=other_orders, method=AlignmentMethod.RING, slots=3, seed=4)
    assert one.unsalted() == other.unsalted()
    for client in one.outcome.clients:
        assert one.ids_by_block(client) == other.ids_by_block(client)


@settings(max_examples=30, deadline=None)
@given(holders_of_samples(), st.data(), st.integers(0, 9), st.integers(0, 9))
def test_another_seed_changes_the_order_inside_cohorts_only(
    holders: Holders, orders: st.DataObject, seed: int, other_seed: int
) -> None:
    assume(seed != other_seed)
    one = _aligned(holders, orders=orders, method=AlignmentMethod.HMAC, slots=3, seed=seed)
    other = _aligned(holders, orders=orders, method=AlignmentMethod.HMAC, slots=3, seed=other_seed)
    assert one.outcome.federation == other.outcome.federation


@settings(max_examples=30, deadline=None)
@given(holders_of_samples(), st.data())
def test_layouts_survive_the_way_over_the_wire(holders: Holders, orders: st.DataObject) -> None:
    outcome = _aligned(holders, orders=orders, method=AlignmentMethod.HMAC, slots=3, seed=0).outcome
    federation = outcome.federation
    assert federation_layout_from_bytes(federation_layout_to_bytes(federation)) == federation
    for layout in outcome.clients.values():
        features = sum(len(positions) for positions in layout.feature_blocks.values())
        body = client_layout_to_bytes(layout)
        assert client_layout_from_bytes(body, party=layout.party, samples=len(layout.rows), features=features) == layout
