"""Provisioning: the first run, later runs, and runs that find something wrong."""

import errno
import math
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from fenchel_common.errors import (
    CertificateReplaced,
    FenchelError,
    InvalidInput,
    KeyFileError,
    KeyMismatch,
    WrongAuthority,
)
from fenchel_common.identity import Kit
from fenchel_deploy.authority import write_atomic
from fenchel_deploy.federation_file import Federation, PartyEntry, ServerEntry
from fenchel_deploy.provision import KitState, Provisioned, provision
from support.kits import federation_of, make_federation


def files(directory: Path, *names: str) -> dict[Path, bytes]:
    return {path: path.read_bytes() for name in names for path in sorted(directory.rglob(name))}


def states(outcome: Provisioned) -> dict[str, KitState]:
    return {kit.name: kit.state for kit in outcome.kits}


def test_the_first_run_makes_the_authority_and_a_kit_for_everyone(tmp_path: Path) -> None:
    outcome = provision(federation_of(("north", "south")), tmp_path)
    assert outcome.authority_made
    assert states(outcome) == {"server": KitState.MADE, "north": KitState.MADE, "south": KitState.MADE}
    loaded = [Kit.load(kit.directory) for kit in outcome.kits]
    assert {kit.roster.fingerprint() for kit in loaded} == {outcome.roster.fingerprint()}
    assert {kit.authority.fingerprint() for kit in loaded} == {outcome.authority_fingerprint}


def test_whether_the_server_gets_the_model_is_part_of_the_signed_roster(tmp_path: Path) -> None:
    kept = provision(federation_of(), tmp_path)
    released = provision(federation_of(release_model_to_server=True), tmp_path)
    assert (kept.roster.release_model_to_server, released.roster.release_model_to_server) == (False, True)
    assert kept.roster.fingerprint() != released.roster.fingerprint()
    assert all(Kit.load(kit.directory).roster.release_model_to_server for kit in released.kits)


def test_private_keys_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    make_federation(tmp_path)
    keys = list(tmp_path.rglob("key.pem"))
    assert len(keys) == 4
    assert all(key.stat().st_mode & 0o777 == 0o600 for key in keys)


def test_no_kit_holds_the_key_of_the_authority(tmp_path: Path) -> None:
    kits = make_federation(tmp_path)
    secret = (tmp_path / "ca" / "key.pem").read_bytes()
    assert all(secret != path.read_bytes() for kit in kits.values() for path in kit.iterdir())


def test_a_second_run_changes_no_key_no_certificate_and_no_authority(tmp_path: Path) -> None:
    federation = federation_of(("north", "south"))
    first = provision(federation, tmp_path)
    before = files(tmp_path, "key.pem", "cert.pem", "ca.pem")
    second = provision(federation, tmp_path)
    assert files(tmp_path, "key.pem", "cert.pem", "ca.pem") == before
    assert not second.authority_made
    assert second.authority_fingerprint == first.authority_fingerprint
    assert set(states(second).values()) == {KitState.KEPT}


def test_a_party_added_later_is_on_everyone_s_roster_and_changes_nobody_s_certificate(tmp_path: Path) -> None:
    provision(federation_of(("north", "south")), tmp_path)
    before = files(tmp_path, "key.pem", "cert.pem")
    outcome = provision(federation_of(("north", "south", "west")), tmp_path)
    assert states(outcome)["west"] is KitState.MADE
    assert before.items() <= files(tmp_path, "key.pem", "cert.pem").items()
    for kit in outcome.kits:
        assert Kit.load(kit.directory).roster.names == ("north", "south", "west")


def test_a_party_taken_out_is_reported_and_off_the_roster(tmp_path: Path) -> None:
    provision(federation_of(("north", "south")), tmp_path)
    outcome = provision(federation_of(("north",)), tmp_path)
    assert outcome.removed == ("south",)
    assert Kit.load(tmp_path / "server").roster.names == ("north",)


def test_an_expired_certificate_is_renewed_with_a_new_key_that_the_next_roster_names(tmp_path: Path) -> None:
    long_ago = datetime.now(UTC) - timedelta(days=100)
    make_federation(tmp_path, now=long_ago)
    old = Kit.load(tmp_path / "north", now=long_ago)
    outcome = provision(federation_of(), tmp_path)
    assert set(states(outcome).values()) == {KitState.RENEWED}
    new = Kit.load(tmp_path / "north")
    assert new.certificate.days_left() > 29
    assert (old.roster.version, new.roster.version) == (1, 2)
    with pytest.raises(CertificateReplaced, match="'north' was replaced: roster version 2"):
        new.roster.check_key(old.certificate)


def test_the_same_federation_keeps_its_roster_to_the_byte(tmp_path: Path) -> None:
    first = provision(federation_of(), tmp_path)
    rosters = files(tmp_path, "roster.json")
    again = provision(federation_of(address="localhost:9093"), tmp_path)
    assert (first.roster_made, again.roster_made) == (True, False)
    assert files(tmp_path, "roster.json") == rosters
    assert again.roster.version == 1


