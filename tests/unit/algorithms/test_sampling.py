"""Who takes part, and which samples are drawn: every one with the probability that the theorems assume."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fenchel_common.algorithms.settings import Participation
from fenchel_common.ids import ClientId, RoundId
from fenchel_server.algorithms.hyfdca.draw import draw_samples
from fenchel_server.algorithms.participation import active_clients

CLIENTS = tuple(ClientId(name) for name in "abcd")


def drawn(sizes: dict[int, int], count: int, seed: int, round_id: int = 1) -> list[tuple[int, int]]:
    ranges = draw_samples(sizes, count, seed=seed, round_id=RoundId(round_id), client_index=0)
    return [(part.block, slot) for part in ranges for slot in range(part.start, part.stop)]


@given(
    sizes=st.dictionaries(st.integers(0, 99), st.integers(1, 31), min_size=1, max_size=6),
    fraction=st.floats(0.0, 1.0),
    seed=st.integers(0, 2**63 - 1),
)
def test_a_draw_has_the_asked_for_number_of_distinct_samples_in_few_blocks(
    sizes: dict[int, int], fraction: float, seed: int
) -> None:
    total = sum(sizes.values())
    count = max(1, round(fraction * total))
    samples = drawn(sizes, count, seed)
    assert len(samples) == len(set(samples)) == count
    assert all(0 <= slot < sizes[block] for block, slot in samples)
    used = Counter(block for block, _ in samples)
    assert sum(used[block] < sizes[block] for block in used) <= 2  # the first and the last of the stretch


@pytest.mark.parametrize("count", [1, 5, 11])
def test_every_sample_is_drawn_with_probability_h_over_n(count: int) -> None:
    sizes = {3: 5, 8: 1, 9: 6}
    draws = 6000
    hits = Counter(sample for seed in range(draws) for sample in drawn(sizes, count, seed))
    expected = count / 12
    allowed = 5.0 * (expected * (1.0 - expected) / draws) ** 0.5
    assert len(hits) == 12
    assert all(abs(times / draws - expected) <= allowed for times in hits.values())


def test_draws_repeat_with_seed_and_round_and_differ_by_round() -> None:
    sizes = {0: 31, 1: 31, 2: 4}
    assert drawn(sizes, 10, 1) == drawn(sizes, 10, 1)
    assert drawn(sizes, 10, 1) != drawn(sizes, 10, 1, round_id=2)


def test_all_clients_take_part_by_default() -> None:
    assert active_clients(Participation("all"), CLIENTS, seed=0, round_id=RoundId(3)) == frozenset(CLIENTS)


def test_a_fraction_is_met_on_average_and_every_client_is_as_likely() -> None:
    """Assumption 4.7."""
    rule = Participation("fraction", fraction=0.375)
    rounds = 4000
    sets = [active_clients(rule, CLIENTS, seed=7, round_id=RoundId(t)) for t in range(1, rounds + 1)]
    assert {len(chosen) for chosen in sets} == {1, 2}
    hits = Counter(client for chosen in sets for client in chosen)
    assert all(abs(hits[client] / rounds - 0.375) < 0.04 for client in CLIENTS)


def test_a_small_fraction_still_has_one_client() -> None:
    rule = Participation("fraction", fraction=0.01)
    assert all(len(active_clients(rule, CLIENTS, seed=0, round_id=RoundId(t))) == 1 for t in range(1, 50))


def test_cyclic_sets_partition_the_clients_and_take_turns() -> None:
    """Assumption 4.10."""
    rule = Participation("cyclic", cycle=2)
    first, second, third = (active_clients(rule, CLIENTS, seed=0, round_id=RoundId(t)) for t in (1, 2, 3))
    assert first | second == frozenset(CLIENTS)
    assert not first & second
    assert third == first
