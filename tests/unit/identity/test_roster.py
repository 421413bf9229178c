"""The roster: its canonical form, what its fingerprint binds, its signature, and what it refuses."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fenchel_common.errors import CertificateReplaced, InvalidInput, NotOnRoster, RosterExpired, RosterTampered
from fenchel_common.identity import Certificate, Party, Role, Roster
from fenchel_common.ids import ClientId
from fenchel_deploy.authority import Authority, make_key
from support.kits import authority_of

NORTH = Party(ClientId("north"), key_holder=True, key_fingerprint="0a" * 32)
SOUTH = Party(ClientId("south"), labels=False)
ROSTER = Roster(
    federation="test",
    authority_fingerprint="0c" * 32,
    version=3,
    not_after=datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC),
    server_name="server",
    server_key_fingerprint="05" * 32,
    parties=(NORTH, SOUTH),
)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return authority_of(tmp_path / "ca")


def of(authority: Authority, **changes: Any) -> Roster:
    """The roster as that authority would make it."""
    return replace(ROSTER, authority_fingerprint=authority.certificate.fingerprint(), **changes)


def certificate_of(authority: Authority, name: str, role: Role = Role.PARTY) -> Certificate:
    key = make_key().public_key()
    return authority.issue(key, role=role, name=name, validity=timedelta(days=1), skew=timedelta(0))


def test_the_canonical_form_is_fixed() -> None:
    assert ROSTER.to_bytes() == (
        b'{"authority_fingerprint":"' + b"0c" * 32 + b'","federation":"test","format":2,'
        b'"not_after":"2030-01-02T03:04:05Z","parties":[{"key_fingerprint":"' + b"0a" * 32 + b'",'
        b'"key_holder":true,"labels":true,"name":"north"},'
        b'{"key_fingerprint":null,"key_holder":false,"labels":false,"name":"south"}],'
        b'"release_model_to_server":false,"server_key_fingerprint":"' + b"05" * 32 + b'","server_name":"server",'
        b'"version":3}'
    )
    assert ROSTER.fingerprint() == "b4e3c912db0b563ebb5497f37cd7b009ca1f9473fbb85c0aa38ed9c6020195c9"


def test_the_marked_parties_or_else_the_first_three_are_blinding_parties() -> None:
    names = ("a", "b", "c", "d")
    parties = tuple(replace(NORTH, name=ClientId(name), key_holder=name == "a") for name in names)
    assert replace(ROSTER, parties=parties).blinders == ("a", "b", "c")
    marked = tuple(replace(party, blinder=party.name in ("b", "d")) for party in parties)
    roster = replace(ROSTER, parties=marked)
    assert roster.blinders == ("b", "d")
    assert Roster.from_bytes(roster.to_bytes()) == roster
    alone = tuple(replace(party, blinder=party.name == "b") for party in parties)
    with pytest.raises(InvalidInput, match="one blinding party alone"):
        replace(ROSTER, parties=alone)


@pytest.mark.parametrize(
    "change",
    [
        {"authority_fingerprint": "0d" * 32},
        {"version": 4},
        {"not_after": datetime(2030, 1, 2, 3, 4, 6, tzinfo=UTC)},
        {"server_key_fingerprint": "06" * 32},
        {"parties": (replace(NORTH, key_fingerprint="0b" * 32), SOUTH)},
        {"parties": (NORTH, replace(SOUTH, key_fingerprint="0b" * 32))},
        {"parties": (replace(NORTH, blinder=True), replace(SOUTH, blinder=True))},
    ],
    ids=[
        "authority",
        "version",
        "expiry",
        "the server's key",
        "a party's key",
        "a key that was approved",
        "blinding parties",
    ],
)
def test_the_fingerprint_binds(change: dict[str, Any]) -> None:
    assert replace(ROSTER, **change).fingerprint() != ROSTER.fingerprint()


def test_two_authorities_of_one_name_give_two_fingerprints(authority: Authority, tmp_path: Path) -> None:
    assert of(authority).fingerprint() != of(authority_of(tmp_path / "other")).fingerprint()


def test_a_certificate_for_the_key_that_the_roster_names_is_accepted(authority: Authority) -> None:
    party, server = certificate_of(authority, "north"), certificate_of(authority, "server", Role.SERVER)
    named = replace(NORTH, key_fingerprint=party.key_fingerprint())
    roster = of(authority, parties=(named, SOUTH), server_key_fingerprint=server.key_fingerprint())
    roster.check_key(party)
    roster.check_key(server)


@pytest.mark.parametrize(
    ("name", "role", "error", "complaint"),
    [
        ("north", Role.PARTY, CertificateReplaced, r"of 'north' was replaced: roster version 3 names the key 0a0a"),
        ("server", Role.SERVER, CertificateReplaced, "of 'server' was replaced"),
        ("south", Role.PARTY, CertificateReplaced, r"names no key for 'south': .*`fenchel cert approve`"),
        ("west", Role.PARTY, NotOnRoster, "'west' is not on the roster"),
        ("north", Role.SERVER, NotOnRoster, "names 'server' as the server, not 'north'"),
    ],
)
def test_a_certificate_for_another_key_is_refused(
    authority: Authority, name: str, role: Role, error: type[Exception], complaint: str
) -> None:
    with pytest.raises(error, match=complaint):
        of(authority).check_key(certificate_of(authority, name, role))


def test_an_expired_roster_is_refused_with_the_cure() -> None:
    ROSTER.check_time(ROSTER.not_after)
    with pytest.raises(RosterExpired, match=r"version 3 expired on 2030-01-02 .* `fenchel provision`"):
        ROSTER.check_time(ROSTER.not_after + timedelta(seconds=1))


def test_parties_without_a_key_are_known() -> None:
    assert ROSTER.keyless == ("south",)


def test_the_canonical_form_reads_back_as_the_same_roster() -> None:
    assert Roster.from_bytes(ROSTER.to_bytes()) == ROSTER


def test_a_signed_roster_is_accepted(authority: Authority) -> None:
    roster = of(authority)
    assert Roster.verified(roster.to_bytes(), roster.sign(authority.key), authority.certificate) == roster


def test_an_altered_roster_is_refused(authority: Authority) -> None:
    signature = of(authority).sign(authority.key)
    altered = of(authority).to_bytes().replace(b'"labels":false', b'"labels":true')
    with pytest.raises(RosterTampered, match="does not carry the authority's signature"):
        Roster.verified(altered, signature, authority.certificate)


@pytest.mark.parametrize("signature", [b"", b"!!!", b"AAAA"])
def test_a_roster_without_a_signature_is_refused(authority: Authority, signature: bytes) -> None:
    with pytest.raises(RosterTampered, match=r"roster\.sig"):
        Roster.verified(ROSTER.to_bytes(), signature, authority.certificate)


def test_the_signature_of_another_authority_is_refused(authority: Authority, tmp_path: Path) -> None:
    other = authority_of(tmp_path / "other")
    with pytest.raises(RosterTampered):
        Roster.verified(ROSTER.to_bytes(), ROSTER.sign(other.key), authority.certificate)


def test_a_roster_of_another_federation_is_refused_though_signed(authority: Authority) -> None:
    elsewhere = of(authority, federation="elsewhere")
    with pytest.raises(RosterTampered, match="federation 'elsewhere'"):
        Roster.verified(elsewhere.to_bytes(), elsewhere.sign(authority.key), authority.certificate)


def test_a_roster_that_names_another_authority_is_refused_though_signed(authority: Authority) -> None:
    with pytest.raises(RosterTampered, match=r"names the authority 0c0c.*, but ca\.pem is"):
        Roster.verified(ROSTER.to_bytes(), ROSTER.sign(authority.key), authority.certificate)


@pytest.mark.parametrize(
    "encoded",
    [
        b"",
        b"[]",
        b"null",
        b"{}",
        b"\xff",
        json.dumps(json.loads(ROSTER.to_bytes())).encode(),
        ROSTER.to_bytes() + b"\n",
        ROSTER.to_bytes().replace(b'"format":2', b'"format":3'),
        ROSTER.to_bytes().replace(b'"format":2', b'"format":1'),
        ROSTER.to_bytes().replace(b'"format":2', b'"format":2,"more":1'),
        ROSTER.to_bytes().replace(b'"version":3', b'"version":0'),
        ROSTER.to_bytes().replace(b'"version":3', b'"version":true'),
        ROSTER.to_bytes().replace(b'"version":3', b'"version":"3"'),
        ROSTER.to_bytes().replace(b'"version":3', b'"version":4294967296'),
        ROSTER.to_bytes().replace(b"04:05Z", b"04:05"),
        ROSTER.to_bytes().replace(b"2030-01-02T03:04:05Z", b"2030-1-2T03:04:05Z"),
        ROSTER.to_bytes().replace(b'"2030-01-02T03:04:05Z"', b"7"),
        ROSTER.to_bytes().replace(b"05" * 32, b"05" * 31),
        ROSTER.to_bytes().replace(b"0a" * 32, b"0A" * 32),
        ROSTER.to_bytes().replace(b'"' + b"0a" * 32 + b'"', b"7"),
        ROSTER.to_bytes().replace(b'"north"', b"7"),
        ROSTER.to_bytes().replace(b'"south"', b'"north"'),
    ],
)
def test_only_the_canonical_form_of_a_valid_roster_is_read(encoded: bytes) -> None:
    with pytest.raises(RosterTampered):
        Roster.from_bytes(encoded)


def test_the_first_party_marked_is_the_key_holder() -> None:
    marked = (SOUTH, NORTH, Party(ClientId("west"), key_holder=True))
    assert replace(ROSTER, parties=marked).key_holder is NORTH


def test_a_party_that_is_not_on_the_roster_is_named_with_the_cure() -> None:
    assert ROSTER.party("south") is SOUTH
    with pytest.raises(NotOnRoster, match=r"'west' is not on the roster .*`fenchel provision` again"):
        ROSTER.party("west")


@pytest.mark.parametrize(
    ("parties", "complaint"),
    [
        ((), "1 to 1024 parties"),
        ((SOUTH,), "no party is the key holder"),
        ((NORTH, NORTH), "'north' has the same name as party 'north'"),
        ((NORTH, Party(ClientId("North"))), "'North' has the same name as party 'north'"),
        ((NORTH, Party(ClientId("Server"))), "'Server' has the same name as the server"),
    ],
)
def test_an_inconsistent_roster_is_refused(parties: tuple[Party, ...], complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        replace(ROSTER, parties=parties)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "../x", "a b", "-x", "x-", "é", "a\n", "a\x00", "CN=x", "a,b", "x" * 64, "ca", "CA"]
)
def test_a_name_that_is_unsafe_as_a_folder_or_common_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="party"):
        replace(ROSTER, parties=(Party(ClientId(name), key_holder=True),))


@pytest.mark.parametrize("name", ["n", "7", "Hospital_North-2", "x" * 63])
def test_an_ordinary_name_is_accepted(name: str) -> None:
    party = Party(ClientId(name), key_holder=True)
    assert replace(ROSTER, parties=(party,)).names == (name,)
