"""`fenchel bench scale` by real processes."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

FENCHEL = str(Path(sys.executable).parent / "fenchel")


def bench(*arguments: str) -> tuple[int, dict[str, Any], str]:
    command = [FENCHEL, "bench", "scale", *arguments, "--format", "json"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)
    return result.returncode, json.loads(result.stdout) if result.stdout else {}, result.stderr


def test_each_size_has_its_costs_by_phase_and_growth_is_fitted() -> None:
    code, report, said = bench("--parties", "2", "--samples", "60,240", "--ciphers", "masks", "--rounds", "1")
    assert code == 0, said
    small, large = report["results"]
    assert [(row["samples"], row["grid"], row["cipher"]) for row in (small, large)] == [
        (60, "2x1", "masks"),
        (240, "2x1", "masks"),
    ]
    for row in (small, large):
        assert {"introduce", "key_make", "align_0", "layout"} <= set(row["setup_phases_s"])
        assert row["setup_s"] == sum(row["setup_phases_s"].values()) > 0.0
        assert {"local_dual", "primal"} <= set(row["round_phases_s"])
        assert row["round_s"] > 0.0
        assert row["server_peak_mib"] == row["server_idle_mib"] + row["server_beyond_idle_mib"]
        peaks = (*row["server_setup_peaks_mib"].values(), *row["server_round_peaks_mib"].values())
        assert row["server_peak_mib"] == max(peaks)
        assert row["all_pss_mib"] >= row["server_pss_mib"] + row["party_pss_mib"] > 20.0
    assert large["round_bytes"] > small["round_bytes"]
    growth = report["exponents"]["masks"]["round_bytes"]
    assert growth["samples"] > 0.0
    assert growth["parties"] is None


def test_a_number_that_is_not_whole_is_refused() -> None:
    code, _, said = bench("--samples", "1e4,half")
    assert code != 0
    assert "'half' is not a whole number above 0" in said


def test_a_data_set_brings_its_own_size() -> None:
    code, report, said = bench("--parties", "2", "--dataset", "breast_cancer", "--rounds", "1")
    assert code == 0, said
    (row,) = report["results"]
    assert (row["samples"], row["features"]) == (569, 30)
