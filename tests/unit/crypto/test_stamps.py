"""Stamps, origins, pads and tokens: no two blocks of any two messages have the same pad."""

from dataclasses import replace

import numpy as np
import pytest

from fenchel_client.crypto.seal import Seal
from fenchel_client.crypto.stamps import Origin, Pads, Place, Stamp, block_places, block_token, number_places
from fenchel_common.crypto.tags import TAG_PRIME
from fenchel_common.crypto.vectors import Vector
from fenchel_common.errors import TagMismatch
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.records import Moment
from support.keys import cipher
from support.tagged import FORMAT

KEY = bytes(range(32))
A, B = ClientId("a"), ClientId("b")
STAMP = Stamp(A, Moment(1, RoundId(2), "primal"), bytes(32), bytes(16))
ORIGIN = Origin(STAMP, "alpha")
TOKENS = [block_token("samples", block, ["x", "y"]) for block in range(2)]
PLACES = list(block_places(dict(enumerate(TOKENS)), dict.fromkeys(range(2), (A, B))).values())
OTHERS = [
    replace(ORIGIN, field="model"),
    replace(ORIGIN, field=""),
    replace(ORIGIN, stamp=replace(STAMP, party=B)),
    replace(ORIGIN, stamp=replace(STAMP, party=ClientId("aa"))),
    replace(ORIGIN, stamp=replace(STAMP, view=b"\1" * 32)),
    replace(ORIGIN, stamp=replace(STAMP, nonce=b"\1" * 16)),
    *(
        replace(ORIGIN, stamp=replace(STAMP, moment=moment))
        for moment in (
            Moment(2, RoundId(2), "primal"),
            Moment(2, RoundId(1), "primal"),
            Moment(1, RoundId(1), "primal"),
            Moment(1, RoundId(2), "local_dual"),
        )
    ),
]


def test_labels_of_different_origins_differ() -> None:
    labels = [origin.label() for origin in (ORIGIN, *OTHERS)]
    assert len(set(labels)) == len(labels)


def test_pads_follow_from_key_origin_and_place() -> None:
    pads = Pads(KEY)
    made = [pad for origin in (ORIGIN, *OTHERS) for pad in pads.of(origin, PLACES)]
    assert len(set(made)) == 2 * (1 + len(OTHERS))
    assert all(0 <= pad < TAG_PRIME for pad in made)
    assert pads.of(ORIGIN, PLACES[::-1]) == made[1::-1]
    assert pads.of(ORIGIN, []) == []
    assert not set(Pads(KEY[::-1]).of(ORIGIN, PLACES)) & set(made)


def test_sums_of_pads_are_by_block_and_count_their_terms() -> None:
    pads, other = Pads(KEY), OTHERS[0]
    one, two = pads.of(ORIGIN, PLACES), pads.of(other, PLACES)
    sums = pads.sums([[ORIGIN, other], [other]], PLACES)
    assert [(total.terms, total.value) for total in sums] == [(2, (one[0] + two[0]) % TAG_PRIME), (1, two[1])]
    (twice,) = pads.sums([[ORIGIN, ORIGIN]], PLACES[:1])
    assert (twice.terms, twice.value) == (2, 2 * one[0] % TAG_PRIME)
    (nothing,) = pads.sums([[]], PLACES[:1])
    assert (nothing.terms, nothing.value) == (0, 0)


def test_tokens_follow_from_kind_number_and_every_name_in_order() -> None:
    tokens = {
        block_token(*given)
        for given in (
            ("samples", 0, ["x", "y"]),
            ("features", 0, ["x", "y"]),
            ("samples", 1, ["x", "y"]),
            ("samples", 0, ["y", "x"]),
            ("samples", 0, ["xy"]),
            ("samples", 0, ["x", "y", ""]),
            ("samples", 0, []),
        )
    }
    assert len(tokens) == 7
    numbered = [place.token for place in number_places(3)]
    assert len(set(numbered) | tokens) == 10


def test_fresh_stamps_have_nonces_of_their_own() -> None:
    stamps = [Stamp.fresh(A, STAMP.moment, STAMP.view) for _ in range(100)]
    assert len({stamp.nonce for stamp in stamps}) == 100


class TestSeal:
    """Vectors of real messages, under a real key."""

    seal = Seal(Pads(KEY))
    cipher = cipher()
    values = np.linspace(-2.0, 2.0, 2 * cipher.slots)

    def closed(self, stamp: Stamp, field: str = "alpha", places: list[Place] = PLACES) -> Vector:
        self.seal.stamp = stamp
        return self.seal.close(self.values, FORMAT, cipher=self.cipher, field=field, places=places)

    def opens(self, vector: Vector, origins: list[list[Origin]], places: list[Place] = PLACES) -> bool:
        try:
            self.seal.open(vector, cipher=self.cipher, origins=origins, places=places)
        except TagMismatch:
            return False
        return True

    def test_what_was_closed_opens_to_whoever_knows_its_origins(self) -> None:
        assert self.opens(self.closed(STAMP), [[ORIGIN]] * 2)
        for other in OTHERS:
            assert not self.opens(self.closed(STAMP), [[ORIGIN], [other]])

    def test_a_digest_is_the_same_at_all_parties_and_nobody_else_can_make_it(self) -> None:
        def digest(content: bytes = b"content", stamp: Stamp = STAMP, key: bytes = KEY) -> bytes:
            seal = Seal(Pads(key))
            seal.stamp = stamp
            return seal.digest(content)

        assert digest(stamp=replace(STAMP, party=B, nonce=b"\1" * 16)) == digest()
        others = [digest(b"other"), digest(stamp=replace(STAMP, view=b"\1" * 32)), digest(key=KEY[::-1])]
        assert len({digest(), *others}) == 4

    def test_a_party_with_another_key_of_pads_opens_nothing(self) -> None:
        stranger = replace(self.cipher, tags=replace(self.cipher.tags, pads=Pads(KEY[::-1])))
        with pytest.raises(TagMismatch):
            self.seal.open(self.closed(STAMP), cipher=stranger, origins=[[ORIGIN]] * 2, places=PLACES)

    def test_blocks_of_other_samples_do_not_open(self) -> None:
        """Parties whose blocks of one number have other rows never open each other's sums."""
        assert not self.opens(self.closed(STAMP), [[ORIGIN]] * 2, PLACES[::-1])
        others = {0: TOKENS[0], 1: block_token("samples", 1, ["x", "z"])}
        elsewhere = list(block_places(others, dict.fromkeys(range(2), (A, B))).values())
        assert not self.opens(self.closed(STAMP), [[ORIGIN]] * 2, elsewhere)

    def test_a_message_without_a_stamp_is_not_made(self) -> None:
        with pytest.raises(AssertionError):
            Seal(Pads(KEY)).close(self.values, FORMAT, cipher=self.cipher, field="alpha", places=PLACES)
