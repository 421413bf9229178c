"""Bounds on what a server does with keys: take encryption away, bring an old key back, have keys made without end."""

from dataclasses import replace
from pathlib import Path

import pytest

from fenchel_client.crypto.keyfile import private_key_to_bytes
from fenchel_client.crypto.keygen import generate_private_key
from fenchel_client.crypto.keys import KeyKind, PrivateKey
from fenchel_client.runsecrets import public_key_of
from fenchel_common.errors import Refusal, WrongTerms
from fenchel_common.ids import ClientId
from fenchel_common.runconfig import RunConfig
from fenchel_common.setup import INTRODUCE, KEY_MAKE, KEY_TAKE, RunSecrets
from fenchel_common.wire.ceremony import introductions_to_bytes
from fenchel_common.wire.setup import introduction_from_bytes, key_take_from_bytes, key_take_to_bytes, terms_to_bytes
from support.ceremony import HOLDER, NAMES, OTHER, Federation, Listener, config, only, refused
from support.keys import private_key

PLAIN = config(privacy="plain", benchmark=True)


@pytest.fixture
def federation(tmp_path: Path) -> Federation:
    return Federation(tmp_path)


def test_the_key_blob_of_a_run_in_clear_takes_no_key_from_a_sealed_run_of_the_same_id(tmp_path: Path) -> None:
    earlier, listener = Federation(tmp_path / "earlier"), Listener()
    earlier.set_up(PLAIN, to_party=listener)
    federation = Federation(tmp_path / "now")
    federation.kits = earlier.kits
    federation.parties = {ClientId(name): federation.party(name) for name in NAMES}
    federation.answer(OTHER, INTRODUCE, terms_to_bytes(config()))
    assert "another configuration" in str(refused(federation, KEY_TAKE, listener.tasks[KEY_TAKE]))
    assert "no key" in refused(federation, "align_0", b"").public_reason


@pytest.mark.parametrize(
    ("terms", "reason"),
    [
        (config(key={"bits": 3072}), "another configuration"),
        (config(key={"bits": 2048, "kind": "subgroup"}), "another configuration"),
        (config(seed=7), "another configuration"),
    ],
)
def test_a_party_that_was_told_other_terms_than_the_key_holder_takes_no_key(
    federation: Federation, terms: RunConfig, reason: str
) -> None:
    def tell_other_terms(phase: str, client: ClientId, body: bytes) -> bytes:
        return terms_to_bytes(terms) if phase == INTRODUCE and client == OTHER else body

    with pytest.raises(Refusal, match=reason):
        federation.set_up(to_party=tell_other_terms)


@pytest.mark.parametrize(
    ("key", "terms", "said"),
    [
        (b"", config(), "it is encrypted, but there is no key"),
        (private_key_to_bytes(private_key(2048)), PLAIN, "nothing is encrypted with Paillier, but there is a key"),
        (
            private_key_to_bytes(private_key(2048)),
            config(key={"bits": 3072}),
            "3072 bits, but it is a standard key of 2048",
        ),
        (
            private_key_to_bytes(private_key(2048)),
            config(key={"bits": 2048, "kind": "subgroup"}),
            "name a subgroup key",
        ),
    ],
)
def test_a_key_that_is_not_the_one_of_the_terms_is_refused(key: bytes, terms: RunConfig, said: str) -> None:
    """The terms are bound into the blob, and still the key itself is compared with them."""
    with pytest.raises(WrongTerms, match=said):
        public_key_of(RunSecrets(key, bytes(32), bytes(32)), terms)


def test_the_key_of_an_earlier_set_up_does_not_open_in_a_later_one(federation: Federation) -> None:
    """Also not that of a run whose files were deleted or moved away: the nonce of a set-up is never used again."""
    first = Listener()
    federation.set_up(to_party=first)
    federation.set_up()
    for path in (federation.directory / OTHER).iterdir():
        path.unlink()
    federation.answer(OTHER, INTRODUCE, terms_to_bytes(config()))
    assert "another set-up" in str(refused(federation, KEY_TAKE, first.tasks[KEY_TAKE]))


def test_a_key_holder_makes_one_key_for_each_introduction(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The relay may repeat its request, but not have keys made without end."""
    made: list[int] = []

    def counted(bits: int, kind: KeyKind) -> PrivateKey:
        made.append(bits)
        return generate_private_key(bits, kind)

    monkeypatch.setattr("fenchel_client.runsecrets.generate_private_key", counted)
    introduced = federation.introduced()
    for _ in range(3):
        federation.answer(HOLDER, KEY_MAKE, introductions_to_bytes(introduced))
    assert made == [2048]


def test_a_key_holder_seals_its_secrets_for_one_list_of_introductions(federation: Federation) -> None:
    first = federation.introduced()
    federation.answer(HOLDER, KEY_MAKE, introductions_to_bytes(first))
    again = introduction_from_bytes(federation.answer(OTHER, INTRODUCE, terms_to_bytes(config())))
    with pytest.raises(Refusal, match="second list of introductions"):
        federation.answer(HOLDER, KEY_MAKE, introductions_to_bytes([first[0], again]))


def test_a_swapped_public_key_beside_a_run_in_clear_is_noticed(federation: Federation) -> None:
    def add_key(body: bytes) -> bytes:
        return key_take_to_bytes(replace(key_take_from_bytes(body), public_key=b"\x05"))

    with pytest.raises(Refusal, match="public key"):
        federation.set_up(PLAIN, to_party=only(KEY_TAKE, add_key))
