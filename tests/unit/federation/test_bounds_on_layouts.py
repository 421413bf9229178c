"""Bounds on what a server does with layouts: single out rows or features, bring a second layout for one key."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fenchel_client.alignment import arrange
from fenchel_client.coverage import check_coverage
from fenchel_client.party import ANSWERED
from fenchel_client.runrecords import RunRecords
from fenchel_client.statefolder import StateFolder
from fenchel_common.clientlayout import ClientLayout, IgnoredFeatures
from fenchel_common.data.shard import Shard
from fenchel_common.errors import DataUnfit, InvalidInput, Refusal
from fenchel_common.ids import ClientId
from fenchel_common.runconfig import RunConfig
from fenchel_common.setup import FINISH, INTRODUCE, KEY_TAKE, LAYOUT
from fenchel_common.wire.alignment import client_layout_to_bytes
from fenchel_common.wire.setup import terms_to_bytes
from support.ceremony import HOLDER, OTHER, RUN, SHARDS, Federation, Listener, config, finish, layout_of, only, refused
from support.layouts import client_layout


@pytest.fixture
def federation(tmp_path: Path) -> Federation:
    return Federation(tmp_path)


def whole_layout(federation: Federation, terms: RunConfig | None = None) -> ClientLayout:
    listener = Listener()
    federation.set_up(terms, to_party=listener)
    return layout_of(listener.tasks[LAYOUT])


def sizes_of(layout: ClientLayout) -> dict[int, int]:
    return dict(zip(layout.block_ids.tolist(), layout.block_sizes.tolist(), strict=True))


def of_the_other(sizes: dict[int, int], layout: ClientLayout, **changes: Any) -> ClientLayout:
    """A layout of the other party, which holds all its blocks of samples together with the key holder."""
    values: dict[str, Any] = {"feature_blocks": layout.feature_blocks, "slots": layout.slots} | changes
    return client_layout(
        sizes,
        party=OTHER,
        clients=layout.clients,
        sample_count=layout.sample_count,
        holders=dict.fromkeys(sizes, layout.clients),
        **values,
    )


def one_row(layout: ClientLayout) -> ClientLayout:
    return of_the_other({0: 1}, layout)


def one_feature(layout: ClientLayout) -> ClientLayout:
    return of_the_other(sizes_of(layout), layout, feature_blocks={0: np.zeros(1, dtype=np.int64)})


def without_a_feature(layout: ClientLayout) -> ClientLayout:
    return replace(layout, ignored=(IgnoredFeatures(np.zeros(1, dtype=np.int64), layout.block_ids),))


def a_block_for_each_row(layout: ClientLayout) -> ClientLayout:
    return of_the_other(dict.fromkeys(range(len(layout.rows)), 1), layout)


def few_slots(layout: ClientLayout) -> ClientLayout:
    return of_the_other({0: 20, 1: 20}, layout, slots=20)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (one_row, "rows: has 1 of this party's 40 rows"),
        (one_feature, "feature_blocks: has 1 of this party's 2 features"),
        (without_a_feature, "ignored: .*overlap"),
        (a_block_for_each_row, "more than one block of a cohort is not full"),
        (few_slots, "slots: not as many as fit"),
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
    check_coverage(layout, table=arrange(SHARDS[OTHER]), config=terms, roster=roster)
    for party, reason in ((HOLDER, "no party comes before this one"), (OTHER, "rows that nobody else holds")):
        alone = client_layout(
            sizes_of(layout),
            slots=layout.slots,
            party=party,
            clients=layout.clients,
            feature_blocks=layout.feature_blocks,
            ignored=layout.ignored,
        )
        with pytest.raises(InvalidInput, match=reason):
            check_coverage(alone, table=arrange(SHARDS[OTHER]), config=terms, roster=roster)


def test_rows_are_left_out_only_by_the_rule_for_samples_and_never_nearly_all(federation: Federation) -> None:
    layout, roster = whole_layout(federation), federation.kits[OTHER].roster
    labelled = SHARDS[OTHER]
    unlabelled = replace(labelled, y=None)

    def left(used: int, **changes: Any) -> ClientLayout:
        values: dict[str, Any] = {"feature_count": 9} | changes
        return of_the_other({0: used}, layout, rows=np.arange(used), **values)

    def rest(used: int) -> NDArray[np.int64]:
        return np.arange(used, len(labelled.ids))

    without = {"label_holders": (HOLDER,)}
    terms, complete = config(), config(samples="complete")
    check_coverage(left(20, unlabelled=rest(20), **without), table=arrange(unlabelled), config=terms, roster=roster)
    check_coverage(left(20, incomplete=rest(20)), table=arrange(labelled), config=complete, roster=roster)
    cases: list[tuple[ClientLayout, Shard, RunConfig, str]] = [
        (left(20, unlabelled=rest(20)), labelled, terms, "has samples of which this party has the labels"),
        (left(20, incomplete=rest(20)), labelled, terms, 'do not say samples = "complete"'),
        (left(20, incomplete=rest(20), feature_count=2), labelled, complete, "of which this party has all features"),
    ]
    for changed, shard, asked, reason in cases:
        with pytest.raises(InvalidInput, match=reason):
            check_coverage(changed, table=arrange(shard), config=asked, roster=roster)
    few = left(9, unlabelled=rest(9), **without)
    with pytest.raises(DataUnfit, match=r"uses 9 of this party's 40 samples.*the same id at every party"):
        check_coverage(few, table=arrange(unlabelled), config=terms, roster=roster)


def test_a_layout_that_names_other_parties_or_label_holders_is_refused(federation: Federation) -> None:
    terms, roster = config(), federation.kits[OTHER].roster
    layout = whole_layout(federation)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"clients": (*layout.clients, ClientId("somebody"))}, "clients"),
        ({"label_holders": (HOLDER,)}, "label_holders"),
    ]
    for changes, reason in cases:
        values: dict[str, Any] = {"clients": layout.clients, "feature_blocks": layout.feature_blocks} | changes
        other = client_layout(sizes_of(layout), slots=layout.slots, party=OTHER, **values)
        with pytest.raises(InvalidInput, match=reason):
            check_coverage(other, table=arrange(SHARDS[OTHER]), config=terms, roster=roster)


def test_a_set_up_has_one_layout_in_mid_run_and_after_a_restart(federation: Federation) -> None:
    listener = Listener()
    federation.set_up(to_party=listener)
    body = listener.tasks[LAYOUT]
    layout = layout_of(body)
    other = client_layout_to_bytes(replace(layout, rows=layout.rows[::-1]))
    for again in (body, other):
        assert refused(federation, LAYOUT, again).public_reason == ANSWERED
    federation.parties[OTHER] = federation.party(OTHER)
    federation.answer(OTHER, INTRODUCE, terms_to_bytes(config()))
    assert "another set-up" in str(refused(federation, KEY_TAKE, listener.tasks[KEY_TAKE]))
    assert "restarted during the set-up" in refused(federation, LAYOUT, other).public_reason


def test_a_key_has_one_layout_and_none_once_it_is_given_up(federation: Federation) -> None:
    federation.set_up()
    folder = StateFolder(federation.directory / OTHER)
    records, kept = RunRecords(folder, party=OTHER), folder.run(RUN)
    assert kept is not None
    assert records.with_layout(RUN, kept) == kept
    with pytest.raises(Refusal) as second:
        records.with_layout(RUN, replace(kept, layout=b"another"))
    assert second.value.public_reason == "it has another layout for this key"
    folder.keep_run(RUN, replace(kept, secrets=None))
    with pytest.raises(Refusal) as given_up:
        records.with_layout(RUN, kept)
    assert given_up.value.public_reason == "it has given this key up"


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