@pytest.mark.parametrize(
    ("changed", "replace"),
    [
        (federation_of(("north", "south", "west")), ()),
        (federation_of(("north",)), ()),
        (federation_of(release_model_to_server=True), ()),
        (federation_of(), ("south",)),
        (federation_of(), ("server",)),
    ],
    ids=["a party more", "a party less", "other terms", "a party's key", "the server's key"],
)
def test_every_change_raises_the_roster_s_version_in_every_kit(
    tmp_path: Path, changed: Federation, replace: tuple[str, ...]
) -> None:
    provision(federation_of(), tmp_path)
    outcome = provision(changed, tmp_path, replace=replace)
    assert (outcome.roster.version, outcome.roster_made) == (2, True)
    assert {Kit.load(kit.directory).roster for kit in outcome.kits} == {outcome.roster}
    assert provision(changed, tmp_path).roster == outcome.roster


def test_a_roster_that_expires_gets_a_new_one_ahead_of_time_on_request_only(tmp_path: Path) -> None:
    almost = datetime.now(UTC) - timedelta(days=25)
    provision(federation_of(), tmp_path, now=almost)
    assert provision(federation_of(), tmp_path).roster.days_left() < 6
    renewed = provision(federation_of(), tmp_path, renew_within_days=6).roster
    assert (renewed.version, renewed.days_left() > 29) == (2, True)


def test_a_replaced_key_is_new_and_all_others_are_kept(tmp_path: Path) -> None:
    make_federation(tmp_path)
    before = files(tmp_path, "key.pem", "cert.pem")
    outcome = provision(federation_of(), tmp_path, replace=["south"])
    after = files(tmp_path, "key.pem", "cert.pem")
    assert {path for path in before if before[path] != after[path]} == {
        tmp_path / "south" / "key.pem",
        tmp_path / "south" / "cert.pem",
    }
    assert states(outcome) == {"server": KitState.KEPT, "north": KitState.KEPT, "south": KitState.RENEWED}


def test_nothing_is_replaced_under_a_name_that_nobody_has(tmp_path: Path) -> None:
    make_federation(tmp_path)
    with pytest.raises(InvalidInput, match=r"'west' is neither a party of federation\.toml nor its server"):
        provision(federation_of(), tmp_path, replace=["west"])


def test_certificates_are_renewed_ahead_of_time_on_request_only(tmp_path: Path) -> None:
    make_federation(tmp_path, validity_days=10)
    assert set(states(provision(federation_of(), tmp_path)).values()) == {KitState.KEPT}
    assert set(states(provision(federation_of(), tmp_path, renew_within_days=11)).values()) == {KitState.RENEWED}


def test_a_new_server_address_renews_the_server_s_certificate_and_reaches_every_kit(tmp_path: Path) -> None:
    make_federation(tmp_path, address="localhost:9092")
    outcome = provision(federation_of(address="fenchel.example.org:443"), tmp_path)
    assert states(outcome) == {"server": KitState.RENEWED, "north": KitState.KEPT, "south": KitState.KEPT}
    assert str(Kit.load(tmp_path / "north").server_address) == "fenchel.example.org:443"


def test_the_server_certificate_is_valid_for_every_way_to_name_this_machine(tmp_path: Path) -> None:
    certificate = Kit.load(make_federation(tmp_path)["server"]).certificate.parsed
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName)[:-1] == ["localhost"]
    assert {str(address) for address in names.get_values_for_type(x509.IPAddress)} == {"127.0.0.1", "::1"}


