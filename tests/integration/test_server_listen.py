"""Where the server listens: as its kit says, or as the command line does, and it says where."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from fenchel_deploy.provision import provision
from support.kits import federation_of


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def said_at_start(directory: Path, *options: str, address: str, listen: str | None) -> str:
    """The first line of a server without runs, which ends at once."""
    described = federation_of(address=address)
    entry = described.server.model_copy(update={"listen": listen})
    provision(described.model_copy(update={"server": entry}), directory / "kits")
    command = [sys.executable, "-m", "fenchel_deploy", "server", "--kit", str(directory / "kits" / "server")]
    ended = subprocess.run(
        [*command, "--state", str(directory / "state"), "--farewell", "0", *options],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return ended.stdout.splitlines()[0].partition(" INFO ")[2]


def test_without_a_word_the_server_listens_on_all_interfaces_on_the_port_that_parties_dial(tmp_path: Path) -> None:
    port = free_port()
    line = said_at_start(tmp_path, address=f"localhost:{port}", listen=None)
    assert line == f"listening on all interfaces, port {port}, for north, south"


@pytest.mark.parametrize("insecure", [(), ("--insecure",)], ids=["with TLS", "insecure"])
def test_the_kit_says_where_the_server_listens(tmp_path: Path, insecure: tuple[str, ...]) -> None:
    port = free_port()
    line = said_at_start(tmp_path, *insecure, address="fenchel.example.org:9092", listen=f"127.0.0.1:{port}")
    assert line == f"listening on 127.0.0.1 only, port {port}, for north, south"


def test_the_command_line_goes_before_the_kit(tmp_path: Path) -> None:
    port = free_port()
    options = ("--listen", f"localhost:{port}")
    line = said_at_start(tmp_path, *options, address="fenchel.example.org:9092", listen="192.0.2.1:9092")
    assert line == f"listening on localhost only, port {port}, for north, south"
