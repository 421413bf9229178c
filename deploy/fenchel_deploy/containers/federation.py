"""A federation in containers: the server, each party with its own kit, shard and state, and a relay for the delay.

    directly      ─────────── NAME ───────────      server and parties on one network
    with a relay  ── NAME-parties ── relay ── NAME-server ──      parties and server have only the relay in common

No network has a way out, no port is published, and no volume is in two containers. The server and each party run as
users of their own, and each volume is readable by its user alone. The page, if it is asked for, is the exception: its
container has the server's kit and state and nothing else, and its port is published on the loopback address.
"""

import json
import secrets
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fenchel_common.data.shard import Shard
from fenchel_common.errors import FederationFailed
from fenchel_common.identity.kit import KIT_FILES
from fenchel_common.model import model_from_files
from fenchel_common.model.folder import SUFFIX
from fenchel_common.runconfig import RunConfig
from fenchel_deploy.consent import consenting_options
from fenchel_deploy.containers.archives import unpack
from fenchel_deploy.containers.engine import ContainerPlan, Engine, Mount, engine_errors, exit_code
from fenchel_deploy.folders import PORT, SERVER, kit_folder, lay_out, shard_file, whole_model
from fenchel_deploy.running import Event
from fenchel_deploy.wan import Wan

RELAY = "relay"
CLIENT_RESTARTS = 5
PROBE_S = 60.0
EXIT_WAIT_S = 60.0
LOG_LINES = 100
PAGE_PORT = 8440
SERVER_USER_ID = 10010
"""The server's user; the parties' users have the next numbers, in the order of the plan."""


@dataclass(frozen=True, slots=True)
class FederationPlan:
    """A federation to run; containers, volumes and networks are labelled with its name."""

    name: str
    shards: Mapping[str, Shard]
    config: RunConfig
    wan: Wan


