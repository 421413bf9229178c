"""Masks between pairs: they cancel in whole sums, also of contributions of different phases, and in nothing less."""

import numpy as np
import pytest
from numpy.typing import NDArray

from fenchel_client.crypto.stamps import JointPhase, Origin, Place
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.words import MaskedVector
from fenchel_common.errors import TagMismatch
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.records import Moment
from support.masked import (
    PARTIES,
    TRIO,
    A,
    B,
    C,
    D,
    at_moment,
    contribution,
    mask_cipher,
    origin_of,
    places,
    summed,
    values,
)

FORMAT = VectorFormat()
SLOTS = 30


def test_masks_between_pairs_cancel_in_the_whole_sum_alone() -> None:
    at = places(2)
    given = {k: contribution(k, values(2 * SLOTS, n), at, among=TRIO) for n, k in enumerate(TRIO)}
    origins = {k: [[origin_of(k)]] * 2 for k in TRIO}
    for left_out in TRIO:
        rest = [k for k in TRIO if k != left_out]
        with pytest.raises(TagMismatch):
            mask_cipher(C).decrypt(given[left_out], origins=origins[left_out], places=at)
        partial = summed(*(given[k] for k in rest))
        with pytest.raises(TagMismatch):
            mask_cipher(left_out).decrypt(partial, origins=[[origin_of(k) for k in rest]] * 2, places=at)


def test_a_single_contribution_is_unreadable_with_the_keys_of_another_holder() -> None:
    """Whoever takes the mask of the group off sees words that still look random, contributor or not."""
    at, secret_values = places(200), np.full(200 * SLOTS, 1.5)
    holder = mask_cipher(C)
    for among, readable in ((TRIO, False), ((A, B), False), (None, True)):
        seen = contribution(A, secret_values, at, among=among)
        nothing = holder.encrypt(np.zeros(200 * SLOTS), FORMAT, origin=origin_of(A), places=at)
        rest = (seen.integers - nothing.integers).view(np.int64)
        assert (rest == 1.5 * 2.0**32).all() == readable
        assert len(np.unique(rest)) == (1 if readable else 200 * SLOTS)


def renewed(party: ClientId, round_id: int) -> Origin:
    return at_moment(origin_of(party, nonce=round_id), Moment(1, RoundId(round_id), "primal"))


def joint(round_id: int, *contributors: ClientId) -> JointPhase:
    stamp = renewed(contributors[0], round_id).stamp
    return JointPhase(stamp.moment, stamp.view, contributors)


def without_group_mask(vector: MaskedVector, origin: Origin, at: list[Place]) -> NDArray[np.int64]:
    """What a server sees of a contribution with the keys of C."""
    nothing = mask_cipher(C).encrypt(np.zeros(vector.length), FORMAT, origin=origin, places=at)
    stripped: NDArray[np.int64] = (vector.integers - nothing.integers).view(np.int64)
    return stripped


def test_masks_cancel_in_the_sum_of_the_latest_contributions_of_different_phases() -> None:
    """All contribute in round 1, A and B in round 2, A alone in round 3, B and C in round 4."""
    at, opener = places(2), mask_cipher(A)
    story: list[dict[ClientId, dict[ClientId, JointPhase]]] = [
        {A: {}, B: {}, C: {}},
        {A: {C: joint(1, *TRIO)}, B: {C: joint(1, *TRIO)}},
        {A: {B: joint(2, A, B), C: joint(1, *TRIO)}},
        {B: {A: joint(2, A, B)}, C: {A: joint(1, *TRIO)}},
    ]
    latest: dict[ClientId, tuple[MaskedVector, Origin, NDArray[np.float64]]] = {}
    for round_id, given in enumerate(story, start=1):
        for party, earlier in given.items():
            origin, own = renewed(party, round_id), values(2 * SLOTS, 10 * round_id + ord(party))
            vector = contribution(party, own, at, origin=origin, among=given, earlier=earlier)
            latest[party] = vector, origin, own
        total = summed(*(vector for vector, _, _ in latest.values()))
        opened = opener.decrypt(total, origins=[[origin for _, origin, _ in latest.values()]] * 2, places=at)
        np.testing.assert_array_equal(opened, np.sum([own for _, _, own in latest.values()], axis=0))
        for party, (vector, origin, _) in latest.items():
            with pytest.raises(TagMismatch):
                mask_cipher(C if party != C else A).decrypt(vector, origins=[[origin]] * 2, places=at)


@pytest.mark.parametrize("together", [True, False])
def test_a_renewed_contribution_shows_its_change_only_if_it_is_renewed_alone(together: bool) -> None:
    """Then the change of the sum is this very change; a server with a holder's keys learns no more than from sums."""
    at, count = places(200), 200 * SLOTS
    before, after = renewed(A, 1), renewed(A, 2)
    first = contribution(A, np.full(count, 1.5), at, origin=before, among=TRIO)
    contributors = (A, B) if together else (A,)
    earlier = {other: joint(1, *TRIO) for other in TRIO if other not in contributors}
    second = contribution(A, np.full(count, 2.0), at, origin=after, among=contributors, earlier=earlier)
    change = without_group_mask(second, after, at) - without_group_mask(first, before, at)
    assert (change == 0.5 * 2.0**32).all() == (not together)
    assert len(np.unique(change)) == (count if together else 1)


def test_blocks_of_one_stretch_may_have_different_partners() -> None:
    at, opener = places(3), mask_cipher(B)
    given = {
        A: [dict.fromkeys(TRIO), dict.fromkeys((A, B)), {A: None}],
        B: [dict.fromkeys(TRIO), dict.fromkeys((A, B))],
        C: [dict.fromkeys(TRIO)],
    }
    vectors = {
        party: mask_cipher(party).encrypt(
            values(SLOTS * len(partners), 1),
            FORMAT,
            origin=origin_of(party),
            places=at[: len(partners)],
            among=partners,
        )
        for party, partners in given.items()
    }
    for block, contributors in enumerate((TRIO, (A, B), (A,))):
        total = summed(*(vectors[party].select([block]) for party in contributors))
        origins = [[origin_of(party) for party in contributors]]
        opened = opener.decrypt(total, origins=origins, places=[at[block]])
        expected = len(contributors) * values(SLOTS * 3, 1)[block * SLOTS :][:SLOTS]
        np.testing.assert_array_equal(opened, expected)


def test_nobody_contributes_without_being_a_contributor() -> None:
    with pytest.raises(AssertionError, match="among the contributors"):
        contribution(A, values(SLOTS, 1), places(1), among=(B, C))


def test_all_contributors_must_name_the_same_contributors() -> None:
    at = places(1, ())
    given = [contribution(k, values(SLOTS, n), at, among=PARTIES) for n, k in enumerate(TRIO)]
    given.append(contribution(D, values(SLOTS, 3), at, among=(B, C, D)))
    with pytest.raises(TagMismatch):
        mask_cipher(A).decrypt(summed(*given), origins=[[origin_of(k) for k in PARTIES]], places=at)
