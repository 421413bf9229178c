"""`fenchel preflight` as a person runs it, against a real TLS server."""

import json
import shutil
import socket
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import numpy as np
import pytest

from fenchel_client.concessions import explained
from fenchel_common.data.shard import Shard
from fenchel_common.identity import Kit, Role
from fenchel_deploy.check import Status
from fenchel_deploy.preflight import run_checks
from fenchel_deploy.provision import provision as bring_in_line
from support.identity_cli import findings, invoke
from support.kits import authority_of, federation_of, make_federation
from support.tablefiles import CLINIC, DECLARED, write_table

LOOPBACK = "127.0.0.1"


def serve(server: Kit, trusted: bytes) -> tuple[grpc.Server, int]:
    """A gRPC server that offers nothing but its TLS: what preflight talks to."""
    credentials = grpc.ssl_server_credentials(
        [(server.key_pem, server.certificate_pem)], root_certificates=trusted, require_client_auth=True
    )
    listener = grpc.server(ThreadPoolExecutor(1))
    port = listener.add_secure_port(f"{LOOPBACK}:0", credentials)
    listener.start()
    return listener, port


@pytest.fixture
def kits(tmp_path: Path) -> Iterator[dict[str, Path]]:
    """A federation whose server is up, at the address that its kits name."""
    out = tmp_path / "kits"
    server = Kit.load(make_federation(out, address=f"{LOOPBACK}:0")["server"])
    listener, port = serve(server, server.authority_pem)
    try:
        yield make_federation(out, address=f"{LOOPBACK}:{port}")
    finally:
        listener.stop(grace=None).wait()


def save_shard(path: Path, *, labels: bool = True) -> Path:
    rows = np.eye(3)
    Shard(ids=("a", "b", "c"), features=("f", "g", "h"), X=rows, y=np.ones(3) if labels else None).save(path)
    return path


def test_preflight_passes_where_everything_is_in_order(kits: dict[str, Path], tmp_path: Path) -> None:
    shard = save_shard(tmp_path / "shard.npz")
    result = invoke("preflight", kits["north"], "--data", shard, "--format", "json")
    assert result.exit_code == 0, result.output
    found = findings(result)
    assert list(found) == [
        "kit",
        "clock",
        "certificate",
        "roster",
        "key",
        "consent",
        "address",
        "connection",
        "tls",
        "data",
    ]
    assert json.loads(result.stdout)["ready"] is True
    assert "server 'server' and this party know each other" in found["tls"][1]
    assert explained() in found["consent"][1]
    assert found["certificate"][0] == "warn"
    assert "expires in 29 days" in found["certificate"][1]


def test_preflight_speaks_in_lines_with_cures(kits: dict[str, Path]) -> None:
    (kits["north"] / "key.pem").chmod(0o644)
    result = invoke("preflight", kits["north"])
    assert result.exit_code == 1
    assert result.stdout.startswith("fail  kit: ")
    assert "chmod 600" in result.stdout
    assert "cure: " in result.stdout
    assert "not ready" in result.stderr


def test_preflight_of_the_server_s_kit_does_not_connect(kits: dict[str, Path]) -> None:
    result = invoke("preflight", kits["server"], "--format", "json")
    assert result.exit_code == 0
    assert list(findings(result)) == ["kit", "clock", "certificate", "roster", "key"]


def test_preflight_names_missing_files(kits: dict[str, Path]) -> None:
    (kits["north"] / "roster.sig").unlink()
    result = invoke("preflight", kits["north"], "--format", "json")
    assert result.exit_code == 1
    assert findings(result) == {"kit": ("fail", f"{kits['north']} lacks roster.sig")}


def test_preflight_finds_an_altered_roster(kits: dict[str, Path]) -> None:
    path = kits["north"] / "roster.json"
    path.write_bytes(path.read_bytes().replace(b"south", b"mouth"))
    assert findings(invoke("preflight", kits["north"], "--format", "json"))["roster"][0] == "fail"


def test_preflight_finds_a_key_of_another_certificate(kits: dict[str, Path]) -> None:
    shutil.copy(kits["south"] / "key.pem", kits["north"] / "key.pem")
    assert findings(invoke("preflight", kits["north"], "--format", "json"))["key"][0] == "fail"


