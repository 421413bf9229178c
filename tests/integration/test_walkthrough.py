"""The walk-through of CONTRIBUTING.md: its code, put into a copy of the source, trains encrypted to the optimum."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.guide import Section, carry_out, section

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "CONTRIBUTING.md"
PACKAGES = ("common", "server", "client", "deploy")


def section_of_guide(heading: str) -> Section:
    _, _, after = GUIDE.read_text().partition(f"\n## {heading}\n")
    return section(after.partition("\n## ")[0])


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the source after both sections of the walk-through."""
    copy = tmp_path_factory.mktemp("source")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "tests" / "unit" / "losses", copy / "tests" / "unit" / "losses")
    shutil.copy(ROOT / "pyproject.toml", copy)
    for heading in ("Add a loss", "Add an algorithm"):
        carry_out(section_of_guide(heading).edits, copy)
    return copy


def run(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join(str(tree / package) for package in PACKAGES)
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )


def trained(tree: Path, command: str) -> dict[str, Any]:
    """The report of a `fenchel demo` that the guide asks for, run from the copy."""
    program, *words = shlex.split(command)
    assert program == ".venv/bin/fenchel"
    result = run(tree, "-m", "fenchel_deploy", *words, "--format", "json")
    assert result.returncode == 0, result.stderr
    report: dict[str, Any] = json.loads(result.stdout)
    assert report["privacy"] == "sealed"
    assert report["key_bits"] == 2048
    return report


@pytest.mark.parametrize("words", [["check"], ["format", "--check"]], ids=lambda words: words[0])
def test_the_code_of_the_guide_is_as_the_linter_wants_it(tree: Path, words: list[str]) -> None:
    result = run(tree, "-m", "ruff", *words, "--no-cache", *PACKAGES)
    assert result.returncode == 0, result.stdout


def test_the_new_loss_passes_the_suite_of_losses_and_trains_to_the_certified_optimum(tree: Path) -> None:
    suite, demo = section_of_guide("Add a loss").commands
    program, *words = shlex.split(suite)
    assert program == ".venv/bin/pytest"
    result = run(tree, "-m", "pytest", "-p", "no:cacheprovider", *words)
    assert result.returncode == 0, result.stdout
    report = trained(tree, demo)
    assert report["dual"] <= report["centralized_primal"] <= report["primal"]
    assert report["primal"] - report["centralized_primal"] <= report["gap"] <= 1e-3 * report["centralized_primal"]


def test_the_new_algorithm_trains_to_the_centralized_optimum(tree: Path) -> None:
    (demo,) = section_of_guide("Add an algorithm").commands
    report = trained(tree, demo)
    assert report["algorithm"] == "fedgd"
    assert report["server_saw"]["each party's gradient"] == "ciphertext"
    assert 0.0 <= report["relative_error"] <= 1e-3
