"""Loading a kit, and every way in which one is refused."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fenchel_common.errors import (
    CertificateNotValidNow,
    CertificateReplaced,
    FenchelError,
    InvalidInput,
    KeyFileError,
    KeyMismatch,
    KitIncomplete,
    MalformedCertificate,
    NotOnRoster,
    RosterExpired,
    RosterTampered,
    WrongAuthority,
    WrongRole,
)
from fenchel_common.identity import Address, Kit, Role
from fenchel_common.identity.kit import KIT_FILES
from fenchel_deploy.provision import provision
from support.kits import authority_of, federation_of, make_federation

Kits = dict[str, Path]


@pytest.fixture
def kits(tmp_path: Path) -> Kits:
    return make_federation(tmp_path / "kits", ("north", "south"))


def test_a_party_s_kit_tells_who_it_is_and_where_the_server_is(kits: Kits) -> None:
    kit = Kit.load(kits["north"])
    assert (kit.role, kit.client_id, str(kit.server_address)) == (Role.PARTY, "north", "localhost:9092")
    assert kit.roster.names == ("north", "south")
    assert kit.private_key().public_key() == kit.certificate.public_key()


def test_the_server_s_kit_loads_but_is_nobody_s_identity_as_a_party(kits: Kits) -> None:
    kit = Kit.load(kits["server"])
    assert kit.role is Role.SERVER
    with pytest.raises(InvalidInput, match="use the kit of a party"):
        _ = kit.client_id


def test_a_kit_does_not_show_its_key(kits: Kits) -> None:
    assert "PRIVATE" not in repr(Kit.load(kits["north"]))


@pytest.mark.parametrize("name", KIT_FILES)
def test_a_missing_file_is_named(kits: Kits, name: str) -> None:
    (kits["north"] / name).unlink()
    with pytest.raises(KitIncomplete, match=f"{name} is missing"):
        Kit.load(kits["north"])


def test_an_expired_certificate_is_refused(kits: Kits) -> None:
    with pytest.raises(CertificateNotValidNow, match="expired on"):
        Kit.load(kits["north"], now=datetime.now(UTC) + timedelta(days=31))


def test_a_kit_from_the_past_is_refused_by_the_real_clock(tmp_path: Path) -> None:
    long_ago = datetime.now(UTC) - timedelta(days=100)
    with pytest.raises(CertificateNotValidNow, match="expired on"):
        Kit.load(make_federation(tmp_path, now=long_ago)["north"])


def copy_from_another_federation(kits: Kits, *names: str) -> None:
    other = make_federation(kits["north"].parent.parent / "other", ("north", "south"))
    for name in names:
        (kits["north"] / name).write_bytes((other["north"] / name).read_bytes())


def use_the_key_of_south(kits: Kits) -> None:
    (kits["north"] / "key.pem").write_bytes((kits["south"] / "key.pem").read_bytes())


def use_the_certificate_of_south(kits: Kits) -> None:
    (kits["north"] / "cert.pem").write_bytes((kits["south"] / "cert.pem").read_bytes())


def claim_to_be_the_server(kits: Kits) -> None:
    edit(kits, "kit.toml", b'"party"', b'"server"')


def edit(kits: Kits, file_name: str, old: bytes, new: bytes) -> None:
    path = kits["north"] / file_name
    before = path.read_bytes()
    assert old in before
    path.write_bytes(before.replace(old, new))


def take_a_roster_that_does_not_name_north(kits: Kits) -> None:
    make_federation(kits["north"].parent, ("south",))
    for name in ("roster.json", "roster.sig"):
        (kits["north"] / name).write_bytes((kits["south"] / name).read_bytes())


@pytest.mark.parametrize(
    ("spoil", "error", "complaint"),
    [
        (lambda kits: copy_from_another_federation(kits, "cert.pem", "key.pem"), WrongAuthority, "not issued by"),
        (lambda kits: copy_from_another_federation(kits, "ca.pem"), WrongAuthority, "not issued by"),
        (lambda kits: copy_from_another_federation(kits, "roster.json", "roster.sig"), RosterTampered, "signature"),
        (lambda kits: edit(kits, "roster.json", b"south", b"mouth"), RosterTampered, "altered"),
        (lambda kits: edit(kits, "cert.pem", b"BEGIN", b"BEGUN"), MalformedCertificate, r"cert\.pem"),
        (take_a_roster_that_does_not_name_north, NotOnRoster, "'north' is not on the roster"),
        (use_the_key_of_south, KeyMismatch, r"key\.pem is not the key of cert\.pem"),
        (use_the_certificate_of_south, MalformedCertificate, "certificate is of 'south'"),
        (claim_to_be_the_server, WrongRole, "that of a party, not of a server"),
        (lambda kits: (kits["north"] / "key.pem").chmod(0o640), KeyFileError, r"can be read by others; run `chmod 600"),
        (lambda kits: edit(kits, "key.pem", b"PRIVATE", b"PUBLIC"), KeyFileError, "not an unencrypted PEM"),
        (lambda kits: edit(kits, "kit.toml", b"role", b"rule"), KitIncomplete, "unknown key 'rule'"),
        (lambda kits: edit(kits, "kit.toml", b'"party"', b'"king"'), KitIncomplete, "'party' or 'server'"),
        (lambda kits: edit(kits, "kit.toml", b'name = "north"\n', b""), KitIncomplete, "'name' is missing"),
        (lambda kits: edit(kits, "kit.toml", b":9092", b""), KitIncomplete, "server: .*HOST:PORT"),
        (lambda kits: edit(kits, "kit.toml", b"=", b"= ="), KitIncomplete, "not a TOML file"),
        (lambda kits: (kits["north"] / "roster.sig").write_bytes(b"A" * 2_000_000), KitIncomplete, "larger than"),
    ],
)
def test_a_spoiled_kit_is_refused(
    kits: Kits, spoil: Callable[[Kits], object], error: type[FenchelError], complaint: str
) -> None:
    spoil(kits)
    with pytest.raises(error, match=complaint):
        Kit.load(kits["north"])


def test_a_kit_from_before_a_replacement_is_refused_beside_the_new_roster(kits: Kits) -> None:
    old = {name: (kits["north"] / name).read_bytes() for name in ("cert.pem", "key.pem")}
    provision(federation_of(), kits["north"].parent, replace=["north"])
    for name, content in old.items():
        (kits["north"] / name).write_bytes(content)
    with pytest.raises(CertificateReplaced, match="'north' was replaced: roster version 2"):
        Kit.load(kits["north"])


def test_an_expired_roster_is_refused_though_the_certificate_is_valid(kits: Kits) -> None:
    kit = Kit.load(kits["north"])
    longer = authority_of(kits["north"].parent / "ca").issue(
        kit.certificate.public_key(),
        role=Role.PARTY,
        name="north",
        validity=timedelta(days=90),
        skew=timedelta(0),
    )
    (kits["north"] / "cert.pem").write_bytes(longer.pem())
    assert Kit.load(kits["north"], now=kit.roster.not_after).certificate == longer
    with pytest.raises(RosterExpired, match="roster version 1 expired on"):
        Kit.load(kits["north"], now=kit.roster.not_after + timedelta(seconds=1))


def test_only_the_server_s_kit_says_where_to_listen(tmp_path: Path) -> None:
    described = federation_of()
    server = described.server.model_copy(update={"listen": "10.0.0.5:443"})
    provision(described.model_copy(update={"server": server}), tmp_path)
    assert str(Kit.load(tmp_path / "server").settings.listen) == "10.0.0.5:443"
    assert Kit.load(tmp_path / "north").settings.listen is None
    path = tmp_path / "north" / "kit.toml"
    path.write_text(path.read_text() + 'listen = "10.0.0.5:443"\n')
    with pytest.raises(KitIncomplete, match="a party listens nowhere"):
        Kit.load(tmp_path / "north")


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("fenchel.example.org:9092", "fenchel.example.org", 9092),
        ("127.0.0.1:0", "127.0.0.1", 0),
        ("[::1]:65535", "::1", 65535),
        ("fenchel_server:9092", "fenchel_server", 9092),
    ],
)
def test_an_address_reads_and_prints_the_same(text: str, host: str, port: int) -> None:
    address = Address.parse(text)
    assert (address.host, address.port, str(address)) == (host, port, text)


@pytest.mark.parametrize(
    "text",
    ["", "host", "host:", ":9092", "host:port", "host:65536", "::1:9092", "a b:1", "300.1.1.1:1", 'ho"st:1', "é.org:1"],
)
def test_a_malformed_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        Address.parse(text)


@pytest.mark.parametrize(
    ("text", "loopback"),
    [("localhost:1", True), ("127.0.0.2:1", True), ("[::1]:1", True), ("10.0.0.1:1", False), ("example.org:1", False)],
)
def test_loopback_addresses_are_known_without_a_name_service(text: str, loopback: bool) -> None:
    assert Address.parse(text).loopback is loopback
