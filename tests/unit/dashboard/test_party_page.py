"""A party's own view: its work, its data on the wire, its model; and nothing of another party."""

import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from fenchel_common.errors import NoState
from fenchel_common.identity import Address
from fenchel_common.model import write_model
from fenchel_deploy.dashboard.access import Access
from fenchel_deploy.dashboard.app import party_page
from fenchel_deploy.dashboard.documents import Document, plain
from fenchel_deploy.dashboard.partystate import PartyState
from fenchel_deploy.standing import LOST_AFTER_S, NOW_FILE, Standing, read_standing, standing_kept
from support.models import small_model
from support.partyfolders import BEGINS, PARTY_RUN, keep_ledger, worked


def items(document: Document) -> dict[str, Any]:
    found = plain([one for section in document.sections for one in section.items])
    assert isinstance(found, list)
    return {one["key"]: one for one in found}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    keep_ledger(tmp_path)
    return tmp_path


def test_a_party_at_work_says_what_it_does_and_whom_it_waits_for(folder: Path) -> None:
    with standing_kept(folder, "clinic", lambda _: None) as tell:
        tell({"event": "phase", "run": PARTY_RUN, "round": 3, "phase": "primal"})
        tell(BEGINS)
        Standing(folder, "clinic")  # another look at the folder changes nothing
    standing = Standing(folder, "clinic")
    standing.tell({"event": "phase", "run": PARTY_RUN, "round": 3, "phase": "primal"})
    standing.write()
    document = PartyState(folder).document()
    assert (document.title, document.status, document.reason) == ("clinic", "running", "working: primal, round 3")
    assert document.subtitle == "first: hyfdca, sealed; encryption: masks, with keys that only parties have"
    standing.tell(worked(3, 0.25))
    standing.tell(worked(4, 0.125))
    standing.tell({"event": "waiting", "run": None, "for": ["lab"], "since": {"lab": 0.0}})
    standing.write()
    document = PartyState(folder).document()
    assert document.warning == ""
    assert document.reason == "waiting for lab (not connected since 1970-01-01 00:00:00 UTC)"
    shown = items(document)
    assert shown["gap"]["series"][0]["values"] == [0.25, 0.125]
    assert {fact["name"]: fact["value"] for fact in shown["headline"]["facts"]} == {
        "duality gap": 0.125,
        "round": 3,
        "encrypting": 0.5,
        "waiting": 2.0,
    }


def test_the_file_is_private_and_says_when_the_client_has_ended(folder: Path) -> None:
    with standing_kept(folder, "clinic", lambda _: None) as tell:
        tell(worked(1, 0.5))
    assert (folder / NOW_FILE).stat().st_mode & 0o077 == 0
    kept = read_standing(folder)
    assert kept is not None
    assert kept["ended"] is True
    document = PartyState(folder).document()
    assert (document.live, document.status, document.reason) == (False, "stopped", "the client has ended")


def test_a_client_without_a_sign_of_life_is_not_at_work(folder: Path) -> None:
    standing = Standing(folder, "clinic")
    standing.write()
    state = PartyState(folder)
    assert state.document().live
    before = state.version()
    content = json.loads((folder / NOW_FILE).read_text())
    (folder / NOW_FILE).write_text(json.dumps({**content, "time": time.time() - LOST_AFTER_S - 1}))
    assert state.document().reason == "no client is at work here"
    assert state.version() != before


def test_the_gaps_of_another_run_are_forgotten_and_those_of_this_one_outlive_a_restart(folder: Path) -> None:
    for gap in (0.5, 0.25):
        standing = Standing(folder, "clinic")
        standing.tell(BEGINS)
        standing.tell(worked(1, gap))
        standing.write()
    assert [gap for _, gap in (read_standing(folder) or {})["gaps"]] == [0.5, 0.25]
    standing.tell({**BEGINS, "run": "run-00000000", "privacy": "plain", "cipher": None, "key_bits": None})
    standing.write()
    assert PartyState(folder).document().warning == "PLAINTEXT: nothing in this run was encrypted."
    assert (read_standing(folder) or {})["gaps"] == []


def test_the_data_are_shown_as_they_left(folder: Path) -> None:
    shown = items(PartyState(folder).document())
    assert shown["wire-in-words"]["paragraphs"] == [
        "No value of a single sample, or of this party alone, left it in a form that the server can read."
    ]
    assert shown["sent"]["series"] == [{"name": "encrypted, and the server has no key", "values": [1.0], "at": None}]
    assert shown["release-in-words"]["paragraphs"] == ["Nothing of the model was released to the server."]


def test_the_model_is_shown_with_its_weights_the_largest_first(folder: Path) -> None:
    write_model(folder / f"{PARTY_RUN}.model", small_model())
    document = PartyState(folder).document()
    assert document.status == "completed"
    shown = items(document)
    weights = [row[1] for row in shown["weights"]["rows"]]
    assert weights == sorted(weights, key=abs, reverse=True)
    assert np.abs(weights).max() == 6.0
    assert shown["largest-weights"]["series"][0]["values"] == weights


def test_a_folder_without_a_party_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoState):
        PartyState(tmp_path)


def test_the_page_of_a_party_knows_nothing_else(folder: Path) -> None:
    other = folder / "lab"
    other.mkdir()
    (other / "secret.csv").write_text("secret")
    access = Access.at(Address("127.0.0.1", 1), token=None, tls=False)
    with TestClient(party_page(PartyState(folder), access), base_url="http://localhost") as page:
        answer = page.get("/api/party")
        assert answer.json()["documents"][0]["title"] == "clinic"
        assert "lab" not in answer.text
        for path in ("/api/runs", "/api/run/first", "/lab/secret.csv", "/static/..%2Flab%2Fsecret.csv", "/now.json"):
            assert page.get(path).status_code == 404
    assert os.listdir(other) == ["secret.csv"]  # noqa: PTH208
