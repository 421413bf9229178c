"""Bounds on what a server does with runs: replace a model, go on without consent, fill the disk."""

import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fenchel_client.consent import Consent
from fenchel_client.crypto.obfuscators import ObfuscatorPool
from fenchel_client.participant import Participant
from fenchel_client.party import Party
from fenchel_client.runrecords import MAX_SETUPS_WITHOUT_A_LAYOUT
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import RunId
from fenchel_common.setup import FINISH, INTRODUCE
from fenchel_common.wire.setup import terms_to_bytes
from support.ceremony import OTHER, RUN, SHARDS, Federation, Listener, config, finish, refused


@pytest.fixture
def federation(tmp_path: Path) -> Federation:
    return Federation(tmp_path)


def test_the_end_of_a_past_run_changes_nothing_and_its_model_is_for_its_owner_alone(federation: Federation) -> None:
    listener = Listener()
    federation.set_up(to_party=listener)
    federation.answer(OTHER, FINISH, finish(), round_id=9)
    model = federation.directory / OTHER / f"{RUN}.model"
    before = {path.name: path.read_bytes() for path in model.iterdir()}
    assert stat.S_IMODE(model.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in model.iterdir()} == {0o600}
    for _ in range(2):
        assert federation.answer(OTHER, FINISH, finish(b"other"), round_id=9) == b""
        federation.parties[OTHER] = federation.party(OTHER)
    assert {path.name: path.read_bytes() for path in model.iterdir()} == before
    assert refused(federation, INTRODUCE, terms_to_bytes(config())).public_reason == "the run is over at this party"


def test_consent_that_was_taken_back_holds_for_runs_under_way(federation: Federation, tmp_path: Path) -> None:
    federation.set_up()
    kit = federation.kits[OTHER]
    federation.parties[OTHER] = Party(kit, SHARDS[OTHER], state=tmp_path / OTHER, consent=Consent())
    reason = refused(federation, "local_dual", b"", round_id=1).public_reason
    assert reason == "its operator does not accept: 2048-bits, hmac"


def test_the_end_of_a_run_that_a_party_does_not_know_leaves_no_file(federation: Federation) -> None:
    assert "does not have the key" in refused(federation, FINISH, finish(), round_id=9).public_reason
    assert not any((federation.directory / OTHER).iterdir())


def test_introductions_leave_no_files_and_set_ups_that_come_to_nothing_have_an_end(federation: Federation) -> None:
    party, terms = federation.parties[OTHER], terms_to_bytes(config())
    for number in range(MAX_SETUPS_WITHOUT_A_LAYOUT):
        federation.answer(OTHER, INTRODUCE, terms, run=RunId(f"run-{number}"))
        with party.idle():
            pass
    assert not any((federation.directory / OTHER).iterdir())
    assert "came to nothing" in refused(federation, INTRODUCE, terms, run=RunId("one-more")).public_reason


@pytest.mark.parametrize("about_to_end", [False, True])
def test_nonces_are_made_in_idle_time_unless_the_run_is_about_to_end(
    federation: Federation, monkeypatch: pytest.MonkeyPatch, *, about_to_end: bool
) -> None:
    waited: list[ObfuscatorPool] = []

    @contextmanager
    def idle(pool: ObfuscatorPool, goal: int | None = None) -> Iterator[None]:
        if goal is None:
            waited.append(pool)
        yield

    monkeypatch.setattr(ObfuscatorPool, "idle", idle)
    monkeypatch.setattr(Participant, "reached", lambda _party, _gap: about_to_end)
    federation.set_up()
    waited.clear()
    with federation.parties[OTHER].idle():
        pass
    assert len(waited) == (0 if about_to_end else 1)


@pytest.mark.parametrize("run", ["ü" * 80, "../x", ".hidden", "a" * 65, ""])
def test_a_run_whose_id_cannot_be_a_file_name_is_refused_before_anything_is_kept(
    federation: Federation, run: str
) -> None:
    with pytest.raises(InvalidInput, match="run id"):
        federation.answer(OTHER, INTRODUCE, terms_to_bytes(config()), run=RunId(run))
    with federation.parties[OTHER].idle():
        pass
