"""The roster: its canonical form, its signature, and what it refuses."""

import json
from pathlib import Path

import pytest

from fenchel_common.errors import InvalidInput, NotOnRoster, RosterTampered
from fenchel_common.identity import Party, Roster
from fenchel_common.ids import ClientId
from fenchel_deploy.authority import Authority
from support.kits import authority_of

NORTH = Party(ClientId("north"), key_holder=True)
SOUTH = Party(ClientId("south"), labels=False)
ROSTER = Roster(federation="test", server_name="server", parties=(NORTH, SOUTH))


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return authority_of(tmp_path / "ca")


def test_the_canonical_form_is_fixed() -> None:
    assert ROSTER.to_bytes() == (
        b'{"federation":"test","format":1,"parties":[{"key_holder":true,"labels":true,"name":"north"},'
        b'{"key_holder":false,"labels":false,"name":"south"}],"release_model_to_server":false,"server_name":"server"}'
    )
    assert ROSTER.fingerprint() == "c092afec5b7f435e96e4eea6f17ebf278b361e07ea4455a0e30bdc4481521394"


def test_the_canonical_form_reads_back_as_the_same_roster() -> None:
    assert Roster.from_bytes(ROSTER.to_bytes()) == ROSTER


def test_a_signed_roster_is_accepted(authority: Authority) -> None:
    assert Roster.verified(ROSTER.to_bytes(), ROSTER.sign(authority.key), authority.certificate) == ROSTER


def test_an_altered_roster_is_refused(authority: Authority) -> None:
    signature = ROSTER.sign(authority.key)
    altered = ROSTER.to_bytes().replace(b'"labels":false', b'"labels":true')
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
    elsewhere = Roster(federation="elsewhere", server_name="server", parties=(NORTH,))
    with pytest.raises(RosterTampered, match="federation 'elsewhere'"):
        Roster.verified(elsewhere.to_bytes(), elsewhere.sign(authority.key), authority.certificate)


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
        ROSTER.to_bytes().replace(b'"format":1', b'"format":2'),
        ROSTER.to_bytes().replace(b'"format":1', b'"format":1,"more":1'),
        ROSTER.to_bytes().replace(b'"north"', b"7"),
        ROSTER.to_bytes().replace(b'"south"', b'"north"'),
    ],
)
def test_only_the_canonical_form_of_a_valid_roster_is_read(encoded: bytes) -> None:
    with pytest.raises(RosterTampered):
        Roster.from_bytes(encoded)


def test_the_first_party_marked_is_the_key_holder() -> None:
    marked = (SOUTH, NORTH, Party(ClientId("west"), key_holder=True))
    assert Roster(federation="test", server_name="server", parties=marked).key_holder is NORTH


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
        Roster(federation="test", server_name="server", parties=parties)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "../x", "a b", "-x", "x-", "é", "a\n", "a\x00", "CN=x", "a,b", "x" * 64, "ca", "CA"]
)
def test_a_name_that_is_unsafe_as_a_folder_or_common_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="party"):
        Roster(federation="test", server_name="server", parties=(Party(ClientId(name), key_holder=True),))


@pytest.mark.parametrize("name", ["n", "7", "Hospital_North-2", "x" * 63])
def test_an_ordinary_name_is_accepted(name: str) -> None:
    party = Party(ClientId(name), key_holder=True)
    assert Roster(federation="test", server_name="server", parties=(party,)).names == (name,)
