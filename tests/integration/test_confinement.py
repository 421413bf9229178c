"""What processes of a federation keep from others on their machine."""

import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fenchel_common.runconfig import RunConfig
from fenchel_deploy.local import LocalFederation
from support.tables import named_shards, small_dataset

pytestmark = pytest.mark.skipif(not Path("/proc/self/limits").exists(), reason="limits are read from /proc")
PR_GET_DUMPABLE = 3


@pytest.fixture
def core_dumps_allowed() -> Iterator[None]:
    """As on a machine that keeps them: processes start with the largest limit that this one may give them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    if hard == 0:
        pytest.skip("this machine allows no core dumps, so no process can show that it forbids them")
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))


def core_limits(process: int) -> tuple[str, str]:
    lines = Path(f"/proc/{process}/limits").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith("Max core file size")]
    soft, hard = line.split()[4:6]
    return soft, hard


def test_neither_the_server_nor_a_client_can_leave_a_core_dump(tmp_path: Path, core_dumps_allowed: None) -> None:
    shards = named_shards(small_dataset(), grid=(2, 1))
    steps, stop = {"local": "paper"}, {"gap": 1e-9, "rounds": 1000}
    config = RunConfig.from_mapping({"name": "test", "settings": steps, "key": {"bits": 2048}, "stop": stop})
    with LocalFederation(tmp_path, shards, config) as federation:
        assert federation.server is not None
        next(event for event in federation.events() if event["event"] == "round")
        limits = {name: core_limits(client.pid) for name, client in federation.clients.items()}
        limits["server"] = core_limits(federation.server.pid)
    assert limits == dict.fromkeys((*shards, "server"), ("0", "0"))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has it")
def test_other_processes_of_the_user_cannot_read_its_memory() -> None:
    script = (
        "import ctypes\n"
        "from fenchel_deploy.confinement import keep_memory_private\n"
        "keep_memory_private()\n"
        f"print(ctypes.CDLL(None).prctl({PR_GET_DUMPABLE}, 0, 0, 0, 0))"
    )
    printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert printed == "0\n"
