"""Installing Fenchel from pinned files, and the bill of what is installed."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """What an installation of the dependencies alone needs of the source tree."""
    (tmp_path / "deploy").mkdir()
    for name in ("pyproject.toml", "constraints.txt", "deploy/install.py"):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def install(tree: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(tree / "deploy" / "install.py"), str(tree / "venv"), "--dependencies-only"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_dependency_of_a_dependency_with_another_hash_is_refused(tree: Path) -> None:
    constraints = tree / "constraints.txt"
    pinned = constraints.read_text()
    (entry,) = re.findall(r"^pluggy==.*\n(?:    --hash=.*\n)+", pinned, re.MULTILINE)
    constraints.write_text(pinned.replace(entry, re.sub(r"sha256:[0-9a-f]{64}", f"sha256:{'0' * 64}", entry)))
    result = install(tree)
    assert result.returncode != 0
    assert "pluggy" in result.stderr
    assert "hash" in result.stderr.lower()


def test_a_package_that_is_not_in_the_file_is_refused(tree: Path) -> None:
    constraints = tree / "constraints.txt"
    pinned = constraints.read_text()
    constraints.write_text(re.sub(r"^pluggy==.*\n(?:    --hash=.*\n)+", "", pinned, flags=re.MULTILINE))
    result = install(tree)
    assert result.returncode != 0
    assert "pluggy" in result.stderr
    assert "--require-hashes" in result.stderr


def test_the_bill_of_materials_lists_what_an_installation_runs_and_no_tools(tmp_path: Path) -> None:
    bill = tmp_path / "fenchel.cdx.json"
    made = subprocess.run(["make", "sbom", f"SBOM={bill}"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    listed = json.loads(bill.read_text())
    assert (listed["bomFormat"], listed["metadata"]["component"]["name"]) == ("CycloneDX", "fenchel")
    versions = {component["name"].lower().replace("_", "-"): component["version"] for component in listed["components"]}
    pinned = dict(re.findall(r"^([a-z0-9-]+)==([^ ]+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    assert {"grpcio", "phe", "gmpy2", "cryptography", "numpy", "docker"} <= versions.keys()
    assert versions.items() <= pinned.items()
    assert not {"pip", "hatchling", "pytest", "mypy", "cyclonedx-bom"} & versions.keys()
