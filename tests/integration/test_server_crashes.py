"""kill -9 of a server process at every point of its rounds and of its storage: it resumes to the same result."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize(("mode", "least_points"), [("rounds", 50), ("storage", 35)])
def test_a_server_killed_at_any_point_resumes_to_the_result_of_an_undisturbed_run(
    tmp_path: Path, mode: str, least_points: int
) -> None:
    outcome = subprocess.run(
        [sys.executable, "-m", "support.crashrun", mode, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": str(TESTS)},
        stdout=subprocess.PIPE,
        check=True,
    )
    *resumed, undisturbed = json.loads(outcome.stdout)
    assert len(resumed) >= least_points
    assert undisturbed["status"] == "completed"
    assert undisturbed["files"] == ["run-1.3.snap"]
    for point, result in enumerate(resumed):
        assert result == undisturbed, f"killed at point {point}"
