"""The functions of the Docker engine that federations need; containers are hardened, and are found by their label."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import docker
from docker.errors import APIError, BuildError, DockerException, ImageNotFound, NotFound
from docker.types import Ulimit
from requests.exceptions import RequestException

from fenchel_common.errors import FederationFailed, InvalidInput
from fenchel_deploy.containers.archives import pack

LABEL = "org.fenchel.federation"
SOURCE_TREE = Path(__file__).resolve().parents[3]
"""Where the Dockerfile is when Fenchel runs from its sources."""

HARDENED: dict[str, Any] = {
    "tmpfs": {"/tmp": "rw,noexec,nosuid,nodev,size=16m,mode=1777"},  # noqa: S108 - inside the container
    "cap_drop": ["ALL"],
    "security_opt": ["no-new-privileges:true"],
    "pids_limit": 256,
    "mem_limit": "2g",
    "memswap_limit": "2g",
    "ulimits": [Ulimit(name="core", soft=0, hard=0)],
}
"""The same as in deploy/compose: also no core dumps and no swap, because there are keys in memory."""
IMAGE_USER_ID = 10001
"""The user and the group of the image; a container may have its own."""

REMOVERS = 8
SWEEPS = 5
BUILD_LOG_LINES = 15


@dataclass(frozen=True, slots=True)
class Mount:
    """A volume in a container."""

    volume: str
    path: str
    writable: bool = False


@dataclass(frozen=True, slots=True)
class ContainerPlan:
    """The description of a container: its command, its volumes and its networks."""

    name: str
    command: Sequence[str]
    mounts: Sequence[Mount] = ()
    networks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By the name of a network, the host names that the container has in it."""
    restarts: int = 0
    user_id: int = IMAGE_USER_ID
    """The user and the group of the container."""
    environment: Mapping[str, str] = field(default_factory=dict)
    published: int | None = None
    """A port of the container that is reached on the loopback address of this machine."""


@dataclass(frozen=True, slots=True)
class Removed:
    """The numbers of removed containers, volumes and networks."""

    containers: int = 0
    volumes: int = 0
    networks: int = 0

    @property
    def total(self) -> int:
        return self.containers + self.volumes + self.networks

    def plus(self, other: "Removed") -> "Removed":
        return Removed(self.containers + other.containers, self.volumes + other.volumes, self.networks + other.networks)