class Disk:
    """Counts writes, and fails like a full disk once so many of them have been made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.writes = 0
        self.room: float = math.inf
        monkeypatch.setattr("fenchel_deploy.authority.write_atomic", self.write)
        monkeypatch.setattr("fenchel_deploy.provision.write_atomic", self.write)
        monkeypatch.setattr("fenchel_deploy.rosters.write_atomic", self.write)

    def write(self, path: Path, content: bytes, *, mode: int = 0o644) -> None:
        if self.room == 0:
            raise OSError("no space left")
        self.room -= 1
        self.writes += 1
        write_atomic(path, content, mode=mode)


@pytest.mark.parametrize(
    ("earlier", "replace"),
    [((), ()), (("north",), ()), (("north", "south"), ("south",))],
    ids=["the first run", "a run that adds a party", "a run that replaces a key"],
)
def test_a_run_interrupted_at_any_write_is_completed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, earlier: tuple[str, ...], replace: tuple[str, ...]
) -> None:
    federation = federation_of(("north", "south"))
    disk = Disk(monkeypatch)

    def begin(out: Path) -> int:
        disk.room = math.inf
        if earlier:
            make_federation(out, earlier)
        return disk.writes

    before = begin(tmp_path / "whole")
    provision(federation, tmp_path / "whole", replace=replace)
    for stop in range(disk.writes - before):
        out = tmp_path / str(stop)
        begin(out)
        disk.room = stop
        with pytest.raises(OSError, match="no space left"):
            provision(federation, out, replace=replace)
        kept = files(out, "key.pem", "ca.pem")
        disk.room = math.inf
        provision(federation, out)
        assert kept.items() <= files(out, "key.pem", "ca.pem").items()
        assert Kit.load(out / "north").roster == Kit.load(out / "server").roster
        assert Kit.load(out / "north").roster.names == ("north", "south")
        assert Kit.load(out / "south").client_id == "south"


def test_a_failed_write_leaves_the_old_file_and_no_scrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_atomic(path, b"old")

    def fail(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("fenchel_deploy.authority.os.fsync", fail)
    with pytest.raises(InvalidInput, match="cannot be written: No space left on device"):
        write_atomic(path, b"new")
    assert [(entry.name, entry.read_bytes()) for entry in tmp_path.iterdir()] == [("file", b"old")]


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kits").write_bytes(b"")
    with pytest.raises(InvalidInput, match="cannot be written"):
        provision(federation_of(), tmp_path / "kits")


def remove_the_authority_key(out: Path) -> None:
    (out / "ca" / "key.pem").unlink()


def open_the_authority_key_to_others(out: Path) -> None:
    (out / "ca" / "key.pem").chmod(0o644)


def exchange_the_authority_key(out: Path) -> None:
    (out / "ca" / "key.pem").write_bytes((out / "north" / "key.pem").read_bytes())


def exchange_a_party_s_key(out: Path) -> None:
    (out / "north" / "key.pem").write_bytes((out / "south" / "key.pem").read_bytes())


def move_a_kit_to_another_name(out: Path) -> None:
    (out / "north" / "cert.pem").write_bytes((out / "south" / "cert.pem").read_bytes())


def bring_in_a_foreign_kit(out: Path) -> None:
    other = make_federation(out.parent / "other")
    (out / "north" / "cert.pem").write_bytes((other["north"] / "cert.pem").read_bytes())


def damage_the_saved_settings(out: Path) -> None:
    (out / "ca" / "federation.json").write_bytes(b"{}")


def damage_the_newest_roster(out: Path) -> None:
    (out / "ca" / "roster.json").write_bytes(b"{}")


@pytest.mark.parametrize(
    ("spoil", "error", "complaint"),
    [
        (remove_the_authority_key, InvalidInput, "a second authority is never made"),
        (open_the_authority_key_to_others, KeyFileError, "can be read by others"),
        (exchange_the_authority_key, KeyMismatch, "not the key of ca.pem"),
        (exchange_a_party_s_key, KeyMismatch, "not the key of cert.pem"),
        (move_a_kit_to_another_name, InvalidInput, "is the certificate of 'south'"),
        (bring_in_a_foreign_kit, WrongAuthority, "not issued by the authority"),
        (damage_the_saved_settings, InvalidInput, "is damaged; remove it"),
        (damage_the_newest_roster, InvalidInput, "is damaged; put back the roster.json"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_run_that_finds_something_wrong_stops(
    tmp_path: Path, spoil: object, error: type[FenchelError], complaint: str
) -> None:
    assert callable(spoil)
    out = tmp_path / "kits"
    make_federation(out)
    spoil(out)
    before = (out / "ca" / "ca.pem").read_bytes()
    with pytest.raises(error, match=complaint):
        provision(federation_of(), out)
    assert (out / "ca" / "ca.pem").read_bytes() == before


def test_another_federation_cannot_move_into_the_same_folder(tmp_path: Path) -> None:
    make_federation(tmp_path, federation="hospitals")
    with pytest.raises(InvalidInput, match="authority of federation 'hospitals', not of 'banks'"):
        provision(federation_of(federation="banks"), tmp_path)


def test_an_expired_authority_issues_nothing(tmp_path: Path) -> None:
    make_federation(tmp_path, now=datetime.now(UTC) - timedelta(days=3700))
    with pytest.raises(InvalidInput, match=r"the authority of federation 'test' expired on"):
        provision(federation_of(), tmp_path)


def test_a_party_that_makes_its_own_key_gets_no_kit_before_its_request(tmp_path: Path) -> None:
    parties = [PartyEntry(name="north", key_holder=True), PartyEntry(name="west", own_key=True)]
    outcome = provision(Federation(name="test", server=ServerEntry(address="localhost:9092"), party=parties), tmp_path)
    assert states(outcome)["west"] is KitState.WAITING
    assert not (tmp_path / "west").exists()
    roster = Kit.load(tmp_path / "north").roster
    assert (roster.names, roster.keyless) == (("north", "west"), ("west",))
