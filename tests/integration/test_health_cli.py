"""`fenchel health` against a real server, with the kits of a party and of the server."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fenchel_common.errors import WrongRole
from fenchel_common.identity import Kit
from fenchel_deploy.cli.exits import ExitCode
from support.connections import RawClient, Server
from support.kits import make_federation


@pytest.fixture
def kits(tmp_path: Path) -> dict[str, Path]:
    return make_federation(tmp_path / "kits")


@pytest.fixture
def server(kits: dict[str, Path]) -> Iterator[Server]:
    with Server(Kit.load(kits["server"])) as started:
        yield started


def health(kit: Path, address: object, *options: str) -> subprocess.CompletedProcess[str]:
    words = ["health", "--kit", str(kit), "--server", str(address), *options]
    return subprocess.run(
        [sys.executable, "-m", "fenchel_deploy", *words], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("holder", ["north", "server"])
def test_health_is_0_while_a_round_can_run_and_1_while_none_can(
    kits: dict[str, Path], server: Server, holder: str
) -> None:
    server.transport.set_serving(True)
    well = health(kits[holder], server.address)
    assert (well.returncode, well.stdout) == (0, "serving\n")
    server.transport.set_serving(False)
    waiting = health(kits[holder], server.address)
    assert (waiting.returncode, waiting.stdout) == (1, "alive, but no round can run now\n")
    assert health(kits[holder], server.address, "--live").returncode == 0


def test_health_is_1_where_nobody_answers_and_for_a_stranger(
    kits: dict[str, Path], server: Server, tmp_path: Path
) -> None:
    stranger = make_federation(tmp_path / "other", federation="other")["north"]
    refused = health(stranger, server.address, "--live")
    assert refused.returncode == ExitCode.IDENTITY
    assert "is not from this kit's authority" in refused.stderr
    assert "SSL" not in refused.stderr
    server.stop()
    assert health(kits["north"], server.address, "--live").returncode == 1


def test_the_server_cannot_attend_as_a_party_with_its_own_certificate(kits: dict[str, Path], server: Server) -> None:
    with RawClient(Kit.load(kits["server"]), server.address) as client:
        client.hello()
        _, error = client.refusal()
    assert isinstance(error, WrongRole)
    assert server.transport.present() == frozenset()
