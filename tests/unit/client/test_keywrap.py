"""The key ceremony: what opens a wrapped key, and what each wrong one is refused as."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fenchel_client.crypto.introductions import fresh_key, introduce
from fenchel_client.crypto.keywrap import MAX_SECRETS_BYTES, unwrap, wrap
from fenchel_common.errors import (
    InvalidInput,
    KeyMismatch,
    MalformedWrappedKey,
    NotForUs,
    WrappedKeyAltered,
    WrappedKeyReplayed,
    WrongRoster,
    WrongSigner,
    WrongTerms,
)
from fenchel_common.identity import Kit, Roster
from fenchel_common.ids import ClientId, RunId
from fenchel_common.setup import Introduction, WrappedKey
from fenchel_common.wire.ceremony import (
    wrapped_key_from_bytes,
    wrapped_key_to_bytes,
)
from support.kits import make_federation

SECRET = b"the private half of a Paillier key"
TERMS = bytes(range(32))
INTRODUCTIONS = bytes(range(100, 132))
RUN = RunId("run-1")
EPHEMERAL = {name: fresh_key() for name in ("north", "south", "west", "server", "east")}
"""The key with which each party introduces itself."""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kits")


@pytest.fixture(scope="module")
def kits(directory: Path) -> dict[str, Kit]:
    made = make_federation(directory, ("north", "south", "west"))
    return {name: Kit.load(path) for name, path in made.items()}


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Kit]:
    """A federation of the same names under another authority."""
    made = make_federation(tmp_path_factory.mktemp("strangers"), ("north", "south", "west"))
    return {name: Kit.load(path) for name, path in made.items()}


def introduction_of(kit: Kit, *, run: RunId = RUN, terms: bytes = TERMS) -> Introduction:
    return introduce(kit, EPHEMERAL[kit.certificate.common_name].public_key(), run=run, terms=terms)


def wrap_from(
    signer: Kit,
    recipient: Kit,
    *,
    run: RunId = RUN,
    roster: Roster | None = None,
    terms: bytes = TERMS,
    introductions: bytes = INTRODUCTIONS,
    secret: bytes = SECRET,
) -> WrappedKey:
    return wrap(
        secret,
        recipient=introduction_of(recipient),
        signer_key=signer.private_key(),
        signer_cert=signer.certificate,
        roster_fingerprint=(roster or signer.roster).fingerprint(),
        run=run,
        terms=terms,
        introductions=introductions,
    )


def unwrap_as(recipient: Kit, wrapped: WrappedKey, *, now: datetime | None = None) -> bytes:
    return unwrap(
        wrapped,
        recipient=recipient.client_id,
        recipient_key=EPHEMERAL[recipient.name],
        authority=recipient.authority,
        roster=recipient.roster,
        run=RUN,
        terms=TERMS,
        introductions=INTRODUCTIONS,
        now=now,
    )


def test_the_recipient_opens_what_the_key_holder_wrapped(kits: dict[str, Kit]) -> None:
    encoded = wrapped_key_to_bytes(wrap_from(kits["north"], kits["south"]))
    assert SECRET not in encoded
    assert unwrap_as(kits["south"], wrapped_key_from_bytes(encoded)) == SECRET


def test_two_wrappings_of_one_key_have_nothing_in_common_that_hides_it(kits: dict[str, Kit]) -> None:
    first, second = (wrap_from(kits["north"], kits["south"]) for _ in range(2))
    assert first.ephemeral_key != second.ephemeral_key
    assert first.sealed != second.sealed


def test_a_key_from_another_run_is_refused_as_replayed(kits: dict[str, Kit]) -> None:
    with pytest.raises(WrappedKeyReplayed, match="made for run 'run-0', not for run 'run-1'"):
        unwrap_as(kits["south"], wrap_from(kits["north"], kits["south"], run=RunId("run-0")))


def test_a_key_for_another_roster_is_refused(kits: dict[str, Kit]) -> None:
    other = replace(kits["north"].roster, release_model_to_server=True)
    with pytest.raises(WrongRoster, match="every party needs the roster of the last"):
        unwrap_as(kits["south"], wrap_from(kits["north"], kits["south"], roster=other))


def test_a_key_for_another_party_is_refused(kits: dict[str, Kit]) -> None:
    with pytest.raises(NotForUs, match="for party 'west', not for 'south'"):
        unwrap_as(kits["south"], wrap_from(kits["north"], kits["west"]))


def test_a_key_sealed_to_another_key_of_the_same_party_is_refused(
    kits: dict[str, Kit], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A blob of an earlier set-up: the key to which it was sealed is gone."""
    earlier = wrap_from(kits["north"], kits["south"])
    monkeypatch.setitem(EPHEMERAL, "south", fresh_key())
    with pytest.raises(NotForUs, match="sealed to another key of 'south'"):
        unwrap_as(kits["south"], earlier)


