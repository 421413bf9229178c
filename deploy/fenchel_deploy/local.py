"""A federation on one machine: a server process and one client process for each party, with mutual TLS.

    with LocalFederation(directory, shards, config) as federation:
        for event in federation.events():
            ...

Everything lies under `directory`: kits/, shards/, server/ (state), clients/NAME/ (state), logs/.
"""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import IO, Any, Self

import numpy as np
from numpy.typing import NDArray

from fenchel_common.data.shard import Shard
from fenchel_common.errors import FederationFailed, InvalidInput
from fenchel_common.model import read_model
from fenchel_common.model.folder import SUFFIX
from fenchel_common.runconfig import RunConfig
from fenchel_deploy.consent import consenting_options
from fenchel_deploy.folders import kit_folder, lay_out, shard_file, whole_model
from fenchel_deploy.forks import CAN_FORK, Fork, ForkServer
from fenchel_deploy.wan import NEAR, Wan

EXIT_WAIT_S = 20.0
CORES_OF_LINEAR_ALGEBRA = "OPENBLAS_NUM_THREADS"
CLIENT = "client"
UNTIL_INPUT_ENDS = "--until-input-ends"
Process = subprocess.Popen[bytes] | Fork


class LocalFederation:
    """Starts and ends the processes of one federation; when the context ends, all of them have ended.

    Server and clients also end if this process is killed.

    Parties that are in `tables` read their data from there. The shards of the others are written to files.
    `python` is the interpreter of the installation of Fenchel that is run, this one by default. `wan` is the network
    between the parties and the server.
    """

    def __init__(
        self,
        directory: Path,
        shards: Mapping[str, Shard],
        config: RunConfig,
        *,
        server_options: Sequence[str] = (),
        client_options: Sequence[str] = (),
        tables: Mapping[str, Path] = MappingProxyType({}),
        release_model_to_server: bool = False,
        python: str = sys.executable,
        wan: Wan = NEAR,
    ) -> None:
        self._directory = directory
        self._python = python
        self._wan = wan
        self._config = config
        self._names = tuple(shards)
        self._tables = tables
        self._server_options = list(server_options)
        self._client_options = list(client_options)
        self.clients: dict[str, Process] = {}
        self.server: subprocess.Popen[bytes] | None = None
        self.relay: subprocess.Popen[bytes] | None = None
        self.forks: ForkServer | None = None
        self._started: list[Process] = []
        self.port = 0
        self._dialled_port = 0
        self._lay_out(shards, release_model_to_server=release_model_to_server)

    def __enter__(self) -> Self:
        try:
            # It imports what clients need while the server starts.
            self._fork_server()
            self.start_server()
            if self._wan.relayed:
                self.start_relay()
            for name in self._names:
                self.start_client(name)
        except BaseException:
            self._end_all()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_all()

    def _end_all(self) -> None:
        for process in self._started:
            _end(process)
        if self.forks is not None:
            self.forks.close()
            self.forks = None

    @property
    def state(self) -> Path:
        """The server's state directory."""
        return self._directory / "server"

    def start_server(self) -> None:
        """Starts the server, at a restart on the same port, and waits until it listens."""
        run_file = self._directory / "run.toml"
        self.server = self._start(
            "server",
            ["--kit", str(kit_folder(self._directory, "server")), "--state", str(self.state), "--run", str(run_file)],
            ["--listen", f"localhost:{self.port}", "--format", "json", *self._server_options],
            stdout=subprocess.PIPE,
        )
        listening = next(self.events(), None)
        if listening is None:
            raise InvalidInput(f"the server did not start:\n{self.log('server')}")
        self.port = int(listening["port"])

    def start_client(self, name: str) -> None:
        """Starts a party's client process, the first time or again."""
        kit, data = kit_folder(self._directory, name), self._tables.get(name, shard_file(self._directory, name))
        arguments = ["--kit", str(kit), "--data", str(data)]
        arguments += [
            "--state",
            str(self._directory / "clients" / name),
            "--server",
            f"localhost:{self._dialled_port or self.port}",
        ]
        arguments += [*consenting_options(self._config), *self._client_options]
        forks = self._fork_server()
        if forks is None:
            self.clients[name] = self._start(CLIENT, arguments, name=name)
            return
        with self._log_of(name) as log:
            process = forks.start([CLIENT, *arguments, UNTIL_INPUT_ENDS], stderr=log)
        self.clients[name] = process
        self._started.append(process)

    def start_relay(self) -> None:
        """Starts the relay of the network, through which the parties that are started after it reach the server."""
        verb, *options = self._wan.relay_command(listen="localhost:0", target=f"localhost:{self.port}")
        self.relay = self._start(verb, options, stdout=subprocess.PIPE)
        assert self.relay.stdout is not None
        relaying = re.match(rb"relaying port (\d+) to", self.relay.stdout.readline())
        if relaying is None:
            raise FederationFailed(f"the relay did not start:\n{self.log('relay')}")
        self._dialled_port = int(relaying[1])

    def events(self) -> Iterator[dict[str, Any]]:
        """The server's events as they come, until its process ends."""
        assert self.server is not None
        assert self.server.stdout is not None
        for line in self.server.stdout:
            yield json.loads(line)

    def wait(self) -> Mapping[str, int]:
        """Waits until every process has ended by itself, and returns the exit codes by name.

        Clients whose server did not dismiss them look for it for ever: they are left out.
        """
        assert self.server is not None
        codes = {"server": self.server.wait()}
        latest_s = time.monotonic() + EXIT_WAIT_S
        for name, process in self.clients.items():
            with suppress(subprocess.TimeoutExpired):
                codes[name] = process.wait(max(latest_s - time.monotonic(), 0.0))
        return codes

    def model(self, features: Sequence[str]) -> NDArray[np.float64]:
        """The whole model in the order of `features`, made of the parts in the parties' folders."""
        return whole_model(map(read_model, self.models()), features)

    def models(self, run: str = "*") -> list[Path]:
        """The folders of the models that the parties have, of all runs or of one."""
        return sorted((self._directory / "clients").glob(f"*/{run}{SUFFIX}"))

    def log(self, name: str) -> str:
        """The log that the server or a party has written so far; empty if there is none."""
        path = self._directory / "logs" / f"{name}.log"
        return path.read_text() if path.exists() else ""

    def _lay_out(self, shards: Mapping[str, Shard], *, release_model_to_server: bool) -> None:
        for folder in ("clients", "logs"):
            (self._directory / folder).mkdir(parents=True, exist_ok=True)
        lay_out(
            self._directory,
            shards,
            self._config,
            saved=[name for name in shards if name not in self._tables],
            name="local",
            host="localhost",
            release_model_to_server=release_model_to_server,
        )

    def _fork_server(self) -> ForkServer | None:
        """The process of which clients are forks; None where each is started by itself."""
        if self.forks is None and CAN_FORK and self._python == sys.executable:
            self.forks = ForkServer(CLIENT, self._client_options, log=self._directory / "logs" / "clients.log")
        return self.forks

    def _log_of(self, name: str) -> IO[bytes]:
        return (self._directory / "logs" / f"{name}.log").open("ab")

    def _start(
        self, verb: str, *arguments: list[str], name: str | None = None, stdout: int = subprocess.DEVNULL
    ) -> subprocess.Popen[bytes]:
        command = [self._python, "-m", "fenchel_deploy", verb, *(word for group in arguments for word in group)]
        # Another installation may be too old for the option.
        tied = self._python == sys.executable and verb != "relay"
        with self._log_of(name or verb) as log:
            process = subprocess.Popen(
                [*command, UNTIL_INPUT_ENDS] if tied else command,
                stdout=stdout,
                stderr=log,
                stdin=subprocess.PIPE if tied else subprocess.DEVNULL,
                env=environment_of(self._python),
            )
        self._started.append(process)
        return process


def environment_of(python: str) -> dict[str, str]:
    """This process's environment; for another installation without what `fenchel` sets for its own linear algebra."""
    environment = dict(os.environ)
    if python != sys.executable:
        environment.pop(CORES_OF_LINEAR_ALGEBRA, None)
    return environment


def _end(process: Process) -> None:
    if process.poll() is None:
        process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
