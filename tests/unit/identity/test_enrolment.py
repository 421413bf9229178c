"""Parties that make their own key: request, approval, and what is refused."""

import shutil
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from fenchel_common.errors import CertificateReplaced, InvalidInput, KitIncomplete, NotOnRoster
from fenchel_common.identity import Kit
from fenchel_deploy.authority import make_key
from fenchel_deploy.enrolment import approve, request
from fenchel_deploy.federation_file import Federation, PartyEntry, ServerEntry
from fenchel_deploy.provision import KitState, provision

FEDERATION = Federation(
    name="test",
    server=ServerEntry(address="localhost:9092"),
    party=[PartyEntry(name="north", key_holder=True), PartyEntry(name="west", own_key=True)],
)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    provision(FEDERATION, tmp_path / "kits")
    return tmp_path / "kits"


def test_an_approved_request_completes_the_party_s_kit_without_its_key_travelling(out: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    asked = request("west", mine)
    approval = approve(asked.path, party="west", out=out)
    assert approval.certificate.key_fingerprint() == asked.key_fingerprint
    assert not (approval.directory / "key.pem").exists()
    with pytest.raises(KitIncomplete, match=r"key\.pem is missing; put the key that `fenchel cert request` made"):
        Kit.load(approval.directory)
    shutil.copytree(approval.directory, mine, dirs_exist_ok=True)
    assert Kit.load(mine).client_id == "west"
    assert Kit.load(mine).roster == Kit.load(out / "north").roster


def test_the_requested_key_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    request("west", tmp_path)
    assert (tmp_path / "key.pem").stat().st_mode & 0o777 == 0o600


def test_asking_again_uses_the_same_key(tmp_path: Path) -> None:
    first, second = request("west", tmp_path), request("west", tmp_path)
    assert first.key_fingerprint == second.key_fingerprint
    assert (first.key_made, second.key_made) == (True, False)


def test_provisioning_again_keeps_an_approved_kit_and_gives_it_the_new_roster(out: Path, tmp_path: Path) -> None:
    approval = approve(request("west", tmp_path / "mine").path, party="west", out=out)
    grown = FEDERATION.model_copy(update={"party": [*FEDERATION.party, PartyEntry(name="east")]})
    outcome = provision(grown, out)
    assert {kit.name: kit.state for kit in outcome.kits}["west"] is KitState.KEPT
    shutil.copytree(out / "west", tmp_path / "mine", dirs_exist_ok=True)
    kit = Kit.load(tmp_path / "mine")
    assert kit.certificate == approval.certificate
    assert kit.roster.names == ("north", "west", "east")


def test_a_request_for_a_party_that_is_not_on_the_roster_is_refused(out: Path, tmp_path: Path) -> None:
    with pytest.raises(NotOnRoster, match="'east'"):
        approve(request("east", tmp_path).path, party="east", out=out)


def test_a_request_for_the_server_s_name_is_refused(out: Path, tmp_path: Path) -> None:
    with pytest.raises(NotOnRoster, match="'server'"):
        approve(request("server", tmp_path).path, party="server", out=out)


def test_a_request_that_names_another_party_than_its_sender_is_refused(out: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="asks for 'north', not for 'west'"):
        approve(request("north", tmp_path).path, party="west", out=out)


def test_a_second_key_for_a_party_needs_the_operator_s_word(out: Path, tmp_path: Path) -> None:
    approve(request("west", tmp_path / "first").path, party="west", out=out)
    second = request("west", tmp_path / "second")
    with pytest.raises(InvalidInput, match=r"already has a certificate for another key .*--replace"):
        approve(second.path, party="west", out=out)
    replaced = approve(second.path, party="west", out=out, replace=True)
    assert replaced.certificate.key_fingerprint() == second.key_fingerprint


def test_an_approval_puts_the_key_on_everyone_s_roster_in_the_place_of_the_earlier_one(
    out: Path, tmp_path: Path
) -> None:
    assert Kit.load(out / "server").roster.keyless == ("west",)
    first = approve(request("west", tmp_path / "first").path, party="west", out=out)
    second = approve(request("west", tmp_path / "second").path, party="west", out=out, replace=True)
    assert (first.roster.version, second.roster.version) == (2, 3)
    assert {Kit.load(out / name).roster for name in ("server", "north")} == {second.roster}
    first.roster.check_key(first.certificate)
    second.roster.check_key(second.certificate)
    with pytest.raises(CertificateReplaced, match="'west' was replaced"):
        second.roster.check_key(first.certificate)


def test_a_party_s_own_key_is_revoked_until_its_next_request_is_approved(out: Path, tmp_path: Path) -> None:
    approval = approve(request("west", tmp_path / "mine").path, party="west", out=out)
    outcome = provision(FEDERATION, out, replace=["west"])
    assert {kit.name: kit.state for kit in outcome.kits}["west"] is KitState.WAITING
    with pytest.raises(CertificateReplaced, match="names no key for 'west'"):
        Kit.load(out / "server").roster.check_key(approval.certificate)
    again = approve(request("west", tmp_path / "new").path, party="west", out=out)
    Kit.load(out / "server").roster.check_key(again.certificate)


def test_provisioning_renews_a_party_s_certificate_for_its_own_key(out: Path, tmp_path: Path) -> None:
    approval = approve(request("west", tmp_path / "mine").path, party="west", out=out)
    provision(FEDERATION, out, renew_within_days=3650)
    shutil.copytree(out / "west", tmp_path / "mine", dirs_exist_ok=True)
    kit = Kit.load(tmp_path / "mine")
    assert kit.certificate.fingerprint() != approval.certificate.fingerprint()
    assert kit.certificate.key_fingerprint() == approval.certificate.key_fingerprint()


def test_a_renewal_for_the_same_key_needs_no_word(out: Path, tmp_path: Path) -> None:
    asked = request("west", tmp_path / "mine")
    first, second = (approve(asked.path, party="west", out=out) for _ in range(2))
    assert first.certificate.fingerprint() != second.certificate.fingerprint()
    assert first.roster == second.roster


def test_a_party_whose_key_the_operator_made_cannot_be_approved_over_it(out: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="own_key = true"):
        approve(request("north", tmp_path / "mine").path, party="north", out=out, replace=True)
    Kit.load(out / "north")


def signed_request(name: str, *, rsa_key: bool = False) -> bytes:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048) if rsa_key else make_key()
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    built = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    return built.public_bytes(serialization.Encoding.DER)


def as_pem(der: bytes) -> bytes:
    return x509.load_der_x509_csr(der).public_bytes(serialization.Encoding.PEM)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "not a PEM certificate request"),
        (b"nonsense", "not a PEM certificate request"),
        (as_pem(signed_request("west").replace(b"west", b"wesd")), "its own signature is not valid"),
        (as_pem(signed_request("west", rsa_key=True)), "not P-256"),
    ],
)
def test_a_spoiled_request_is_refused(out: Path, tmp_path: Path, content: bytes, complaint: str) -> None:
    path = tmp_path / "request.csr"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=complaint):
        approve(path, party="west", out=out)


def test_a_missing_request_is_refused(out: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be read"):
        approve(tmp_path / "request.csr", party="west", out=out)


def test_approving_before_provisioning_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="run `fenchel provision` first"):
        approve(request("west", tmp_path / "mine").path, party="west", out=tmp_path / "kits")


def test_an_unsafe_name_is_refused_before_a_key_is_made(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="not usable as a name"):
        request("../west", tmp_path)
    assert not list(tmp_path.iterdir())
