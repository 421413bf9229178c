"""Pseudonyms of feature names, and the way between the server's order of features and a party's own."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fenchel_client.alignment.names import columns_by_pseudonym, pseudonyms
from fenchel_client.crypto.derivedkeys import names_key, ring_key
from fenchel_common.clientlayout import IgnoredFeatures
from fenchel_common.ids import ClientId, RunId
from fenchel_common.wire.alignment import AlignmentMethod, listing_from_bytes, start_to_bytes
from support.alignment import TAG_SECRET, align, make_client, make_shard
from support.ceremony import SHARDS, Federation, config
from support.layouts import client_layout

RUN = RunId("run-1")
WORDS = ("zip", "age", "größe")


def test_a_pseudonym_is_the_same_at_all_parties_and_another_one_in_every_run_and_set_up() -> None:
    secrets = [(bytes([number]) * 32, RunId(run)) for number in (1, 2) for run in ("run-1", "run-2")]
    marks = {pseudonyms(WORDS, tag_secret=secret, run=run) for secret, run in secrets}
    assert len(marks) == 4
    assert pseudonyms(WORDS, tag_secret=bytes([1]) * 32, run=RUN) in marks
    assert all(len(bytes.fromhex(mark)) == 16 for one in marks for mark in one)
    assert names_key(bytes(32), RUN) != ring_key(bytes(32), RUN)


def test_columns_lead_from_the_order_of_pseudonyms_to_the_order_of_names() -> None:
    columns, names = columns_by_pseudonym(WORDS, tag_secret=TAG_SECRET, run=RUN), sorted(WORDS)
    marks = pseudonyms(names, tag_secret=TAG_SECRET, run=RUN)
    assert [marks[column] for column in columns] == sorted(marks)


@pytest.mark.parametrize("method", list(AlignmentMethod))
def test_a_listing_has_pseudonyms_in_an_order_that_names_do_not_give(method: AlignmentMethod) -> None:
    body = make_client(make_shard(["1", "2"], WORDS), method=method).answer("align_0", start_to_bytes(method))
    marks = sorted(pseudonyms(WORDS, tag_secret=TAG_SECRET, run=RUN))
    assert listing_from_bytes(body).features == bytes.fromhex("".join(marks))
    assert not any(word.encode() in body for word in WORDS)


def test_features_of_one_name_meet_under_one_pseudonym() -> None:
    anna, bert = make_shard(["1", "2"], ["age", "zip"]), make_shard(["3"], ["zip", "age"])
    shards = {ClientId("anna"): anna, ClientId("bert"): bert}
    layout = align(shards).outcome.federation
    assert layout.features == tuple(sorted(pseudonyms(("age", "zip"), tag_secret=TAG_SECRET, run=RUN)))
    assert all(held.tolist() == [0, 1] for held in layout.client_features.values())


def test_a_layout_in_columns_counts_features_as_the_table_does() -> None:
    layout = client_layout(
        {0: 1},
        slots=2,
        ignored=(IgnoredFeatures(np.array([0, 1]), np.array([0])),),
        feature_blocks={0: np.array([0, 1]), 3: np.array([2])},
    )
    assert layout.columns.tolist() == [0, 1, 2]
    counted = layout.in_columns(np.array([2, 0, 1]))
    assert {block: held.tolist() for block, held in counted.feature_blocks.items()} == {0: [2, 0], 3: [1]}
    assert counted.ignored[0].features.tolist() == [0, 2]
    assert counted.columns.tolist() == [2, 0, 1]


def test_no_name_crosses_the_server_in_a_set_up_and_each_party_can_tell_its_own(tmp_path: Path) -> None:
    shards = {
        name: replace(shard, features=tuple(f"markedword-{feature}" for feature in shard.features))
        for name, shard in SHARDS.items()
    }
    federation = Federation(tmp_path, shards=shards)
    seen: list[bytes] = []

    def listen(_phase: str, _client: ClientId, body: bytes) -> bytes:
        seen.append(body)
        return body

    done = federation.set_up(config(alignment="blinders"), to_party=listen, to_server=listen)
    stored = done.record.layout + done.snapshot.own + b"".join(done.snapshot.records)
    assert not any(b"markedword" in body for body in (*seen, stored))
    for name, shard in shards.items():
        lines = (tmp_path / name / "run-1.features.csv").read_text().splitlines()
        assert lines[0] == "pseudonym,feature"
        told = dict(line.split(",") for line in lines[1:])
        assert sorted(told.values()) == sorted(shard.features)
        assert all(pseudonym.encode() in stored for pseudonym in told)
