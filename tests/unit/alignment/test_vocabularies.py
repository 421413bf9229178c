"""Vocabularies reach the other parties, and nobody else, unaltered, and all parties agree on their union."""

import numpy as np
import pytest

from fenchel.v1 import alignment_pb2
from fenchel_client.alignment import arrange
from fenchel_client.alignment.vocabularies import agreed_vocabulary, sealed_vocabulary, vocabulary_hints
from fenchel_common.data.categories import Vocabulary
from fenchel_common.data.shard import Shard
from fenchel_common.errors import DataUnfit, InvalidInput, Refusal
from fenchel_common.ids import ClientId, RunId
from fenchel_common.wire.alignment import AlignmentMethod, start_to_bytes
from fenchel_common.wire.vocabulary import (
    MAX_SEALED_VOCABULARY_BYTES,
    PADDED_TO,
    start_vocabularies_from_bytes,
    vocabulary_from_bytes,
    vocabulary_given_from_bytes,
    vocabulary_given_to_bytes,
    vocabulary_to_bytes,
)

CLINIC, LAB = ClientId("clinic"), ClientId("lab")
RUN = RunId("run-1")
SECRET = bytes(range(32))
PAIN = Vocabulary({"pain": ("none", "très"), "sex": ()}, frozenset({"sex"}), frozenset({"age"}))
OTHER = Vocabulary({"pain": ("dull",)})


def sealed(offered: Vocabulary = PAIN, party: ClientId = CLINIC) -> bytes:
    return sealed_vocabulary(offered, tag_secret=SECRET, run=RUN, party=party)


def agreed(given: dict[ClientId, bytes], *, secret: bytes = SECRET, run: RunId = RUN) -> Vocabulary:
    body = start_to_bytes(AlignmentMethod.RING, given)
    return vocabulary_from_bytes(agreed_vocabulary(body, tag_secret=secret, run=run, clients=(CLINIC, LAB)))


def test_the_union_of_all_offers_is_agreed_on() -> None:
    assert vocabulary_from_bytes(vocabulary_to_bytes(PAIN)) == PAIN
    union = agreed({CLINIC: sealed(), LAB: sealed(OTHER, LAB)})
    assert union == Vocabulary.union([PAIN, OTHER])


def test_what_leaves_the_party_has_no_word_and_tells_little_by_its_length() -> None:
    assert abs(len(sealed()) - len(sealed(OTHER))) <= 4
    assert len(sealed()) <= PADDED_TO + 64
    for word in (b"pain", b"none", b"age"):
        assert word not in sealed()


def test_an_offer_that_is_missing_altered_or_of_another_party_run_or_secret_is_refused() -> None:
    honest = {CLINIC: sealed(), LAB: sealed(OTHER, LAB)}
    altered = honest[LAB][:-1] + bytes([honest[LAB][-1] ^ 1])
    cases: list[tuple[dict[ClientId, bytes], RunId, bytes]] = [
        ({CLINIC: honest[CLINIC]}, RUN, SECRET),
        (honest | {ClientId("stranger"): honest[LAB]}, RUN, SECRET),
        (honest | {LAB: altered}, RUN, SECRET),
        (honest | {LAB: honest[CLINIC]}, RUN, SECRET),
        (honest | {LAB: b""}, RUN, SECRET),
        (honest, RunId("run-2"), SECRET),
        (honest, RUN, bytes(32)),
    ]
    for given, run, secret in cases:
        with pytest.raises(Refusal, match=r"does not open|of all parties"):
            agreed(given, run=run, secret=secret)


def test_an_offer_that_cannot_be_sent_is_told_to_its_party_alone() -> None:
    many = tuple(sorted(f"{number:0250d}" for number in range(MAX_SEALED_VOCABULARY_BYTES // 250)))
    with pytest.raises(DataUnfit, match=r"column 'code' has the most.*category_samples") as caught:
        sealed(Vocabulary({"code": many, "sex": ("f", "m")}))
    assert "code" not in caught.value.public_reason
    with pytest.raises(DataUnfit, match="more than 256 characters"):
        sealed(Vocabulary({"x" * 257: ()}))


@pytest.mark.parametrize(
    "changes",
    [
        {"sizes": b"\1\0\0\0"},
        {"sizes": b"\3\0\0\0\0\0\0\0"},
        {"columns": b"sex\0pain\0"},
        {"values": b"z\0a\0"},
        {"others": b"age\0"},
        {"indicators": b"b\0a\0"},
        {"values": b"none"},
    ],
)
def test_bytes_that_are_no_vocabulary_are_refused(changes: dict[str, bytes]) -> None:
    message = alignment_pb2.Vocabulary.FromString(vocabulary_to_bytes(PAIN))
    for name, value in changes.items():
        setattr(message, name, value)
    with pytest.raises(InvalidInput, match="vocabulary: "):
        vocabulary_from_bytes(message.SerializeToString())


def test_a_start_that_names_a_party_twice_and_an_empty_offer_are_refused() -> None:
    one = alignment_pb2.SealedVocabulary(party="lab", sealed=b"a")
    with pytest.raises(InvalidInput, match="named twice"):
        start_vocabularies_from_bytes(alignment_pb2.AlignmentStart(vocabularies=[one, one]).SerializeToString())
    with pytest.raises(InvalidInput, match="must have 1 to"):
        vocabulary_given_from_bytes(vocabulary_given_to_bytes(b""))


def test_a_column_that_is_a_category_elsewhere_and_numbers_here_is_pointed_out() -> None:
    table = arrange(Shard(("1", "2"), ("age", "pain"), np.ones((2, 2)), None))
    assert [
        "column 'pain' is a category at another party" in hint
        for hint in vocabulary_hints(table, vocabulary_to_bytes(PAIN))
    ] == [True]
