"""A federation over a long distance: the relay's latency as parties feel it, and what it makes of a round."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.alone

FENCHEL = str(Path(sys.executable).parent / "fenchel")
US_SINGAPORE_S = 0.2575


def test_round_trips_take_what_the_profile_says_and_rounds_what_they_add_up_to(image: str) -> None:
    arguments = ["--grid", "1x2", "--wan", "us-singapore", "--rounds", "5", "--gap", "1e-9", "--format", "json"]
    result = subprocess.run(
        [FENCHEL, "up", "--image", image, *arguments], capture_output=True, text=True, check=False, timeout=200
    )
    assert result.returncode == 1, result.stderr
    report = json.loads(result.stdout)
    wan = report["wan"]
    assert wan["rtt_s"] == US_SINGAPORE_S
    assert wan["measured_rtt_s"] == pytest.approx(US_SINGAPORE_S, rel=0.1)
    assert report["rtc_per_round"] == 3
    assert wan["predicted_round_s"] == pytest.approx(3 * US_SINGAPORE_S + wan["work_s"])
    assert wan["round_s"] == pytest.approx(wan["predicted_round_s"], rel=0.15)
    assert report["round_seconds"]["wire"] == pytest.approx(3 * US_SINGAPORE_S, rel=0.15)
