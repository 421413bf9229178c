"""`fenchel relay` and `fenchel ping` as processes: how far away a server seems through the relay."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fenchel_common.runconfig import RunConfig
from fenchel_deploy.folders import kit_folder
from fenchel_deploy.local import LocalFederation
from support.tables import named_shards, small_dataset

pytestmark = pytest.mark.alone

FENCHEL = str(Path(sys.executable).parent / "fenchel")
CONFIG = RunConfig.from_mapping(
    {"name": "test", "settings": {"loss": "hinge", "lambda": 0.1, "local": "paper"}, "key": {"bits": 2048}}
)


def fenchel(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([FENCHEL, *arguments], capture_output=True, text=True, check=False, timeout=60)


@contextmanager
def relayed_to(port: int, *arguments: str) -> Iterator[int]:
    """A relay process to a port of this machine; gives the port that it listens on, and sees it end well."""
    command = [FENCHEL, "relay", "--listen", "localhost:0", "--to", f"localhost:{port}", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = re.match(r"relaying port (\d+) to", process.stdout.readline())
        assert found is not None
        try:
            yield int(found[1])
        finally:
            process.send_signal(signal.SIGTERM)
            code = process.wait(10)
    assert code == 0


def test_a_ping_through_the_relay_takes_twice_its_delay(tmp_path: Path) -> None:
    federation = LocalFederation(tmp_path, named_shards(small_dataset(), grid=(1, 2)), CONFIG)
    federation.start_server()
    try:
        kit = str(kit_folder(tmp_path, "p1"))
        near = fenchel("ping", "--kit", kit, "--server", f"localhost:{federation.port}")
        with relayed_to(federation.port, "--delay-ms", "60") as port:
            far = fenchel("ping", "--kit", kit, "--server", f"localhost:{port}", "--count", "3", "--format", "json")
    finally:
        federation.__exit__(None, None, None)
    assert re.match(r"\d+\.\d ms a round trip \(median of 5\)", near.stdout), near.stderr
    measured = json.loads(far.stdout)
    assert len(measured["round_trips_s"]) == 3
    assert measured["median_s"] == pytest.approx(0.12, rel=0.1)


def test_a_server_that_does_not_answer_is_exit_code_1(tmp_path: Path) -> None:
    LocalFederation(tmp_path, named_shards(small_dataset(), grid=(1, 2)), CONFIG)
    kit = str(kit_folder(tmp_path, "p1"))
    result = fenchel("ping", "--kit", kit, "--server", "localhost:9", "--timeout", "0.5")
    assert result.returncode == 1
    assert result.stderr.startswith("the server at localhost:9 cannot be reached: nobody listens there (waited 0.5 s")


@pytest.mark.parametrize(
    "arguments", [["--listen", "nowhere", "--to", "a:1"], ["--listen", "localhost:0", "--to", "a:1", "--mbit", "0"]]
)
def test_a_relay_that_cannot_be_is_exit_code_2(arguments: list[str]) -> None:
    result = fenchel("relay", *arguments)
    assert result.returncode == 2
    assert "error:" in result.stderr
    assert "Traceback" not in result.stderr