def test_the_key_of_a_certificate_opens_nothing(kits: dict[str, Kit], monkeypatch: pytest.MonkeyPatch) -> None:
    wrapped = wrap_from(kits["north"], kits["south"])
    monkeypatch.setitem(EPHEMERAL, "south", kits["south"].private_key())
    with pytest.raises(NotForUs):
        unwrap_as(kits["south"], wrapped)


def test_a_key_for_another_set_up_of_the_run_is_refused_as_replayed(kits: dict[str, Kit]) -> None:
    with pytest.raises(WrappedKeyReplayed, match="another set-up of this run"):
        unwrap_as(kits["south"], wrap_from(kits["north"], kits["south"], introductions=bytes(32)))


def test_a_key_signed_by_a_party_that_is_not_the_key_holder_is_refused(kits: dict[str, Kit]) -> None:
    with pytest.raises(WrongSigner, match="signed by 'west', but the roster's key holder is 'north'"):
        unwrap_as(kits["south"], wrap_from(kits["west"], kits["south"]))


def test_a_key_signed_by_the_server_is_refused(kits: dict[str, Kit]) -> None:
    with pytest.raises(WrongSigner, match="that of a server, not of a party"):
        unwrap_as(kits["south"], wrap_from(kits["server"], kits["south"]))


def test_a_key_holder_of_another_authority_is_refused(kits: dict[str, Kit], strangers: dict[str, Kit]) -> None:
    with pytest.raises(WrongSigner, match="not issued by the authority"):
        unwrap_as(kits["south"], wrap_from(strangers["north"], kits["south"]))


def test_a_key_holder_whose_certificate_has_expired_is_refused(kits: dict[str, Kit]) -> None:
    wrapped = wrap_from(kits["north"], kits["south"])
    with pytest.raises(WrongSigner, match="expired on"):
        unwrap_as(kits["south"], wrapped, now=datetime.now(UTC) + timedelta(days=31))


def test_a_key_holder_whose_certificate_was_replaced_is_refused(kits: dict[str, Kit]) -> None:
    """By a recipient that has the new roster, whatever the server relays."""
    wrapped = wrap_from(kits["north"], kits["south"])
    replaced = replace(kits["north"].roster.parties[0], key_fingerprint="00" * 32)
    roster = replace(kits["south"].roster, parties=(replaced, *kits["south"].roster.parties[1:]))
    with pytest.raises(WrongSigner, match="cannot be trusted: the certificate of 'north' was replaced"):
        unwrap_as(replace(kits["south"], roster=roster), wrapped)


def flip(data: bytes, index: int = -1) -> bytes:
    changed = bytearray(data)
    changed[index] ^= 1
    return bytes(changed)


@pytest.mark.parametrize(
    "alter",
    [
        lambda wrapped: replace(wrapped, sealed=flip(wrapped.sealed)),
        lambda wrapped: replace(wrapped, sealed=flip(wrapped.sealed, 0)),
        lambda wrapped: replace(wrapped, sealed=wrapped.sealed + b"\x00"),
        lambda wrapped: replace(wrapped, ephemeral_key=flip(wrapped.ephemeral_key)),
        lambda wrapped: replace(wrapped, signature=flip(wrapped.signature)),
        lambda wrapped: replace(wrapped, signature=b""),
        lambda wrapped: replace(wrapped, run=RunId("run-2")),
        lambda wrapped: replace(wrapped, roster_fingerprint="00" * 32),
        lambda wrapped: replace(wrapped, terms=bytes(32)),
        lambda wrapped: replace(wrapped, introductions=bytes(32)),
    ],
)
def test_an_altered_key_is_refused(kits: dict[str, Kit], alter: Callable[[WrappedKey], WrappedKey]) -> None:
    altered = alter(wrap_from(kits["north"], kits["south"]))
    with pytest.raises(WrappedKeyAltered, match="signature does not hold"):
        unwrap_as(kits["south"], altered)


