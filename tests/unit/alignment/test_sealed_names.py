"""The names of features reach the other parties, and nobody else, unaltered."""

from collections.abc import Mapping

import pytest

from fenchel_client.alignment.sealednames import marks, opened_names, sealed_names
from fenchel_client.featurenames import FeatureNames
from fenchel_common.errors import InvalidInput, Refusal
from fenchel_common.ids import ClientId, RunId
from fenchel_common.wire.names import (
    MAX_SEALED_NAMES_BYTES,
    PADDED_TO,
    feature_names_to_bytes,
    name_list_from_bytes,
    name_list_to_bytes,
)

CLINIC, LAB, OTHER = ClientId("clinic"), ClientId("lab"), ClientId("other")
RUN = RunId("run-1")
SECRET = bytes(range(32))
NAMES = ("age", "pain=typical", "pain=none", "größe")


def sealed(names: tuple[str, ...] = NAMES, party: ClientId = CLINIC) -> bytes:
    return sealed_names(names, tag_secret=SECRET, run=RUN, party=party)


def known(lists: Mapping[ClientId, tuple[str, ...]], own: tuple[str, ...] = NAMES) -> FeatureNames:
    given = {party: sealed(names, party) for party, names in lists.items()}
    relayed = feature_names_to_bytes(given)
    return FeatureNames.opened(relayed, own, party=CLINIC, clients=(CLINIC, LAB, OTHER), tag_secret=SECRET, run=RUN)


def test_a_party_opens_the_names_of_columns_and_a_mark_of_each_feature() -> None:
    opened = opened_names(sealed(), tag_secret=SECRET, run=RUN, party=CLINIC)
    assert opened.columns == ("age", "größe", "pain")
    assert opened.marks == tuple(sorted(marks(NAMES, tag_secret=SECRET, run=RUN)))


def test_what_leaves_the_party_has_no_name_and_tells_little_by_its_length() -> None:
    one, other = sealed(), sealed(("sex",))
    assert one == sealed()
    assert one[:12] != other[:12], "another content has another nonce"
    assert abs(len(one) - len(other)) <= 4
    assert len(one) <= PADDED_TO + 64
    for secret in (b"age", b"pain", b"typical", marks(["age"], tag_secret=SECRET, run=RUN)[0]):
        assert secret not in one


def test_a_list_that_was_altered_or_is_of_another_party_run_or_secret_is_refused() -> None:
    genuine = sealed()
    cases = [
        (genuine[:-1] + bytes([genuine[-1] ^ 1]), CLINIC, RUN, SECRET),
        (genuine, LAB, RUN, SECRET),
        (genuine, CLINIC, RunId("run-2"), SECRET),
        (genuine, CLINIC, RUN, bytes(32)),
        (b"short", CLINIC, RUN, SECRET),
    ]
    for data, party, run, secret in cases:
        with pytest.raises(Refusal, match="does not open"):
            opened_names(data, tag_secret=secret, run=run, party=party)


def test_very_many_features_give_no_list_and_are_not_compared() -> None:
    many = tuple(f"x{number}" for number in range(MAX_SEALED_NAMES_BYTES // 8 + 1))
    assert sealed(many) == b""
    long = tuple(f"{number:0256d}" for number in range(5000))
    assert sealed(long) == b""
    assert known({CLINIC: NAMES, LAB: NAMES}).hints() == [
        "names of features are not compared with other: there is no list"
    ]


def test_close_names_are_told_once_and_not_if_somebody_has_both() -> None:
    lists = {CLINIC: ("chol", "age"), LAB: ("cholesterol", "ages"), OTHER: ("age", "ages")}
    (hint,) = known(lists, ("chol", "age")).hints()
    assert hint.startswith("this party's feature 'chol' is close to 'cholesterol' of lab: if both mean the same")


def test_a_list_of_a_party_that_is_not_on_the_roster_is_refused() -> None:
    with pytest.raises(InvalidInput, match="not on the roster"):
        known({ClientId("stranger"): NAMES})


def test_marks_that_are_not_ascending_are_refused() -> None:
    listed = opened_names(sealed(), tag_secret=SECRET, run=RUN, party=CLINIC)
    data = name_list_to_bytes(type(listed)(listed.columns, listed.marks[::-1]))
    with pytest.raises(InvalidInput, match="ascending"):
        name_list_from_bytes(data)