class ContainerFederation:
    """The containers of one federation."""

    def __init__(self, engine: Engine, plan: FederationPlan) -> None:
        self._engine = engine
        self._plan = plan
        self._dialled = RELAY if plan.wan.relayed else SERVER
        name = plan.name
        self._server_network, self._party_network = (
            (f"{name}-server", f"{name}-parties") if plan.wan.relayed else (name, name)
        )
        self._user_ids = {member: SERVER_USER_ID + number for number, member in enumerate((SERVER, *plan.shards))}
        self._containers: dict[str, Any] = {}
        self._events: Iterator[Event] = iter(())

    def start(self) -> None:
        """Makes the networks and volumes, and starts the server and the relay; the parties are started later."""
        with tempfile.TemporaryDirectory(prefix="fenchel-up-") as scratch:
            directory = Path(scratch)
            plan = self._plan
            lay_out(directory, plan.shards, plan.config, name="containers", host=self._dialled, other_hosts=[SERVER])
            for network in dict.fromkeys((self._server_network, self._party_network)):
                self._engine.make_network(plan.name, network)
            self._give(SERVER, directory, {"run.toml": (directory / "run.toml").read_bytes()})
            for party in plan.shards:
                self._give(party, directory, {"shard.npz": shard_file(directory, party).read_bytes()})
        self._start_server()
        if plan.wan.relayed:
            self._start_relay()

    def start_parties(self) -> None:
        """Starts a client container for every party."""
        for party in self._plan.shards:
            self._containers[party] = self._engine.start(self._plan.name, self._client_plan(party))

    def start_page(self) -> Event:
        """Starts a page of the server's runs; the event says where it is, and the token that it asks for."""
        token = secrets.token_urlsafe()
        network = f"{self._plan.name}-page"
        self._engine.make_entrance(self._plan.name, network)
        command = ["dashboard", "--state", "/state", "--kit", "/kit", "--tls", "/kit/cert.pem", "/kit/key.pem"]
        container = self._engine.start(
            self._plan.name,
            ContainerPlan(
                name=f"{self._plan.name}-dashboard",
                command=[*command, "--listen", f"0.0.0.0:{PAGE_PORT}", "--name", "localhost"],
                mounts=[self._kit_mount(SERVER), self._state_mount(SERVER)],
                networks={network: []},
                user_id=self._user_ids[SERVER],
                environment={"FENCHEL_DASHBOARD_TOKEN": token},
                published=PAGE_PORT,
            ),
        )
        if next(container.logs(stream=True, follow=True, stderr=False), None) is None:
            raise FederationFailed(f"the dashboard did not start:\n{container.logs().decode(errors='replace')}")
        port = self._engine.port_of(container, PAGE_PORT)
        return {"event": "dashboard", "address": f"https://localhost:{port}/", "token": token}

    def round_trip_s(self) -> float:
        """The median round trip to the server, measured by a container with a party's kit."""
        party = next(iter(self._plan.shards))
        command = [
            "ping",
            "--kit",
            "/kit",
            "--server",
            f"{self._dialled}:{PORT}",
            "--format",
            "json",
            "--timeout",
            "20",
        ]
        probe = ContainerPlan(
            name=f"{self._plan.name}-ping",
            command=command,
            mounts=[self._kit_mount(party)],
            networks={self._party_network: []},
            user_id=self._user_ids[party],
        )
        measured = json.loads(self._engine.output_of(self._plan.name, probe, timeout_s=PROBE_S))
        return float(measured["median_s"])

    def events(self) -> Iterator[Event]:
        return self._events

    def wait(self) -> Mapping[str, int]:
        return {
            name: exit_code(container, timeout_s=EXIT_WAIT_S)
            for name, container in self._containers.items()
            if name != RELAY
        }

    def model(self, features: Sequence[str]) -> NDArray[np.float64]:
        parts = (
            model_from_files(
                dict(unpack(self._containers[party].get_archive("/state")[0], folder_suffix=SUFFIX)), source=party
            )
            for party in self._plan.shards
        )
        return whole_model(parts, features)

    def log(self, name: str) -> str:
        return str(self._containers[name].logs(stdout=False, tail=LOG_LINES).decode(errors="replace"))

    def _give(self, member: str, directory: Path, data: Mapping[str, bytes]) -> None:
        """Makes the three volumes of the server or a party: its kit, its data, and an empty one for its state."""
        kit = kit_folder(directory, member)
        files = {name: (kit / name).read_bytes() for name in KIT_FILES}
        contents = {self._kit_mount(member): files, self._data_mount(member): data, self._state_mount(member): {}}
        for mount, content in contents.items():
            self._engine.fill(self._plan.name, mount, content, owner_id=self._user_ids[member])

    def _start_server(self) -> None:
        command = ["server", "--kit", "/kit", "--state", "/state", "--run", "/data/run.toml"]
        command += ["--listen", f"0.0.0.0:{PORT}", "--format", "json"]
        server = self._engine.start(
            self._plan.name,
            ContainerPlan(
                name=f"{self._plan.name}-server",
                command=command,
                mounts=self._mounts(SERVER),
                networks={self._server_network: [SERVER]},
                user_id=self._user_ids[SERVER],
            ),
        )
        self._containers[SERVER] = server
        self._events = _events(server.logs(stream=True, follow=True, stderr=False))
        if next(self._events, None) is None:
            raise FederationFailed(f"the server did not start:\n{self.log(SERVER)}")

    def _start_relay(self) -> None:
        command = self._plan.wan.relay_command(listen=f"0.0.0.0:{PORT}", target=f"{SERVER}:{PORT}")
        networks = {self._party_network: [RELAY], self._server_network: []}
        relay = self._engine.start(
            self._plan.name, ContainerPlan(f"{self._plan.name}-relay", command, networks=networks)
        )
        self._containers[RELAY] = relay
        if next(relay.logs(stream=True, follow=True, stderr=False), None) is None:
            raise FederationFailed(f"the relay did not start:\n{self.log(RELAY)}")

    def _client_plan(self, party: str) -> ContainerPlan:
        command = ["client", "--kit", "/kit", "--data", "/data/shard.npz", "--state", "/state"]
        command += consenting_options(self._plan.config)
        return ContainerPlan(
            name=f"{self._plan.name}-{party}",
            command=command,
            mounts=self._mounts(party),
            networks={self._party_network: []},
            restarts=CLIENT_RESTARTS,
            user_id=self._user_ids[party],
        )

    def _mounts(self, member: str) -> list[Mount]:
        return [self._kit_mount(member), self._data_mount(member), self._state_mount(member)]

    def _kit_mount(self, member: str) -> Mount:
        return Mount(f"{self._plan.name}-{member}-kit", "/kit")

    def _data_mount(self, member: str) -> Mount:
        return Mount(f"{self._plan.name}-{member}-data", "/data")

    def _state_mount(self, member: str) -> Mount:
        return Mount(f"{self._plan.name}-{member}-state", "/state", writable=True)


@contextmanager
def container_federation(engine: Engine, plan: FederationPlan, *, keep: bool) -> Iterator[ContainerFederation]:
    """A federation that is not started yet. When the context ends, all of it is removed, unless `keep` is set."""
    try:
        with engine_errors():
            yield ContainerFederation(engine, plan)
    finally:
        if not keep:
            engine.remove(plan.name)


def _events(chunks: Iterator[bytes]) -> Iterator[Event]:
    """The events in a stream of JSON lines, whose chunks may end within a line."""
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        yield from (json.loads(line) for line in lines)
