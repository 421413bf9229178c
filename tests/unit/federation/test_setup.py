"""The set-up of a run between the real halves: the key ceremony through an untrusted relay, consent, and rejoining."""

import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fenchel.v1 import setup_pb2
from fenchel_client.concessions import Concession
from fenchel_client.consent import Consent
from fenchel_common.errors import InvalidConfig, Refusal, ResultRejected
from fenchel_common.ids import ClientId, RunId
from fenchel_common.metrics import LastCertificate
from fenchel_common.model import read_model
from fenchel_common.setup import (
    FINISH,
    INTRODUCE,
    KEY_MAKE,
    KEY_TAKE,
    LAYOUT,
    KeyMade,
    ModelPart,
)
from fenchel_common.wire.ceremony import introductions_to_bytes
from fenchel_common.wire.setup import (
    key_made_from_bytes,
    key_made_to_bytes,
    key_take_from_bytes,
    key_take_to_bytes,
    model_part_to_bytes,
)
from fenchel_server.federationrun import FederationRun
from support.ceremony import HOLDER, NAMES, OTHER, RUN, SHARDS, Federation, Tamper, config, only


@pytest.fixture
def federation(tmp_path: Path) -> Federation:
    return Federation(tmp_path)


@pytest.mark.parametrize("alignment", ["blinders", "ring", "hmac"])
@pytest.mark.parametrize("kind", ["standard", "subgroup"])
def test_a_set_up_ends_with_one_key_that_every_party_holds(tmp_path: Path, alignment: str, kind: str) -> None:
    federation = Federation(tmp_path)
    done = federation.set_up(config(alignment=alignment, key={"bits": 2048, "kind": kind}))
    assert done.record.key_bits == 2048
    assert len(done.record.key_fingerprint or "") == 64
    assert (len(done.record.public_key), bool(done.snapshot)) == (256, True)


