"""Bounds on what a server does with layouts: single out rows or features, bring a second layout for one key."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fenchel_client.alignment import arrange
from fenchel_client.coverage import check_coverage
from fenchel_common.clientlayout import ClientLayout, IgnoredFeatures
from fenchel_common.errors import InvalidInput, Refusal
from fenchel_common.runconfig import RunConfig
from fenchel_common.setup import FINISH, INTRODUCE, KEY_TAKE, LAYOUT
from fenchel_common.wire.alignment import client_layout_to_bytes
from fenchel_common.wire.setup import terms_to_bytes
from support.ceremony import HOLDER, OTHER, SHARDS, Federation, Listener, config, finish, layout_of, only, refused


@pytest.fixture
def federation(tmp_path: Path) -> Federation:
    return Federation(tmp_path)


def whole_layout(federation: Federation, terms: RunConfig | None = None) -> ClientLayout:
    listener = Listener()
    federation.set_up(terms, to_party=listener)
    return layout_of(listener.tasks[LAYOUT])


def one_row(layout: ClientLayout) -> ClientLayout:
    one = np.ones(1, dtype=np.int64)
    return replace(layout, block_ids=0 * one, block_sizes=one, label_holder_counts=one, shared=one > 1, rows=0 * one)


def one_feature(layout: ClientLayout) -> ClientLayout:
    return replace(layout, feature_blocks={0: np.zeros(1, dtype=np.int64)})


def without_a_feature(layout: ClientLayout) -> ClientLayout:
    return replace(layout, ignored=(IgnoredFeatures(np.zeros(1, dtype=np.int64), layout.block_ids),))


def a_block_for_each_row(layout: ClientLayout) -> ClientLayout:
    ones = np.ones(len(layout.rows), dtype=np.int64)
    return replace(layout, block_ids=np.arange(len(ones)), block_sizes=ones, label_holder_counts=ones, shared=ones > 0)


def few_slots(layout: ClientLayout) -> ClientLayout:
    slots = len(layout.rows)
    return replace(a_block_for_each_row(layout), slots=slots) if slots < layout.slots else replace(layout, slots=40)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (one_row, "rows: has 1 of this party's 40 rows"),
        (one_feature, "feature_blocks: has 1 of this party's 2 features"),
        (without_a_feature, "ignored: .*overlap"),
        (a_block_for_each_row, "more than 2 blocks are not full"),
        (few_slots, "slots"),
    ],
)
def test_a_layout_that_singles_out_rows_or_features_is_refused(tmp_path: Path, change: object, reason: str) -> None:
    federation = Federation(tmp_path)
    assert callable(change)
    tamper = only(LAYOUT, lambda body: client_layout_to_bytes(change(layout_of(body))))
    with pytest.raises(Refusal, match=reason) as caught:
        federation.set_up(to_party=lambda phase, client, body: tamper(phase, client, body) if client == OTHER else body)
    assert caught.value.public_reason.startswith("it refused its layout")
    assert not list((tmp_path / OTHER).glob("*.run"))


def test_features_are_left_out_only_of_shared_rows_and_never_at_the_first_party(federation: Federation) -> None:
    terms, roster = config(overlap="first"), federation.kits[OTHER].roster
    layout = without_a_feature(whole_layout(federation, terms))
    check_coverage(layout, table=arrange(SHARDS[OTHER]), config=terms, roster=roster, name=OTHER)
    with pytest.raises(InvalidInput, match="no party comes before this one"):
        check_coverage(layout, table=arrange(SHARDS[OTHER]), config=terms, roster=roster, name=HOLDER)
    alone = replace(layout, shared=~layout.shared)
    with pytest.raises(InvalidInput, match=r"rows that nobody else holds|not full"):
        check_coverage(alone, table=arrange(SHARDS[OTHER]), config=terms, roster=roster, name=OTHER)


def test_a_key_has_one_layout_in_mid_run_and_after_a_restart(federation: Federation) -> None:
    listener = Listener()
    federation.set_up(to_party=listener)
    body = listener.tasks[LAYOUT]
    federation.answer(OTHER, LAYOUT, body)
    layout = layout_of(body)
    other = client_layout_to_bytes(replace(layout, rows=layout.rows[::-1]))
    assert refused(federation, LAYOUT, other).public_reason == "it has another layout for this key"
    federation.parties[OTHER] = federation.party(OTHER)
    federation.answer(OTHER, INTRODUCE, terms_to_bytes(config()))
    assert "another set-up" in str(refused(federation, KEY_TAKE, listener.tasks[KEY_TAKE]))
    assert "restarted during the set-up" in refused(federation, LAYOUT, other).public_reason


def test_a_set_up_with_a_fresh_key_may_bring_another_layout(federation: Federation) -> None:
    federation.set_up()
    federation.set_up()


def test_after_the_end_no_layout_comes_back_for_the_key_that_is_gone(federation: Federation) -> None:
    listener = Listener()
    federation.set_up(to_party=listener)
    federation.answer(OTHER, FINISH, finish(), round_id=9)
    for body in (listener.tasks[LAYOUT], client_layout_to_bytes(one_row(layout_of(listener.tasks[LAYOUT])))):
        assert "restarted during the set-up" in refused(federation, LAYOUT, body).public_reason
    assert not list((federation.directory / OTHER).glob("*.run"))
