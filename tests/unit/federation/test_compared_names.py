"""Parties compare the names of their features: a server cannot lie about who holds which, and close names are told."""

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from fenchel_client.alignment.sealednames import ALTERED
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.data.shard import Shard
from fenchel_common.errors import InvalidInput, Refusal
from fenchel_common.setup import LAYOUT, NAMES
from fenchel_common.wire.alignment import client_layout_to_bytes
from fenchel_common.wire.names import feature_names_from_bytes, feature_names_to_bytes
from support.ceremony import HOLDER, OTHER, SHARDS, Federation, layout_of, only
from support.layouts import client_layout


def other_holders(layout: ClientLayout) -> ClientLayout:
    """The other party's layout, in which the key holder has a feature of it too."""
    sizes = dict(zip(layout.block_ids.tolist(), layout.block_sizes.tolist(), strict=True))
    return client_layout(
        sizes,
        slots=layout.slots,
        party=OTHER,
        clients=layout.clients,
        sample_count=layout.sample_count,
        holders=dict.fromkeys(sizes, layout.clients),
        rows=layout.rows,
        feature_blocks=layout.feature_blocks,
        feature_holders=dict.fromkeys(layout.feature_blocks, layout.clients),
        feature_count=layout.feature_count,
    )


def more_features(layout: ClientLayout) -> ClientLayout:
    counts = layout.features_by_holders
    return replace(layout, feature_count=layout.feature_count + 1, features_by_holders=(counts[0] + 1, *counts[1:]))


@pytest.mark.parametrize(("change", "reason"), [(other_holders, "other holders"), (more_features, "what the names")])
def test_a_layout_that_lies_about_features_is_refused(tmp_path: Path, change: object, reason: str) -> None:
    assert callable(change)
    tamper = only(LAYOUT, lambda body: client_layout_to_bytes(change(layout_of(body))))
    with pytest.raises(Refusal, match=reason) as caught:
        Federation(tmp_path).set_up(
            to_party=lambda phase, client, body: tamper(phase, client, body) if client == OTHER else body
        )
    assert caught.value.public_reason.startswith("it refused its layout")


def swapped(body: bytes) -> bytes:
    sealed = feature_names_from_bytes(body)
    return feature_names_to_bytes({HOLDER: sealed[OTHER], OTHER: sealed[HOLDER]})


def test_lists_that_the_server_exchanges_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="does not open") as caught:
        Federation(tmp_path).set_up(to_party=only(NAMES, swapped))
    assert caught.value.public_reason == ALTERED


def test_a_list_that_the_server_withholds_is_told_and_its_own_party_is_compared_with_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Federation(tmp_path).set_up(to_party=only(NAMES, lambda _: feature_names_to_bytes({})))
    assert f"names of features are not compared with {OTHER}: there is no list" in caplog.text


def test_a_layout_without_the_names_before_it_is_refused(tmp_path: Path) -> None:
    federation = Federation(tmp_path)
    taken: dict[str, bytes] = {}
    federation.set_up(to_party=lambda phase, client, body: taken.setdefault(phase + client, body))
    federation.parties[OTHER] = federation.party(OTHER)
    with pytest.raises(Refusal, match="before the key or the names"):
        federation.answer(OTHER, LAYOUT, taken[LAYOUT + OTHER])


def test_names_with_a_zero_character_never_come_so_far() -> None:
    with pytest.raises(InvalidInput):
        Shard(("1",), ("",), SHARDS[OTHER].X[:1, :1], None)


def test_close_names_are_in_the_logs_of_both_parties_before_the_layout(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shards: dict[str, Shard] = {
        HOLDER: replace(SHARDS[HOLDER], features=("chol", "age")),
        OTHER: replace(SHARDS[OTHER], features=("cholesterol", "sex")),
    }
    caplog.set_level(logging.WARNING)
    Federation(tmp_path, shards=shards).set_up()
    assert "this party's feature 'chol' is close to 'cholesterol' of p2" in caplog.text
    assert "this party's feature 'cholesterol' is close to 'chol' of p1" in caplog.text