def test_a_replayed_key_that_was_renamed_to_this_run_is_refused_as_altered(kits: dict[str, Kit]) -> None:
    old = wrap_from(kits["north"], kits["south"], run=RunId("run-0"))
    with pytest.raises(WrappedKeyAltered):
        unwrap_as(kits["south"], replace(old, run=RUN))


def test_a_key_redirected_to_another_recipient_is_refused_as_altered(kits: dict[str, Kit]) -> None:
    with pytest.raises(WrappedKeyAltered):
        unwrap_as(kits["south"], replace(wrap_from(kits["north"], kits["west"]), recipient=ClientId("south")))


def test_a_key_under_a_false_signer_name_is_refused(kits: dict[str, Kit]) -> None:
    with pytest.raises(WrongSigner):
        unwrap_as(kits["south"], replace(wrap_from(kits["north"], kits["south"]), signer=ClientId("west")))


def test_a_substituted_signer_certificate_is_refused(kits: dict[str, Kit]) -> None:
    wrapped = wrap_from(kits["north"], kits["south"])
    with pytest.raises(WrongSigner, match="cannot be trusted"):
        unwrap_as(kits["south"], replace(wrapped, signer_certificate=b"nonsense"))


def test_fields_cannot_be_shifted_into_each_other(kits: dict[str, Kit]) -> None:
    wrapped = wrap_from(kits["north"], kits["south"])
    shifted = replace(wrapped, sealed=wrapped.sealed[1:], ephemeral_key=wrapped.ephemeral_key + wrapped.sealed[:1])
    assert shifted.context() + shifted.sealed != wrapped.context() + wrapped.sealed


@pytest.mark.parametrize(
    "spoil",
    [
        lambda encoded: encoded[:0],
        lambda encoded: encoded[:-1],
        lambda encoded: encoded + b"\x00",
        lambda encoded: encoded + b"\x7a\x01x",
        lambda encoded: encoded + encoded,
        lambda encoded: b"\xff" * len(encoded),
        lambda encoded: encoded + b"\x00" * 200_000,
    ],
    ids=["empty", "cut", "trailing", "unknown field", "repeated", "noise", "oversized"],
)
def test_bytes_that_are_not_canonical_are_refused(kits: dict[str, Kit], spoil: Callable[[bytes], bytes]) -> None:
    with pytest.raises(MalformedWrappedKey):
        wrapped_key_from_bytes(spoil(wrapped_key_to_bytes(wrap_from(kits["north"], kits["south"]))))


@pytest.mark.parametrize(
    "change",
    [{"ephemeral_key": b"\x04"}, {"sealed": b"\x00" * 16}, {"roster_fingerprint": "00"}, {"introductions": b""}],
)
def test_fields_of_a_wrong_width_are_refused(kits: dict[str, Kit], change: dict[str, str | bytes]) -> None:
    wrapped = wrap_from(kits["north"], kits["south"])
    fields = {name: getattr(wrapped, name) for name in WrappedKey.__dataclass_fields__}
    with pytest.raises(MalformedWrappedKey):
        wrapped_key_from_bytes(wrapped_key_to_bytes(WrappedKey(**{**fields, **change})))


def test_a_signing_key_that_is_not_the_signer_s_is_refused(kits: dict[str, Kit]) -> None:
    with pytest.raises(KeyMismatch):
        wrap_from(replace(kits["north"], key_pem=kits["south"].key_pem), kits["west"])


@pytest.mark.parametrize("size", [0, MAX_SECRETS_BYTES + 1])
def test_a_private_key_of_an_impossible_size_is_refused(kits: dict[str, Kit], size: int) -> None:
    with pytest.raises(InvalidInput, match="bytes"):
        wrap_from(kits["north"], kits["south"], secret=bytes(size))


def test_the_largest_accepted_private_key_fits_its_wrapping(kits: dict[str, Kit]) -> None:
    wrapped = wrap_from(kits["north"], kits["south"], secret=bytes(MAX_SECRETS_BYTES))
    assert unwrap_as(kits["south"], wrapped_key_from_bytes(wrapped_key_to_bytes(wrapped))) == bytes(MAX_SECRETS_BYTES)


def test_a_key_that_was_wrapped_for_other_terms_is_refused(kits: dict[str, Kit]) -> None:
    """A blob of an earlier run in clear, under the same run id, must not take the key from a sealed one."""
    wrapped = wrap_from(kits["north"], kits["south"], terms=bytes(32))
    with pytest.raises(WrongTerms, match="another configuration of this run"):
        unwrap_as(kits["south"], wrapped)
