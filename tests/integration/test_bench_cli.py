"""`fenchel bench crypto` as a person or a script runs it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.commands import run_fenchel

FENCHEL = str(Path(sys.executable).parent / "fenchel")


def fenchel(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([FENCHEL, *arguments], capture_output=True, text=True, check=False)


def test_json_has_the_documented_keys_and_nothing_else_is_on_stdout() -> None:
    result = fenchel("bench", "crypto", "--bits", "2048", "--values", "62", "--rounds", "1", "--format", "json")
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert (report["bits"], report["slots"], report["values"]) == (2048, 30, 62)
    ours = {"encrypt_us", "encrypt_online_us", "decrypt_us", "add_us", "bytes_per_value"}
    assert set(report["ours"]) == ours
    assert set(report["phe"]) == ours - {"encrypt_online_us"}
    assert set(report["ratio"]) == {"encrypt", "encrypt_online", "decrypt", "add", "bytes"}
    assert set(report["limit"]) == {"mulmod_us", "half_powm_us"}
    assert ours < set(report["subgroup"])
    assert set(report["masks"]) == ours | {"ratio", "values"}
    assert all(value > 0 for side in ("ours", "phe", "ratio", "limit") for value in report[side].values())
    assert all(value > 1 for value in report["masks"]["ratio"].values())
    assert set(report["additions"]) == {"cores", "one_core_us", "all_cores_us", "ratio"}
    assert 8 <= report["masks"]["bytes_per_value"] < report["ours"]["bytes_per_value"]


def test_every_use_of_a_subgroup_key_states_its_assumption() -> None:
    result = fenchel("bench", "crypto", "--bits", "2048", "--values", "31", "--rounds", "1")
    assert result.returncode == 0, result.stderr
    assert "hidden" in result.stderr
    assert "assumption" in result.stderr
    assert "online, products mod n²" in result.stdout


def test_a_peer_that_is_not_installed_is_left_out_with_a_word() -> None:
    result = fenchel("bench", "crypto", "--bits", "2048", "--values", "31", "--rounds", "1", "--peers", "lightphe")
    assert result.returncode == 0
    assert "lightphe is not installed here" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--bits", "1024"], "--bits"),
        (["--slot-bits", "40"], "--slot-bits"),
        (["--values", "0"], "--values"),
        (["--peers", "rot13"], "--peers"),
    ],
)
def test_bad_input_is_refused_with_exit_code_2_and_the_option_named(arguments: list[str], named: str) -> None:
    result = run_fenchel("bench", "crypto", *arguments)
    assert result.exit_code == 2
    assert named in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_help_and_version_answer() -> None:
    assert "encrypting" in fenchel("bench", "crypto", "--help").stdout
    assert fenchel("--version").stdout.count(".") == 2


def test_rounds_are_counted_as_json_and_repeated_with_encryption_they_agree() -> None:
    arguments = ("--datasets", "breast_cancer,covtype", "--rows", "120", "--lambdas", "1e-1", "--grids", "2x2")
    result = fenchel("bench", "rounds", *arguments, "--columns", "contiguous", "--repeat-encrypted", "--format", "json")
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    keys = {"dataset", "lambda", "grid", "columns", "loss", "method", "h", "rounds_1e2", "rounds_1e3", "monotone"}
    assert all(keys | {"diverged"} <= set(row) for row in report["results"])
    assert report["summary"]["corrective_monotone"]
    (repeated,) = report["encrypted"]
    assert repeated["agrees"]
    assert repeated["seconds"] > 0
    assert "covtype.npz" in report["skipped"][0]
    assert "breast_cancer" in result.stderr
