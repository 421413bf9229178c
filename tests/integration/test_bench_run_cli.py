"""`fenchel bench run` as a person or a script runs it: real processes, each cipher in turn."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

FENCHEL = str(Path(sys.executable).parent / "fenchel")
SMALL = ("--dataset", "breast_cancer", "--rows", "120", "--lambda", "0.1", "--rounds", "2", "--gap", "1e-9")
KINDS = {"total", "encrypt", "decrypt", "serialise", "parties", "wire", "wait", "compute", "clients", "store", "other"}


def rows(*arguments: str) -> list[dict[str, Any]]:
    command = [FENCHEL, "bench", "run", *SMALL, *arguments, "--format", "json"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert result.returncode == 0, result.stderr
    assert "1 of 1, plain: 2 rounds" in result.stderr
    found: list[dict[str, Any]] = json.loads(result.stdout)
    return found


def check(row: dict[str, Any]) -> None:
    seconds, cpu = row["seconds"], row["cpu_seconds"]
    assert set(seconds) == KINDS
    assert all(0.0 <= part <= seconds["total"] for part in seconds.values())
    assert sum(part for kind, part in seconds.items() if kind != "total") <= 1.02 * seconds["total"]
    assert set(cpu) == {"parties", "server"}
    assert cpu["parties"] > 0.0
    assert row["bytes"]["up"] > 0
    assert row["bytes"]["down"] > 0
    assert set(row["peak_memory_mib"]) == {"server", "hospital-1", "hospital-2"}
    assert all(peak > 10.0 for peak in row["peak_memory_mib"].values())
    assert row["setup_seconds"] > 0.0


def test_every_cipher_has_the_same_run_and_its_costs() -> None:
    found = rows("--grid", "1x2", "--ciphers", "plain,masks,paillier")
    for row in found:
        check(row)
    assert [row["cipher"] for row in found] == ["plain", "masks", "paillier"]
    plain, masks, paillier = found
    assert plain["ratio_to_plain"] == {"seconds": 1.0, "cpu": 1.0, "bytes": 1.0}
    for same in ("rounds", "gap", "model"):
        assert plain[same] == masks[same] == paillier[same]
    assert plain["rounds"] == 2
    assert plain["gap"] > 0.0
    ratio = paillier["ratio_to_plain"]
    assert ratio["bytes"] == sum(paillier["bytes"].values()) / sum(plain["bytes"].values())
    assert ratio["bytes"] > 1.0
    assert plain["seconds"]["decrypt"] == 0.0 < paillier["seconds"]["decrypt"]


def test_another_installation_is_measured_over_the_same_network() -> None:
    other = f"other={sys.executable}"
    own, its = rows("--grid", "2x1", "--ciphers", "plain", "--bandwidth", "1000", "--against", other)
    for row in (own, its):
        check(row)
    assert [row["commit"] for row in (own, its)] == ["this", "other"]
    assert own["model"] == its["model"]
    assert its["ratio_to_against"]["same_cipher"] == {"seconds": 1.0, "cpu": 1.0, "bytes": 1.0}
    assert own["ratio_to_against"]["plain"]["bytes"] > 0.9
