"""`fenchel provision` and `fenchel cert` as a person runs them."""

import json
import shutil
from pathlib import Path

import pytest

from fenchel_common.errors import CertificateReplaced, InvalidInput, NotOnRoster
from fenchel_common.identity import Kit
from fenchel_deploy.federation_file import EXAMPLE
from support.identity_cli import findings, invoke


def test_provision_prints_the_outcome_and_advises_on_stderr(federation_toml: Path, tmp_path: Path) -> None:
    result = invoke("provision", federation_toml, "--out", tmp_path / "kits")
    assert result.exit_code == 0
    assert "party   north   made" in result.stdout
    assert "model       stays with the parties" in result.stdout
    assert "fenchel cert approve west.csr --party west" in result.stderr
    assert "off the server" in result.stderr


def test_provision_prints_json_and_nothing_else_on_stdout(federation_toml: Path, tmp_path: Path) -> None:
    outcome = json.loads(invoke("provision", federation_toml, "--out", tmp_path / "k", "--format", "json").stdout)
    assert {kit["name"]: kit["state"] for kit in outcome["kits"]} == {
        "server": "made",
        "north": "made",
        "south": "made",
        "west": "waiting",
    }
    assert outcome["roster_fingerprint"] == Kit.load(tmp_path / "k" / "north").roster.fingerprint()


def test_a_roster_that_releases_the_model_says_so_to_the_operator_and_to_every_party(
    federation_toml: Path, tmp_path: Path
) -> None:
    federation_toml.write_text("release_model_to_server = true\n" + federation_toml.read_text())
    assert "model       goes to the server too" in invoke("provision", federation_toml, "--out", tmp_path / "k").stdout
    outcome = json.loads(invoke("provision", federation_toml, "--out", tmp_path / "k", "--format", "json").stdout)
    assert outcome["release_model_to_server"] is True
    status, detail = findings(invoke("preflight", tmp_path / "k" / "server", "--format", "json"))["roster"]
    assert status != "fail"
    assert "each run's model goes to the server too" in detail


def test_a_wrong_federation_file_writes_nothing(federation_toml: Path, tmp_path: Path) -> None:
    federation_toml.write_text(EXAMPLE.replace("labels", "label"))
    result = invoke("provision", federation_toml, "--out", tmp_path / "kits")
    assert isinstance(result.exception, InvalidInput)
    assert "party[2].label; did you mean 'labels'?" in str(result.exception)
    assert not (tmp_path / "kits").exists()


def test_a_party_enrols_with_its_own_key(federation_toml: Path, tmp_path: Path) -> None:
    out, mine = tmp_path / "kits", tmp_path / "mine"
    invoke("provision", federation_toml, "--out", out)
    asked = json.loads(invoke("cert", "request", "west", "--out", mine, "--format", "json").stdout)
    approved = invoke("cert", "approve", asked["request"], "--party", "west", "--out", out)
    assert approved.exit_code == 0
    assert asked["key_fingerprint"] in approved.stdout
    shutil.copytree(out / "west", mine, dirs_exist_ok=True)
    shown = json.loads(invoke("cert", "show", mine, "--format", "json").stdout)
    assert (shown["name"], shown["role"], shown["federation"]) == ("west", "party", "hospitals")
    assert 364 < shown["days_left"] <= 365


def test_a_party_that_is_not_on_the_roster_is_not_approved(federation_toml: Path, tmp_path: Path) -> None:
    invoke("provision", federation_toml, "--out", tmp_path / "kits")
    invoke("cert", "request", "east", "--out", tmp_path / "mine")
    request = tmp_path / "mine" / "request.csr"
    result = invoke("cert", "approve", request, "--party", "east", "--out", tmp_path / "kits")
    assert isinstance(result.exception, NotOnRoster)


def test_show_refuses_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert isinstance(invoke("cert", "show", tmp_path / "cert.pem").exception, InvalidInput)


def test_replacing_a_key_is_one_command_that_says_what_to_hand_out(federation_toml: Path, tmp_path: Path) -> None:
    out = tmp_path / "kits"
    invoke("provision", federation_toml, "--out", out)
    old = Kit.load(out / "south")
    result = invoke("provision", federation_toml, "--out", out, "--replace", "south")
    assert result.exit_code == 0
    assert "version     2 (made now), valid until" in result.stdout
    assert "hand out roster version 2 to the server and every party" in result.stderr
    with pytest.raises(CertificateReplaced):
        Kit.load(out / "server").roster.check_key(old.certificate)
    again = invoke("provision", federation_toml, "--out", out)
    assert "version     2 (kept), valid until" in again.stdout
    assert "hand out" not in again.stderr
