"""Scores of rows whose columns a clinic and a lab have, over real processes and mutual TLS.

The tables are those of the tutorial, with missing cells and categories; with FENCHEL_DATA the heart disease data.
"""

import csv
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fenchel_client.askedrows import FILE
from fenchel_common.identity import Kit
from fenchel_common.model import find_model
from fenchel_common.model.joining import joined
from fenchel_common.model.rows import TableRules, read_rows
from fenchel_common.model.scoring import prepared, scores

FENCHEL = Path(sys.executable).with_name("fenchel")
NAMES = ("east-clinic", "east-lab", "north-clinic", "north-lab")
ASKER, OTHER = "north-clinic", "north-lab"
ENVIRONMENT = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}


class Trained:
    """Two hospitals, each a clinic and a lab, that have trained a model."""

    def __init__(self, folder: Path) -> None:
        self.root, self.tables = folder / "kept", folder / "tables"
        _done("data", "example", folder / "hospitals")
        self.tables.mkdir()
        for name in NAMES:
            (folder / "hospitals" / name).rename(self.tables / name)
            _done("data", "init", next((self.tables / name).glob("*.csv")))
        words = ("--loss", "logistic", "--lambda", "0.1", "--cipher", "masks", "--gap", "0.01", "--format", "json")
        _done("demo", "--table", self.tables, "--keep", self.root, *words)
        (self.model,) = (path.name.removesuffix(".model") for path in self.state(ASKER).glob("*.model"))
        self.roster = Kit.load(self.root / "kits" / ASKER).roster.fingerprint()

    def state(self, name: str) -> Path:
        return self.root / "clients" / name

    def start(self, name: str, *options: str | Path) -> subprocess.Popen[str]:
        folder = self.root / "clients" / name
        table, kit = self.tables / name, self.root / "kits" / name
        fixed: list[str | Path] = [
            table,
            "--kit",
            kit,
            "--state",
            folder,
            "--model",
            folder,
            "--approve-roster",
            self.roster,
        ]
        return _process("score", *fixed, *options)

    def serve(self, name: str) -> subprocess.Popen[str]:
        config = self.root / f"{name}.toml"
        config.write_text(
            f'name = "{name}"\nalgorithm = "scoring"\ncipher = "masks"\nsamples = "complete"\noverlap = "first"\n'
            f'[round]\ndeadline_s = 20.0\n[settings]\nasker = "{ASKER}"\nmodel = "{self.model}"\n'
        )
        kit, state = self.root / "kits" / "server", self.root / name
        return _process("server", "--kit", kit, "--state", state, "--run", config, "--format", "json")

    def local_scores(self) -> dict[str, float]:
        parts = joined([find_model(self.state(name)) for name in (ASKER, OTHER)])
        tables = [self.tables / name for name in (ASKER, OTHER)]
        rows = read_rows(tables, parts.record, TableRules())
        return dict(zip(rows.ids, scores(parts, prepared(parts, rows.X)).tolist(), strict=True))


def _done(*arguments: str | Path) -> None:
    ended = subprocess.run(
        [FENCHEL, *arguments], capture_output=True, text=True, check=False, timeout=200, env=ENVIRONMENT
    )
    assert ended.returncode == 0, ended.stderr


def _process(*arguments: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [FENCHEL, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=ENVIRONMENT
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trained]:
    return Trained(tmp_path_factory.mktemp("scoring"))  # type: ignore[return-value]


def asking(name: str, out: Path) -> list[str | Path]:
    return ["--ask", out] if name == ASKER else []


def readable(ledger: dict[str, object], role: str) -> int:
    """How many values of one party or of one sample a role could read."""
    roles = ledger["roles"]
    assert isinstance(roles, dict)
    found: int = roles[role]["received"].get("individual", {"values": 0})["values"]
    return found


def test_only_the_asking_party_gets_the_scores_and_a_killed_party_comes_back(trained: Trained, tmp_path: Path) -> None:
    out = tmp_path / "scores.csv"
    server = trained.serve("scores")
    killed = trained.start(OTHER)
    assert killed.stdout is not None
    line = next(line for line in killed.stdout if "attached to the server" in line or "error" in line)
    assert "attached" in line
    killed.kill()
    killed.communicate(timeout=60)
    parties = {name: trained.start(name, *asking(name, out)) for name in NAMES}
    told = {name: process.communicate(timeout=200)[0] for name, process in parties.items()}
    said = server.communicate(timeout=60)[0]
    assert {name: process.returncode for name, process in parties.items()} == dict.fromkeys(NAMES, 0), told
    ended = json.loads([line for line in said.splitlines() if '"event": "ended"' in line][-1])
    expected = trained.local_scores()
    assert (ended["status"], ended["reason"]) == (
        "completed",
        f"{ASKER} has asked for the scores of {len(expected)} rows",
    )
    found = list(csv.DictReader(out.read_text().splitlines()))
    assert out.stat().st_mode & 0o777 == 0o600
    assert {row["id"] for row in found} == set(expected)
    assert max(abs(float(row["score"]) - expected[row["id"]]) for row in found) <= 2 * 2.0**-33
    assert all((row["predicted"] == "yes") == (float(row["score"]) >= 0.0) for row in found)
    audit = subprocess.run(
        [FENCHEL, "audit", ended["run"], "--state", trained.root / "scores", "--format", "json"],
        capture_output=True,
        check=True,
        env=ENVIRONMENT,
    )
    ledger = json.loads(audit.stdout)
    assert {role: readable(ledger, role) > 0 for role in ("server", *NAMES)} == {
        role: role == ASKER for role in ("server", *NAMES)
    }
    assert not list(trained.state(OTHER).glob("*.scores.csv"))
    written = "".join(told.values()) + said + (trained.state(OTHER) / FILE).read_text()
    assert not any(sample in written for sample in expected)


def test_a_party_that_refuses_says_so_and_the_asking_party_gets_a_clear_error(trained: Trained, tmp_path: Path) -> None:
    out = tmp_path / "scores.csv"
    server = trained.serve("refused")
    (trained.state(OTHER) / FILE).unlink(missing_ok=True)
    asked = len(trained.local_scores())
    limits = {OTHER: ["--fewest-rows", str(asked + 1)]}
    parties = {name: trained.start(name, *asking(name, out), *limits.get(name, [])) for name in NAMES}
    told = {name: process.communicate(timeout=200)[0] for name, process in parties.items()}
    said = server.communicate(timeout=60)[0]
    assert parties[ASKER].returncode != 0
    assert "there are no scores: a party refused its part, or was not there" in told[ASKER]
    assert not out.exists()
    assert f"{asked} rows are asked for, and this party gives its part of no fewer than {asked + 1}" in told[OTHER]
    ended = json.loads([line for line in said.splitlines() if '"event": "ended"' in line][-1])
    assert ended["status"] == "stopped"
    assert str(asked) not in ended["reason"]
