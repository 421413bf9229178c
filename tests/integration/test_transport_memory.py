"""Long bodies between real processes: they pass, and memory stays flat while they do."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.kits import make_federation

BODY_BYTES = 64 * 1024 * 1024
TESTS = Path(__file__).parent.parent
TIMEOUT_S = 120


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
@pytest.mark.parametrize("direction", ["up", "down"])
def test_three_bodies_of_64_mb_in_a_row_cost_each_side_little_more_than_one(tmp_path: Path, direction: str) -> None:
    """The bound is 1.75 bodies: the body itself, once, and room for chunks and flow control.

    A second copy on either side, or a body kept until the next one has come, would take 2.
    """
    kits = make_federation(tmp_path, ("north", "south"))
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    server_command = [sys.executable, "-m", "support.memory_server", str(kits["server"]), direction, str(BODY_BYTES)]
    with subprocess.Popen(server_command, env=environment, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        with subprocess.Popen([sys.executable, "-m", "support.party", kits["north"], port], env=environment) as client:
            growth = json.loads(server.communicate(timeout=TIMEOUT_S)[0])
            assert client.wait(TIMEOUT_S) == 0
        assert server.returncode == 0

    assert max(growth.values()) > BODY_BYTES, "the measurement sees the body"
    assert growth["server"] < 1.75 * BODY_BYTES
    assert growth["client"] < 1.75 * BODY_BYTES
