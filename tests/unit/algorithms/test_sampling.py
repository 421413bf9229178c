"""Who takes part, and which samples are drawn: every one with the probability that the theorems assume."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fenchel_common.algorithms.hyfdca.draw import draw_samples
from fenchel_common.algorithms.hyfdca.rounds import RoundChoices, RoundRules
from fenchel_common.algorithms.hyfdca.settings import HyfdcaSettings
from fenchel_common.algorithms.participation import active_clients
from fenchel_common.algorithms.settings import Participation
from fenchel_common.ids import ClientId, RoundId

CLIENTS = tuple(ClientId(name) for name in "abcd")


def drawn(cohort: dict[int, int], share: float, seed: int, round_id: int = 1, client: int = 0) -> list[tuple[int, int]]:
    ranges = draw_samples(cohort, share, seed=seed, round_id=RoundId(round_id), client_index=client)
    return [(part.block, slot) for part in ranges for slot in range(part.start, part.stop)]


@given(
    cohort=st.dictionaries(st.integers(0, 99), st.integers(1, 30), min_size=1, max_size=6),
    share=st.floats(1e-6, 1.0),
    seed=st.integers(0, 2**63 - 1),
)
def test_a_draw_has_its_share_of_distinct_samples_rounded_in_few_blocks(
    cohort: dict[int, int], share: float, seed: int
) -> None:
    total = sum(cohort.values())
    samples = drawn(cohort, share, seed)
    assert len(samples) == len(set(samples))
    assert int(share * total) <= len(samples) <= int(share * total) + 1
    assert all(0 <= slot < cohort[block] for block, slot in samples)
    used = Counter(block for block, _ in samples)
    assert sum(used[block] < cohort[block] for block in used) <= 2  # the first and the last of the stretch


@pytest.mark.parametrize("share", [0.01, 1 / 12, 0.3, 5 / 12, 0.95])
def test_every_sample_is_drawn_with_probability_h_over_n(share: float) -> None:
    cohort = {3: 5, 8: 1, 9: 6}
    draws = 6000
    hits = Counter(sample for seed in range(draws) for sample in drawn(cohort, share, seed))
    allowed = 5.0 * (share * (1.0 - share) / draws) ** 0.5
    assert all(
        abs(hits[block, slot] / draws - share) <= allowed for block, size in cohort.items() for slot in range(size)
    )


def test_a_share_of_one_is_all_samples() -> None:
    cohort = {3: 5, 8: 1, 9: 6}
    everything = {(block, slot) for block, size in cohort.items() for slot in range(size)}
    assert all(set(drawn(cohort, 1.0, seed)) == everything for seed in range(200))


def test_draws_repeat_with_seed_and_round_and_differ_by_round_party_and_cohort() -> None:
    cohort = {0: 30, 1: 30, 2: 4}
    assert drawn(cohort, 0.15, 1) == drawn(cohort, 0.15, 1)
    assert drawn(cohort, 0.15, 1) != drawn(cohort, 0.15, 1, round_id=2)
    assert drawn(cohort, 0.15, 1) != drawn(cohort, 0.15, 1, client=1)
    moved = {block + 3: size for block, size in cohort.items()}
    assert drawn(moved, 0.15, 1) != [(block + 3, slot) for block, slot in drawn(cohort, 0.15, 1)]


def test_only_parties_with_a_share_draw() -> None:
    everybody = frozenset(CLIENTS)
    choices = RoundChoices(everybody, everybody, closing=False, shares={CLIENTS[1]: 1.0}, proportional=False)
    rules = RoundRules(HyfdcaSettings.parse({"local": "paper"}), CLIENTS, RoundId(1), choices)
    assert rules.drawn(CLIENTS[0], {0: 30}) == ()
    assert sum(part.stop - part.start for part in rules.drawn(CLIENTS[1], {0: 30})) == 30


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