@pytest.mark.parametrize(
    ("shift_days", "check", "complaint"),
    [(-100, "certificate", "expired on"), (5, "clock", "but ca.pem is valid from")],
)
def test_preflight_tells_expiry_from_a_clock_that_is_behind(
    tmp_path: Path, shift_days: int, check: str, complaint: str
) -> None:
    kit = make_federation(tmp_path, now=datetime.now(UTC) + timedelta(days=shift_days))["north"]
    status, detail = findings(invoke("preflight", kit, "--format", "json"))[check]
    assert status == "fail"
    assert complaint in detail


def test_preflight_finds_that_no_server_listens(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind((LOOPBACK, 0))
        kit = make_federation(tmp_path, address=f"{LOOPBACK}:{free.getsockname()[1]}")["north"]
        result = invoke("preflight", kit, "--format", "json")
    assert result.exit_code == 1
    assert findings(result)["connection"][0] == "fail"


def test_preflight_finds_a_name_that_does_not_resolve(tmp_path: Path) -> None:
    kit = make_federation(tmp_path, address="no-such-host.invalid:9092")["north"]
    status, detail = findings(invoke("preflight", kit, "--format", "json"))["address"]
    assert (status, "does not resolve" in detail) == ("fail", True)


def tls_finding(kit: Path) -> tuple[str, str]:
    return findings(invoke("preflight", kit, "--timeout", "20", "--format", "json"))["tls"]


def test_preflight_finds_a_server_of_another_federation(kits: dict[str, Path], tmp_path: Path) -> None:
    address = str(Kit.load(kits["north"]).server_address)
    stranger = make_federation(tmp_path / "strangers", address=address)["north"]
    status, detail = tls_finding(stranger)
    assert status == "fail"
    assert "server's certificate" in detail


def test_preflight_finds_that_the_server_does_not_trust_the_party(tmp_path: Path) -> None:
    out = tmp_path / "kits"
    server = Kit.load(make_federation(out, address=f"{LOOPBACK}:0")["server"])
    stranger = Kit.load(make_federation(tmp_path / "strangers")["server"])
    listener, port = serve(server, stranger.authority_pem)
    try:
        status, detail = tls_finding(make_federation(out, address=f"{LOOPBACK}:{port}")["north"])
    finally:
        listener.stop(grace=None).wait()
    assert status == "fail"
    assert "refused this party's certificate" in detail


def test_preflight_finds_a_server_whose_certificate_was_replaced(kits: dict[str, Path]) -> None:
    address = Kit.load(kits["north"]).server_address
    bring_in_line(federation_of(address=str(address)), kits["north"].parent, replace=["server"])
    result = invoke("preflight", kits["north"], "--timeout", "20", "--format", "json")
    assert findings(result)["tls"][0] == "fail"
    assert "Hostname mismatch" in findings(result)["tls"][1]
    assert "the server has another key than this kit's roster names" in result.stdout


def test_preflight_shows_the_roster_s_version_expiry_authority_and_keys(tmp_path: Path, federation_toml: Path) -> None:
    out = tmp_path / "kits"
    printed = json.loads(invoke("provision", federation_toml, "--out", out, "--format", "json").stdout)
    result = invoke("preflight", out / "server", "--format", "json")
    assert result.exit_code == 0
    (check,) = [check for check in json.loads(result.stdout)["checks"] if check["name"] == "roster"]
    kit = Kit.load(out / "server")
    assert check["facts"] == {
        "version": "1",
        "fingerprint": kit.roster.fingerprint(),
        "not_after": printed["roster_not_after"],
        "authority": printed["authority_fingerprint"],
        **{
            f"key of {made['name']}": made["key_fingerprint"] or "none yet: it cannot connect"
            for made in printed["kits"]
        },
    }
    assert check["status"] == "warn"
    assert "no run can start, because there is no key of west yet" in check["detail"]
    lines = invoke("preflight", out / "server").stdout
    assert f"      key of server: {kit.certificate.key_fingerprint()}\n" in lines
    assert "      key of west: none yet: it cannot connect\n" in lines


def test_preflight_warns_of_a_roster_s_end_and_refuses_an_expired_one(tmp_path: Path) -> None:
    kits = make_federation(tmp_path, validity_days=40, now=datetime.now(UTC) - timedelta(days=15))
    status, detail = findings(invoke("preflight", kits["server"], "--format", "json"))["roster"]
    assert (status, "it expires in 24 days" in detail) == ("warn", True)
    kit = Kit.load(kits["server"])
    longer = authority_of(tmp_path / "ca").issue(
        kit.certificate.public_key(),
        role=Role.SERVER,
        name="server",
        validity=timedelta(days=90),
        skew=timedelta(days=1),
    )
    (kits["server"] / "cert.pem").write_bytes(longer.pem())
    later = {check.name: check for check in run_checks(kits["server"], now=kit.roster.not_after + timedelta(hours=1))}
    assert later["roster"].status is Status.FAIL
    assert "roster version 1 expired on" in later["roster"].detail


@pytest.mark.parametrize("posing", ["north", "server"])
def test_preflight_finds_a_listener_that_is_not_the_fenchel_server(tmp_path: Path, posing: str) -> None:
    """A party's certificate cannot pass for the server's, and a TLS server that is no gRPC server is noticed."""
    out = tmp_path / "kits"
    kits = make_federation(out, address=f"{LOOPBACK}:0")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(kits[posing] / "cert.pem", kits[posing] / "key.pem")

    def answer_with_noise() -> None:
        connection, _ = listener.accept()
        try:
            with connection, context.wrap_socket(connection, server_side=True) as tls:
                tls.recv(1024)
                tls.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        except OSError:
            pass  # the client turned away, as it should from a party

    with socket.create_server((LOOPBACK, 0)) as listener:
        kit = make_federation(out, address=f"{LOOPBACK}:{listener.getsockname()[1]}")["south"]
        thread = threading.Thread(target=answer_with_noise)
        thread.start()
        status, detail = tls_finding(kit)
        thread.join()
    assert status == "fail"
    assert ("not gRPC" if posing == "server" else "server's certificate") in detail


def test_preflight_checks_the_data_even_where_the_kit_is_bad(tmp_path: Path) -> None:
    result = invoke("preflight", tmp_path, "--data", save_shard(tmp_path / "shard.npz"), "--format", "json")
    assert {name: status for name, (status, _) in findings(result).items()} == {"kit": "fail", "data": "ok"}


def test_preflight_finds_a_shard_that_does_not_load(kits: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "shard.npz").write_bytes(b"nonsense")
    result = invoke("preflight", kits["north"], "--data", tmp_path / "shard.npz", "--format", "json")
    assert result.exit_code == 1
    assert findings(result)["data"][0] == "fail"


def test_preflight_takes_a_table_and_checks_its_labels_against_the_run(kits: dict[str, Path], tmp_path: Path) -> None:
    table, run = write_table(tmp_path, CLINIC), tmp_path / "run.toml"
    run.write_text('name = "first"\n')
    result = invoke("preflight", kits["north"], "--data", table, "--run", run, "--format", "json")
    assert result.exit_code == 0, result.output
    assert findings(result)["data"] == ("ok", f"{table}: 4 samples, 3 features, with labels")
    assert findings(result)["run"][0] == "ok"
    assert "column 'patient' has the ids" in result.stdout
    np.savez(tmp_path / "zero.npz", ids=[1, 2], features=["a"], X=[[1.0], [2.0]], y=[0, 1])
    result = invoke("preflight", kits["north"], "--data", tmp_path / "zero.npz", "--run", run, "--format", "json")
    assert result.exit_code == 1
    assert "takes the labels -1 and +1 only" in findings(result)["run"][1]


def test_preflight_checks_missing_cells_and_sparse_tables_against_the_run(
    kits: dict[str, Path], tmp_path: Path
) -> None:
    table, run = write_table(tmp_path, "id,age,label\n1,30,yes\n2,,no\n3,50,yes\n4,41,no\n"), tmp_path / "run.toml"
    cases = [
        ("", "column 'age': 1 cells are missing, and the run fills none in"),
        ('[features]\nmissing = "refuse"\n', "column 'age': 1 cells are missing, and the run fills none in"),
        ("[features]\n", ""),
    ]
    for section, complaint in cases:
        run.write_text(f'name = "first"\n{section}')
        result = invoke("preflight", kits["north"], "--data", table, "--run", run, "--format", "json")
        assert result.exit_code == (1 if complaint else 0), result.output
        assert complaint in findings(result)["run"][1]
    (tmp_path / "table.libsvm").write_text("+1 1:1 # a\n-1 2:1 # b\n")
    result = invoke("preflight", kits["north"], "--data", tmp_path / "table.libsvm", "--run", run, "--format", "json")
    assert "the table is sparse, and the run shifts features" in findings(result)["run"][1]


@pytest.mark.parametrize(
    ("table", "run", "complaint"),
    [
        ("id,chol,label\n1,9999999999,yes\n2,3,no\n", "[features]", "column 'chol': a value is 4.3e+09 or more"),
        ("id,(intercept),label\n1,2,yes\n2,3,no\n", "[features]\nintercept = true", "adds a feature of this name"),
        (f"id,{'x' * 300},label\n1,,yes\n2,3,no\n", "[features]\nindicators = true", "more than 256 characters"),
        ("id,age,label\n1,2,yes\n2,3,no\n", "[settings]\nsample_weights = true", "this table has none; name their col"),
        ("id,age,label\n1,2,yes\n2,3,no\n", "[settings]\nloss = 'squared'", ""),
        ("id,age,label\n1,2,a\n2,3,b\n3,4,c\n", "[settings]\nclasses = ['a', 'b', 'd']", "1 of 3 labels are none of"),
    ],
)
def test_preflight_finds_whatever_a_client_would_find_before_the_run(
    kits: dict[str, Path], tmp_path: Path, table: str, run: str, complaint: str
) -> None:
    data, terms = write_table(tmp_path, table), tmp_path / "run.toml"
    terms.write_text(f'name = "first"\n{run}\n')
    result = invoke("preflight", kits["north"], "--data", data, "--run", terms, "--format", "json")
    assert result.exit_code == (1 if complaint else 0), result.output
    assert complaint in findings(result)["run"][1]
    assert "9999999999" not in result.stdout


def test_preflight_says_to_what_the_operator_of_a_party_must_agree(kits: dict[str, Path], tmp_path: Path) -> None:
    data, terms = write_table(tmp_path, "id,age,label\n1,2,yes\n2,3,no\n"), tmp_path / "run.toml"
    terms.write_text('name = "first"\nalignment = "hmac"\nacknowledge_extremes = true\n[features]\nscale = "minmax"\n')
    result = invoke("preflight", kits["north"], "--data", data, "--run", terms)
    assert result.exit_code == 0, result.output
    assert "start the client with --accept hmac --accept extremes" in " ".join(result.stdout.split())
    assert "values of single samples" in " ".join(result.stdout.split())


def test_preflight_checks_numbers_to_predict_against_the_run(kits: dict[str, Path], tmp_path: Path) -> None:
    data, run = tmp_path / "numbers.npz", tmp_path / "run.toml"
    run.write_text('name = "first"\n[settings]\nloss = "huber"\n')
    for largest, code in ((2.5, 0), (2500.0, 1)):
        np.savez(data, ids=[1, 2], features=["a"], X=[[1.0], [2.0]], y=[0.0, largest])
        result = invoke("preflight", kits["north"], "--data", data, "--run", run, "--format", "json")
        assert result.exit_code == code, result.output
    assert "must not exceed 500 in magnitude; let the run have target_scale" in findings(result)["run"][1]
    assert "2500" not in findings(result)["run"][1]


def test_preflight_tells_of_a_bad_table_by_row_and_column(kits: dict[str, Path], tmp_path: Path) -> None:
    table = write_table(tmp_path, CLINIC.replace("41.5", "forty"), toml=DECLARED)
    result = invoke("preflight", kits["north"], "--data", table, "--format", "json")
    assert result.exit_code == 1
    assert "row 2, column 'age': the cell is not a number" in findings(result)["data"][1]
    assert "forty" not in result.stdout


def test_preflight_finds_a_shard_whose_labels_contradict_the_roster(kits: dict[str, Path], tmp_path: Path) -> None:
    shard = save_shard(tmp_path / "shard.npz", labels=False)
    result = invoke("preflight", kits["north"], "--data", shard, "--format", "json")
    assert findings(result)["data"][0] == "fail"
    assert "without labels, but the roster says that 'north' has labels" in findings(result)["data"][1]
