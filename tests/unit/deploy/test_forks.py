"""Processes of a command that are forks of one process which has imported it."""

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fenchel_common.errors import FederationFailed
from fenchel_deploy.cli.exits import ExitCode
from fenchel_deploy.forks import CAN_FORK, Fork, ForkServer

pytestmark = pytest.mark.skipif(not CAN_FORK, reason="processes are forked on Linux alone")
RELAY = ["relay", "--listen", "localhost:0", "--to", "localhost:1"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    made = ForkServer("relay", [], log=tmp_path_factory.mktemp("logs") / "server.log")
    yield made
    made.close()


def started(server: ForkServer, words: list[str], folder: Path) -> Fork:
    with (folder / "stderr.log").open("ab") as stderr:
        return server.start(words, stderr=stderr)


def test_a_fork_has_the_exit_code_and_the_errors_of_its_own_command_line(server: ForkServer, tmp_path: Path) -> None:
    """Two at once, with different words."""
    refused = started(server, ["relay", "--listen", "nowhere", "--to", "localhost:1"], tmp_path)
    helped = started(server, ["relay", "--help"], tmp_path)
    assert (refused.wait(), helped.wait()) == (ExitCode.REFUSED, ExitCode.DONE)
    assert "nowhere" in (tmp_path / "stderr.log").read_text()
    for ended in (refused, helped):
        ended.stdin.close()


def test_a_fork_is_waited_for_and_killed_like_a_child(server: ForkServer, tmp_path: Path) -> None:
    relay = started(server, RELAY, tmp_path)
    with relay.stdin:
        assert relay.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            relay.wait(timeout=0.01)
        relay.kill()
        assert relay.wait() == relay.poll() == -signal.SIGKILL
        relay.kill()  # It has ended: its number may be another process's by now.


def test_who_asks_is_told_that_the_server_has_ended(tmp_path: Path) -> None:
    broken = ForkServer("relay", [], log=tmp_path / "server.log")
    broken._process.kill()
    broken._process.wait()
    with pytest.raises(FederationFailed):
        started(broken, RELAY, tmp_path)
    broken.close()
