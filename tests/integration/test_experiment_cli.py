"""`fenchel experiment`: a quick form, killed and continued, with its rows, page and figures."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

from fenchel_deploy.papers.journal import read_rows
from support.commands import run_fenchel

NAME = "hyfdca-table6"


def test_an_experiment_that_was_killed_keeps_its_rows_and_goes_on_to_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FENCHEL_DATA", raising=False)
    words = ("experiment", "run", NAME, "--quick", "--out", str(tmp_path))
    rows, page = tmp_path / NAME / "rows.csv", tmp_path / NAME / "page.md"
    command = [sys.executable, "-m", "fenchel_deploy", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        told = [next(line for line in process.stderr if line.startswith(f"{number} of 9:")) for number in (1, 2, 3)]
        process.kill()
    assert "hyfdca" in told[0]
    before = rows.read_bytes()
    assert before.count(b"\n") == 1 + 2 * 3
    assert not page.exists()

    report = json.loads(run_fenchel(*words, "--format", "json").stdout)
    assert (report["measured"], report["kept"]) == (7, 2)
    whole = rows.read_bytes()
    assert whole.startswith(before)
    again = run_fenchel(*words)
    assert "9 of 9 measurements are in" in again.stderr
    assert rows.read_bytes() == whole

    with rows.open(newline="") as file:
        found = list(csv.DictReader(file))
    units = {row["unit"] for row in found}
    assert len(units) == 9
    assert all(float(row["iteration_s"]) > 0.0 for row in found)
    (slow,) = (row for row in found if row["how"] == "processes")
    assert float(slow["iteration_s"]) >= 3 * float(slow["latency_s"]), "three round trips over a delayed network"
    assert all(set(claim["rows"]) <= units for claim in report["claims"])
    assert {claim["verdict"] for claim in report["claims"]} >= {"holds", "cannot be tested here"}
    shown = run_fenchel("experiment", "show", NAME, "--out", str(tmp_path)).stdout
    assert "digits, 1200 samples that train and 200 that never do" in shown
    assert all((page.parent / f"figure4.{suffix}").stat().st_size > 1000 for suffix in ("png", "svg"))


def test_a_killed_and_continued_experiment_has_the_rows_of_one_that_was_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for measured seconds, which no two runs have in common."""
    monkeypatch.delenv("FENCHEL_DATA", raising=False)
    words = ("experiment", "run", "hyfdca-figure8", "--quick", "--out")
    command = [sys.executable, "-m", "fenchel_deploy", *words, str(tmp_path / "killed")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        next(line for line in process.stderr if line.startswith("2 of 3:"))
        process.kill()
    for folder in ("killed", "alone"):
        assert run_fenchel(*words, str(tmp_path / folder)).exit_code == 0
    killed, alone = (
        [
            {name: cell for name, cell in row.items() if not name.startswith(("seconds", "round_s", "took"))}
            for row in read_rows((tmp_path / folder / "hyfdca-figure8" / "rows.csv").read_text())
        ]
        for folder in ("killed", "alone")
    )
    assert killed == alone
    assert len(alone) > 100


def test_the_list_names_every_experiment_with_its_tables() -> None:
    listed = json.loads(run_fenchel("experiment", "list", "--format", "json").stdout)
    assert {"name": NAME, "paper": "hyfdca", "shows": ["Table 6", "Figure 4"]}.items() <= next(
        one for one in listed if one["name"] == NAME
    ).items()
