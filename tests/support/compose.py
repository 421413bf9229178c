"""The federation of docker-compose.yml, under a project name of its own, driven by either Compose."""

import json
import os
import re
import secrets
import shutil
import subprocess
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

ROOT = Path(__file__).parents[2]
V1, V2 = ("docker-compose",), ("docker", "compose")
HOSPITALS = ("hospital-1", "hospital-2", "hospital-3", "hospital-4")
USER_IDS = {"provision": 10001, "server": 10010} | {name: 10010 + int(name[-1]) for name in HOSPITALS}
KIT = "/tmp/kit"  # noqa: S108 - inside a container, where each member has a copy of its kit
COMMAND_S = 280.0
DASHBOARD_TOKEN = secrets.token_hex(16)

SLOW_RUN = """\
name = "slow"
settings = {{ loss = "hinge", lambda = 1e-4 }}
key = {{ bits = 2048 }}
round = {{ deadline_s = 6.0, quorum = 0.5, wait_s = 120.0 }}
stop = {{ gap = 1e-5, rounds = {rounds} }}
"""
"""Takes about 33 rounds undisturbed, and more with every disturbance: time enough to disturb it six times."""


class ComposeProject:
    """One federation; its containers, volumes, networks and images are gone when the context ends."""

    def __init__(
        self,
        engine: Any,
        *,
        command: Sequence[str] = V1,
        image: str,
        buildkit: bool = False,
        overlay: Path | None = None,
    ) -> None:
        if shutil.which(command[0]) is None or subprocess.run([*command, "version"], capture_output=True).returncode:
            pytest.skip(f"no {' '.join(command)} here")
        self._engine = engine
        self.name = f"fenchel-test-{secrets.token_hex(4)}"
        self.image = image
        files = ["--file", str(ROOT / "docker-compose.yml")]
        if overlay is not None:
            files += ["--file", str(overlay)]
        self._command = [*command, "--project-name", self.name, "--project-directory", str(ROOT), *files]
        self._environment = os.environ | {
            "FENCHEL_IMAGE": image,
            "DOCKER_BUILDKIT": str(int(buildkit)),
            "COMPOSE_DOCKER_CLI_BUILD": str(int(buildkit)),
            "FENCHEL_DASHBOARD_TOKEN": DASHBOARD_TOKEN,
            # Any free one.
            "FENCHEL_DASHBOARD_PORT": "",
        }
        self._events_read = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.run("down", "--volumes", "--timeout", "0", "--remove-orphans")

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Starts a command; its output, errors included, comes as text."""
        return subprocess.Popen(
            [*self._command, *words],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *words: str) -> str:
        """Runs a command, which must succeed, and returns its output."""
        process = self.start(*words)
        try:
            output, _ = process.communicate(timeout=COMMAND_S)
        finally:
            process.kill()
        assert process.returncode == 0, output
        return output

    def container(self, service: str) -> Any:
        (found,) = self._containers(service)
        return found

    def exit_codes(self) -> dict[str, int]:
        """Exit codes by service; a container that still runs is an error."""
        codes = {}
        for container in self._containers():
            assert container.status == "exited", (container.name, container.status)
            codes[container.labels["com.docker.compose.service"]] = container.attrs["State"]["ExitCode"]
        return codes

    def wait(self, service: str) -> int:
        """Waits until a container has ended, and returns its exit code."""
        return int(self.container(service).wait(timeout=COMMAND_S)["StatusCode"])

    def volume(self, name: str) -> str:
        """The engine's name of a volume of docker-compose.yml."""
        return f"{self.name}_{name}"

    @property
    def network(self) -> str:
        return f"{self.name}_default"

    def read(self, volume: str, pattern: str, *, user_id: int) -> str:
        """The files of a volume that match a pattern of the shell, as far as a user can read them."""
        reader = self._engine.containers.run(
            self.image,
            [f"cat /volume/{pattern}"],
            entrypoint=["sh", "-c"],
            user=f"{user_id}:{user_id}",
            volumes={self.volume(volume): {"bind": "/volume", "mode": "ro"}},
            detach=True,
        )
        try:
            # The log of a container is whole once it has ended; who follows it may miss its end.
            status = reader.wait(timeout=COMMAND_S)["StatusCode"]
            printed: bytes = reader.logs(stdout=True, stderr=False)
            if status != 0:
                raise OSError(reader.logs(stdout=False).decode())
        finally:
            reader.remove(force=True)
        return printed.decode()

    def result(self) -> dict[str, Any]:
        """The results of the one run."""
        found: dict[str, Any] = json.loads(self.read("results", "*.json", user_id=USER_IDS["server"]))
        return found

    def lines(self, service: str) -> Generator[str]:
        """What a container writes to stdout, until it stops."""
        follow = ["docker", "logs", "--follow", self.container(service).id]
        with subprocess.Popen(follow, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as log:
            assert log.stdout is not None
            try:
                yield from log.stdout
            finally:
                log.kill()

    def events(self) -> Iterator[dict[str, Any]]:
        """The events of a server that writes JSON, each once, until its container stops."""
        with closing(self.lines("server")) as lines:
            for number, line in enumerate(lines):
                if number >= self._events_read:
                    self._events_read = number + 1
                    yield json.loads(line)

    def until(self, **wanted: Any) -> dict[str, Any]:
        """Reads on to the first event that has these values."""
        for event in self.events():
            if all(event.get(name) == value for name, value in wanted.items()):
                return event
        raise AssertionError(f"the server stopped before {wanted}")

    def until_round(self, *, without: str | None = None, further: int = 0) -> dict[str, Any]:
        """Reads on to a round that left a party out, or that left nobody out, and then some rounds further."""
        for event in self.events():
            if event["event"] != "round":
                continue
            left_out = set(event["absences"])
            if (without in left_out) if without else not left_out:
                return event if not further else self.until(event="round", round=event["round"] + further)
        raise AssertionError("the server stopped before such a round")

    def _containers(self, service: str | None = None) -> list[Any]:
        labels = [f"com.docker.compose.project={self.name}"]
        if service is not None:
            labels.append(f"com.docker.compose.service={service}")
        return list(self._engine.containers.list(all=True, filters={"label": labels}))


def slow_run(directory: Path, *, rounds: int, farewell_s: int) -> Path:
    """Settings on top of docker-compose.yml: a longer run, events as JSON, and a subnet, so that addresses are kept."""
    settings = directory / "slow.toml"
    settings.write_text(SLOW_RUN.format(rounds=rounds))
    command = ["server", "--kit", KIT, "--state", "/state/server", "--results", "/results"]
    command += ["--farewell", str(farewell_s), "--run", "/slow.toml", "--format", "json"]
    second, third = secrets.choice(range(64, 128)), secrets.randbelow(256)
    overlay: Mapping[str, Any] = {
        "services": {"server": {"command": command, "volumes": [f"{settings}:/slow.toml:ro"]}},
        "networks": {"default": {"ipam": {"config": [{"subnet": f"10.{second}.{third}.0/24"}]}}},
    }
    path = directory / "overlay.yml"
    path.write_text(json.dumps(overlay))
    return path


def figures_printed(output: str) -> dict[str, str]:
    """The rows of the result table in the output of `up`."""
    return {name.strip(): value.strip() for name, value in re.findall(r"│ ([^│]+)│([^│]+)│", output)}