def test_what_key_a_run_has_is_on_record_and_a_subgroup_key_states_its_assumption(
    federation: Federation, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO"):
        done = federation.set_up(config(key={"bits": 2048, "kind": "subgroup"}))
    said = " ".join(record.getMessage() for record in caplog.records)
    assert f"Paillier (subgroup), 2048 bits, 30 slots, fingerprint {done.record.key_fingerprint}" in said
    assert f"made by {HOLDER}, known to {HOLDER}, {OTHER}" in said
    assert "restricted to a hidden subgroup" in said


def test_a_run_in_clear_has_no_key(federation: Federation) -> None:
    done = federation.set_up(config(privacy="plain", benchmark=True))
    assert (done.record.public_key, done.record.key_fingerprint) == (b"", None)


def test_the_private_key_is_kept_for_its_owner_alone_and_never_passes_the_server(tmp_path: Path) -> None:
    federation = Federation(tmp_path)
    seen: list[bytes] = []

    def listen(_phase: str, _client: ClientId, body: bytes) -> bytes:
        seen.append(body)
        return body

    federation.set_up(to_party=listen, to_server=listen)
    for name in NAMES:
        (kept,) = (tmp_path / name).glob("*.run")
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
        secret = kept.read_bytes().split(b'"value": "0x')[1][:64]
        assert len(secret) == 64
        assert not any(secret in body for body in seen)


def test_a_restarted_party_goes_on_with_the_key_it_kept(federation: Federation) -> None:
    federation.set_up()
    before = federation.parties[OTHER]
    federation.parties[OTHER] = federation.party(OTHER)
    assert federation.parties[OTHER] is not before
    with pytest.raises(Exception, match="phase"):
        federation.answer(OTHER, "no_such_phase", b"", round_id=1)


def test_a_party_that_lost_its_state_says_that_it_has_no_key(federation: Federation) -> None:
    federation.set_up()
    for path in (federation.directory / OTHER).iterdir():
        path.unlink()
    federation.parties[OTHER] = federation.party(OTHER)
    with pytest.raises(Refusal) as caught:
        federation.answer(OTHER, "local_dual", b"", round_id=1)
    assert caught.value.public_reason == "it does not have the key of this run"


def test_values_that_outgrow_the_vectors_are_refused_with_what_would_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    huge = SHARDS[OTHER]
    monkeypatch.setitem(SHARDS, OTHER, replace(huge, X=1e7 * np.asarray(huge.X)))
    with pytest.raises(Refusal) as caught:
        Federation(tmp_path).set_up()
    assert "smaller scale" in caught.value.public_reason


def test_a_key_file_that_others_can_read_is_not_used(federation: Federation) -> None:
    federation.set_up()
    (kept,) = (federation.directory / OTHER).glob("*.run")
    kept.chmod(0o644)
    federation.parties[OTHER] = federation.party(OTHER)
    with pytest.raises(Refusal, match="chmod 600"):
        federation.answer(OTHER, "local_dual", b"", round_id=1)


def test_the_end_leaves_the_model_and_takes_the_key_away_however_often_it_is_told(federation: Federation) -> None:
    federation.set_up()
    features = sorted(SHARDS[OTHER].features)
    part = ModelPart(b"", primal=0.5, dual=0.4, gap=0.1)
    for _ in range(2):
        federation.answer(OTHER, FINISH, model_part_to_bytes(part), round_id=9)
        federation.parties[OTHER] = federation.party(OTHER)
    (model,) = (federation.directory / OTHER).glob("*.model")
    left = {path.name.partition(".")[2] for path in model.parent.iterdir()}
    assert left == {"ledger.json", "features.csv", "model"}
    kept = read_model(model)
    assert list(kept.names) == features
    assert kept.weights.tolist() == [0.0] * len(features)
    assert kept.record.certificate.gap == 0.1


def test_a_key_holder_makes_no_key_for_a_roster_that_nobody_approved(tmp_path: Path) -> None:
    federation = Federation(tmp_path, consent=lambda _: Consent(accepts=frozenset(Concession)))
    with pytest.raises(Refusal, match="--approve-roster") as caught:
        federation.set_up()
    assert caught.value.public_reason == "its operator has not approved the roster"


def test_a_server_that_asks_the_wrong_party_for_the_key_is_refused(federation: Federation) -> None:
    introduced = introductions_to_bytes(federation.introduced())
    with pytest.raises(Refusal, match="another key holder"):
        federation.answer(OTHER, KEY_MAKE, introduced)


def test_a_file_of_another_version_is_refused_in_words_that_say_what_to_do(federation: Federation) -> None:
    federation.set_up()
    path = federation.directory / OTHER / f"{RUN}.run"
    kept = setup_pb2.PartyRun.FromString(path.read_bytes())
    kept.ClearField("format")
    path.write_bytes(kept.SerializeToString())
    federation.parties[OTHER] = federation.party(OTHER)
    with pytest.raises(Refusal, match="written by another version of Fenchel; end the run with that version") as caught:
        federation.answer(OTHER, "local_dual", b"", round_id=1)
    assert caught.value.public_reason == "it does not have the key of this run"


def flipped(body: bytes) -> bytes:
    take = key_take_from_bytes(body)
    altered = bytearray(take.wrapped)
    altered[-1] ^= 1
    return key_take_to_bytes(replace(take, wrapped=bytes(altered)))


def test_an_altered_key_blob_is_refused(federation: Federation) -> None:
    with pytest.raises(Refusal, match="altered"):
        federation.set_up(to_party=only(KEY_TAKE, flipped))


def test_a_key_blob_of_another_run_is_refused(federation: Federation) -> None:
    earlier: dict[str, bytes] = {}

    def record(body: bytes) -> bytes:
        earlier["take"] = body
        return body

    federation.set_up(to_party=only(KEY_TAKE, record))
    blob = key_take_from_bytes(earlier["take"]).wrapped

    def replay(body: bytes) -> bytes:
        return key_take_to_bytes(replace(key_take_from_bytes(body), wrapped=blob))

    with pytest.raises(Refusal, match="made for run"):
        federation.set_up(to_party=only(KEY_TAKE, replay), run=RunId("run-2"))


def test_a_public_key_swapped_by_the_server_is_noticed(federation: Federation) -> None:
    def swap(body: bytes) -> bytes:
        take = key_take_from_bytes(body)
        return key_take_to_bytes(replace(take, public_key=take.public_key[:-1] + b"\xfb"))

    with pytest.raises(Refusal, match="public key"):
        federation.set_up(to_party=only(KEY_TAKE, swap))


def remade(change: Callable[[KeyMade], KeyMade]) -> Tamper:
    return only(KEY_MAKE, lambda body: key_made_to_bytes(change(key_made_from_bytes(body))))


@pytest.mark.parametrize(
    ("tamper", "message"),
    [
        (remade(lambda made: KeyMade(made.public_key, {})), "every other party"),
        (remade(lambda made: KeyMade(made.public_key, {HOLDER: b"x", **made.sealed})), "every other party"),
        (remade(lambda made: KeyMade(made.public_key[:128], made.sealed)), "bits"),
        (remade(lambda made: KeyMade(b"", made.sealed)), "modulus"),
        (only(KEY_MAKE, lambda _: b"\xff\xff"), "KeyMade"),
        (only(KEY_TAKE, lambda _: b""), "its key is not the one"),
        (only(INTRODUCE, lambda _: b"\x0a\x03abc"), "certificate"),
        (only(LAYOUT, lambda body: body[:-5]), "rejected"),
    ],
    ids=["nobody", "holder too", "short key", "no key", "no message", "other key", "no certificate", "cut preparation"],
)
def test_a_malformed_answer_is_rejected_by_the_server(federation: Federation, tamper: Tamper, message: str) -> None:
    with pytest.raises(ResultRejected, match=message):
        federation.set_up(to_server=tamper)


@pytest.mark.parametrize("phase", [KEY_TAKE, LAYOUT, "align_0"])
def test_a_party_that_came_late_refuses_what_it_cannot_follow(federation: Federation, phase: str) -> None:
    with pytest.raises(Refusal) as caught:
        federation.answer(OTHER, phase, b"")
    assert "restarted during the set-up" in caught.value.public_reason


def test_the_finish_phase_gives_each_party_the_weights_of_its_own_features(federation: Federation) -> None:
    done = federation.set_up()
    certificate = LastCertificate(primal=1.0, dual=0.5, gap=0.5)
    run = FederationRun(config(), federation.kits["server"].roster, certificate=lambda: certificate)
    request = run.finish(done.record, run.restore(done.record, done.snapshot))
    assert request.phase == FINISH
    assert set(request.tasks) == run.clients == {HOLDER, OTHER}


def test_a_leak_that_was_acknowledged_is_told_before_the_first_round(
    federation: Federation, caplog: pytest.LogCaptureFixture
) -> None:
    done = federation.set_up(config(privacy="paper", acknowledge_row_leak=True))
    (warning,) = done.warnings
    assert "from its changes the server can work out rows" in warning
    assert warning in caplog.text


def test_a_set_up_whose_rows_turn_out_too_few_for_its_h_is_refused(federation: Federation) -> None:
    terms = config(privacy="paper", settings={"loss": "logistic", "local": "paper", "h": 0.1})
    with pytest.raises(InvalidConfig, match="as few as 4 of a party's samples are updated in a round"):
        federation.set_up(terms)
