"""The walk-through of docs/deploy.md with machines that share nothing but the server's port.

Every machine is a compose project with a network of its own; the parties reach the server at the port that it
publishes, as over any other network.
"""

import ipaddress
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from docker.errors import ContainerError

FENCHEL = str(Path(sys.executable).parent / "fenchel")
COMPOSE_FILES = Path(__file__).resolve().parents[2] / "deploy" / "compose"
PARTIES = ("north", "south")
ATTEMPTS = 10
USER = os.getuid() or 12345
"""A person's own account in real life; not root, and not the image's user."""
FEDERATION = """\
name = "hospitals"

[server]
address = "{host}:{port}"

[[party]]
name = "north"
key_holder = true

[[party]]
name = "south"
"""
RUN = """\
name = "first"

[settings]
loss = "hinge"
lambda = 1e-2

[key]
bits = 2048

[stop]
gap = 1e-2
rounds = 200
"""


def compose_command() -> list[str]:
    plugin = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
    return ["docker", "compose"] if plugin.returncode == 0 else ["docker-compose"]


@dataclass(frozen=True, slots=True)
class Machine:
    """One compose project, in a folder that holds what the machine's operator has."""

    folder: Path
    project: str
    file: str
    environment: Mapping[str, str]

    def compose(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        command = [*compose_command(), "--project-name", self.project, "--file", str(COMPOSE_FILES / self.file)]
        return subprocess.run(
            [*command, *arguments],
            capture_output=True,
            text=True,
            check=check,
            env={**os.environ, **self.environment, "FENCHEL_DIR": str(self.folder)},
        )


def fenchel(*arguments: str) -> str:
    return subprocess.run([FENCHEL, *arguments], capture_output=True, text=True, check=True).stdout


def free_port() -> int:
    """A port that nobody has, and that the system gives nobody who asks for any: it does so from 32768 on."""
    while True:
        port = secrets.choice(range(20_000, 32_000))
        with suppress(OSError), socket.create_server(("0.0.0.0", port)):  # noqa: S104 - free on every interface
            return port


def address_of_this_machine(engine: Any) -> str:
    """As containers on any network reach it: the engine's own bridge."""
    bridge = engine.networks.get("bridge").attrs["IPAM"]["Config"][0]
    return str(bridge.get("Gateway") or next(ipaddress.ip_network(bridge["Subnet"]).hosts()))


def hand_over(path: Path) -> None:
    """Gives a folder to the user that the machine's containers run as."""
    for entry in (path, *path.rglob("*")):
        os.chown(entry, USER, USER)


@pytest.fixture
def machines(tmp_path: Path, image: str, client_image: str, docker_engine: Any) -> Iterator[dict[str, Machine]]:
    port = free_port()
    (tmp_path / "federation.toml").write_text(FEDERATION.format(host=address_of_this_machine(docker_engine), port=port))
    provisioned = json.loads(
        fenchel("provision", str(tmp_path / "federation.toml"), "--out", str(tmp_path / "kits"), "--format", "json")
    )
    shards = tmp_path / "shards"
    fenchel("shard", "--dataset", "breast_cancer", "--grid", "2x1", "--names", ",".join(PARTIES), "--out", str(shards))
    images = {"server": image, "north": image, "south": client_image}
    machines: dict[str, Machine] = {}
    for name in ("server", *PARTIES):
        folder = tmp_path / "machines" / name
        shutil.copytree(tmp_path / "kits" / name, folder / "kit")
        (folder / "state").mkdir()
        environment = {"FENCHEL_IMAGE": images[name], "FENCHEL_USER": f"{USER}:{USER}"}
        if name == "server":
            (folder / "run.toml").write_text(RUN)
            (folder / "results").mkdir()
            environment["FENCHEL_PORT"] = str(port)
        else:
            shutil.copytree(shards / name, folder / "data")
            environment["FENCHEL_ACCEPT"] = "2048-bits"
        if name == PARTIES[0]:
            environment["FENCHEL_APPROVE_ROSTER"] = provisioned["roster_fingerprint"]
        hand_over(folder)
        file = "server.yml" if name == "server" else "client.yml"
        machines[name] = Machine(folder, f"fenchel-test-{port}-{name}", file, environment)
    try:
        yield machines
    finally:
        for machine in machines.values():
            machine.compose("down", "--volumes", "--timeout", "1", check=False)


def assert_the_commands_of_a_party_work(machine: Machine) -> None:
    def run(*words: str) -> str:
        return machine.compose("run", "--rm", "client", *words).stdout

    def answers() -> bool:
        return not machine.compose("run", "--rm", "client", "ping", "--kit", "/kit", check=False).returncode

    assert any(answers() for _ in range(ATTEMPTS)), "the server comes up"
    assert "FAIL" not in run("preflight", "/kit", "--data", "/data/shard.npz")
    assert "key fingerprint" in run("cert", "request", "south", "--out", "/tmp/new")  # noqa: S108 - inside the container


def test_machines_that_share_nothing_but_the_servers_port_train_together(
    machines: dict[str, Machine], docker_engine: Any
) -> None:
    machines["server"].compose("up", "--detach")
    assert_the_commands_of_a_party_work(machines["south"])
    for party in PARTIES:
        machines[party].compose("up", "--detach")
    containers = {
        name: docker_engine.containers.list(
            all=True, filters={"label": f"com.docker.compose.project={machine.project}"}
        )[0]
        for name, machine in machines.items()
    }
    networks = {name: tuple(container.attrs["NetworkSettings"]["Networks"]) for name, container in containers.items()}
    assert len(set(networks.values())) == 3, "each machine has a network of its own"
    published = {name: container.attrs["HostConfig"]["PortBindings"] for name, container in containers.items()}
    assert all(bool(ports) == (name == "server") for name, ports in published.items()), "only the server listens"
    codes = {name: container.wait(timeout=200)["StatusCode"] for name, container in containers.items()}
    logs = {name: container.logs(tail=50).decode() for name, container in containers.items()}
    assert set(codes.values()) == {0}, logs
    (result,) = (machines["server"].folder / "results").glob("*.json")
    figures = json.loads(result.read_text())
    assert figures["status"] == "completed"
    assert figures["gap"] <= 1e-2
    assert set(figures["clients_detail"]) == set(PARTIES)
    for party in PARTIES:
        state = machines[party].folder / "state"
        kept = sorted(path.suffixes for path in state.iterdir())
        expected = [[".features", ".csv"], [".json"], [".ledger", ".json"], [".model"]]
        assert kept == expected, "the names of features, what it did last, what was counted, the model, and no key"
        assert (
            "what the data of" in machines[party].compose("run", "--rm", "client", "audit", "--state", "/state").stdout
        )


@pytest.mark.parametrize(
    "package", ["docker", "requests", "urllib3", "certifi", "sklearn", "joblib", "pip", "hatchling", "pytest"]
)
def test_the_clients_image_lacks_what_a_client_does_not_need(
    docker_engine: Any, client_image: str, package: str
) -> None:
    found = ["python", "-c", f"import importlib.util, sys; sys.exit(importlib.util.find_spec({package!r}) is not None)"]
    docker_engine.containers.run(client_image, entrypoint=found, remove=True, environment={"PYTHONSAFEPATH": "1"})


@pytest.mark.parametrize(
    ("words", "package"), [(["up"], "docker"), (["shard", "--names", "a,b,c,d", "--out", "/state"], "sklearn")]
)
def test_a_command_that_the_clients_image_lacks_says_so(
    docker_engine: Any, client_image: str, words: list[str], package: str
) -> None:
    with pytest.raises(ContainerError) as refused:
        docker_engine.containers.run(client_image, words, remove=True)
    said = refused.value.stderr.decode()
    assert (refused.value.exit_status, said.count("\n")) == (2, 1)
    assert said.startswith(f"error: this command needs the Python package {package}, which is not installed here")


def test_the_clients_image_is_the_smaller_one(docker_engine: Any, image: str, client_image: str) -> None:
    sizes = {name: docker_engine.images.get(name).attrs["Size"] for name in (image, client_image)}
    assert sizes[client_image] < 0.95 * sizes[image]