class Engine:
    """A connection to the Docker engine that the environment names, as for the `docker` command."""

    def __init__(self, client: Any, image: str) -> None:
        self._client = client
        self._image = image

    @classmethod
    def connect(cls, image: str = "fenchel") -> Self:
        """Connects to the engine; raises `InvalidInput` if there is none."""
        try:
            client = docker.from_env()
            client.ping()
        except (DockerException, RequestException) as error:
            raise InvalidInput(f"no Docker engine answers; start one, or set DOCKER_HOST ({error})") from None
        return cls(client, image)

    def ensure_image(self, tell: Callable[[str], None]) -> None:
        """Builds the image from the source tree, unless it is there already."""
        try:
            self._client.images.get(self._image)
        except ImageNotFound:
            if not (SOURCE_TREE / "Dockerfile").is_file():
                raise InvalidInput(
                    f"there is no image {self._image!r} here, and no source tree to build it from;"
                    " build it in a clone of the project with `docker build --tag fenchel .`, or give --image"
                ) from None
            tell(f"building the image {self._image}, once")
            self._build()

    def _build(self) -> None:
        try:
            self._client.images.build(path=str(SOURCE_TREE), tag=self._image, rm=True)
        except BuildError as error:
            lines = [entry.get("stream", entry.get("error", "")).rstrip() for entry in error.build_log]
            last = "\n".join(line for line in lines[-BUILD_LOG_LINES:] if line)
            raise FederationFailed(f"the image {self._image} could not be built:\n{last}") from None

    def make_network(self, federation: str, name: str) -> None:
        """Makes a network that has no connection to any other."""
        self._client.networks.create(name, driver="bridge", internal=True, labels={LABEL: federation})

    def make_entrance(self, federation: str, name: str) -> None:
        """Makes a network whose containers can be reached from this machine, and have no way out."""
        options = {"com.docker.network.bridge.enable_ip_masquerade": "false"}
        self._client.networks.create(name, driver="bridge", options=options, labels={LABEL: federation})

    def port_of(self, container: Any, port: int) -> int:
        """Where on this machine a published port of a running container is."""
        container.reload()
        return int(container.ports[f"{port}/tcp"][0]["HostPort"])

    def fill(self, federation: str, mount: Mount, files: Mapping[str, bytes], *, owner_id: int) -> None:
        """Makes a volume that one user alone can read, with files in it.

        No process runs: a container is made to copy through, and removed.
        """
        self._client.volumes.create(mount.volume, labels={LABEL: federation})
        writable = Mount(mount.volume, mount.path, writable=True)
        # The engine changes the owner of a folder in the archive, but not of the one that it unpacks the archive in.
        container = self._create(federation, ContainerPlan(f"{mount.volume}-fill", [], [writable]), read_only=False)
        try:
            container.put_archive("/", pack(mount.path.strip("/"), files, owner_id=owner_id))
        finally:
            container.remove(force=True)

    def start(self, federation: str, plan: ContainerPlan) -> Any:
        """Makes and starts a container, and returns it."""
        container = self._create(federation, plan)
        for network in list(plan.networks)[1:]:
            self._client.networks.get(network).connect(container, aliases=list(plan.networks[network]))
        container.start()
        return container

    def output_of(self, federation: str, plan: ContainerPlan, *, timeout_s: float) -> str:
        """Runs a container to its end, removes it, and returns what it printed on stdout."""
        container = self.start(federation, plan)
        try:
            code = exit_code(container, timeout_s=timeout_s)
            if code:
                raise FederationFailed(f"{plan.name} ended with exit code {code}:\n{container.logs().decode()}")
            return str(container.logs(stderr=False).decode())
        finally:
            container.remove(force=True)

    def remove(self, federation: str | None = None) -> Removed:
        """Removes all containers, volumes and networks of a federation, or of all; also running containers."""
        removed = Removed()
        # A container that was still being made during one sweep is found by a later one.
        for _ in range(SWEEPS):
            swept = self._sweep(LABEL if federation is None else f"{LABEL}={federation}")
            removed = removed.plus(swept)
            if not swept.total:
                break
        return removed

    def _sweep(self, label: str) -> Removed:
        wanted = {"label": label}
        containers = self._client.containers.list(all=True, filters=wanted, ignore_removed=True)
        with ThreadPoolExecutor(REMOVERS) as pool:
            list(pool.map(lambda container: _gone(lambda: container.remove(force=True)), containers))
        volumes = self._client.volumes.list(filters=wanted)
        for volume in volumes:
            _gone(volume.remove)
        networks = self._client.networks.list(filters=wanted)
        for network in networks:
            _gone(network.remove)
        return Removed(len(containers), len(volumes), len(networks))

    def _create(self, federation: str, plan: ContainerPlan, *, read_only: bool = True) -> Any:
        options: dict[str, Any] = {"network_mode": "none"}
        if plan.networks:
            first = next(iter(plan.networks))
            endpoint = self._client.api.create_endpoint_config(aliases=list(plan.networks[first]))
            options = {"network": first, "networking_config": {first: endpoint}}
        if plan.published is not None:
            options["ports"] = {f"{plan.published}/tcp": ("127.0.0.1", None)}
        if plan.restarts:
            options["restart_policy"] = {"Name": "on-failure", "MaximumRetryCount": plan.restarts}
        return self._client.containers.create(
            self._image,
            list(plan.command),
            name=plan.name,
            user=f"{plan.user_id}:{plan.user_id}",
            labels={LABEL: federation},
            environment=dict(plan.environment),
            volumes={
                mount.volume: {"bind": mount.path, "mode": "rw" if mount.writable else "ro"} for mount in plan.mounts
            },
            read_only=read_only,
            **HARDENED,
            **options,
        )


def exit_code(container: Any, *, timeout_s: float) -> int:
    """A container's exit code once it has ended by itself."""
    try:
        return int(container.wait(timeout=timeout_s)["StatusCode"])
    except RequestException:
        raise FederationFailed(f"{container.name} did not end within {timeout_s:g} s") from None


@contextlib.contextmanager
def engine_errors() -> Iterator[None]:
    """Raises errors of the engine as `FederationFailed`."""
    try:
        yield
    except (APIError, RequestException) as error:
        detail = getattr(error, "explanation", None) or error
        raise FederationFailed(f"the Docker engine refused: {detail}") from error


def _gone(remove: Callable[[], None]) -> None:
    """Calls `remove`; the thing may be gone already, or another process may be removing it."""
    with contextlib.suppress(NotFound):
        try:
            remove()
        except APIError as error:
            if error.status_code != 409:
                raise
