"""A provisioned deployment of NVIDIA FLARE on this machine: a server, one site for each party, and an administrator."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w
import yaml

from fenchel_client.consent import concessions_of
from fenchel_common.data.shard import Shard
from fenchel_common.runconfig import RunConfig
from fenchel_deploy.folders import kit_folder, lay_out, shard_file

EXAMPLE = Path(__file__).resolve().parents[2] / "deploy" / "flare"
ADMIN = "admin@example.org"
HOST = "localhost"
END_S = 30.0
ADMIN_PROGRAM = Path(__file__).with_name("flare_admin.py")
SERVER_CLASS, PARTY_CLASS = "fenchel_deploy.flare.server.FenchelServer", "fenchel_deploy.flare.party.FenchelParty"


class FlareDeployment:
    """Everything lies under `directory`: kits/ and shards/ of Fenchel, flare/ of FLARE, state/NAME, logs/."""

    def __init__(self, directory: Path, shards: Mapping[str, Shard], config: RunConfig, *, port: int) -> None:
        self._directory = directory
        self._names = tuple(shards)
        self._config = config
        lay_out(directory, shards, config, name="flare", host=HOST)
        self._environment = {**os.environ, "HOME": str(directory), "PYTHONWARNINGS": "ignore"}
        self._provision(port)
        self._write_sites()
        self._write_job()

    def state(self, name: str) -> Path:
        return self._directory / "state" / name

    def log(self, name: str) -> str:
        """Fenchel's log at the server or a party."""
        path = self.state(name) / "fenchel.log"
        return path.read_text() if path.exists() else ""

    def outputs(self) -> str:
        """The text that FLARE's processes have written, and the logs that they have sent to its server."""
        logs = [*(self._directory / "logs").iterdir(), *(self._directory / "flare").rglob("*log*.txt")]
        return "\n".join(path.read_text() for path in logs if path.is_file())

    def events(self) -> list[dict[str, Any]]:
        """The events of Fenchel's server."""
        lines = (line.partition("INFO ")[2] for line in self.log("server").splitlines())
        return [json.loads(line) for line in lines if line.startswith('{"event"')]

    def run(self) -> str:
        """Starts FLARE's processes, has the job run, and ends them; the job's status in the end."""
        processes = [self._start(HOST, "server", "fed_server.json")]
        processes += [self._start(name, "client", "fed_client.json", f"uid={name}") for name in self._names]
        kit, job = str(self._site(ADMIN)), str(self._directory / "job")
        command = [sys.executable, str(ADMIN_PROGRAM), kit, ADMIN, str(len(self._names)), job]
        try:
            said = subprocess.run(command, capture_output=True, text=True, env=self._environment, check=True).stdout
            for process in processes:
                process.wait(END_S)
        finally:
            for process in processes:
                if process.poll() is None:
                    process.kill()
                process.wait()
        return said.splitlines()[-1]

    def _site(self, name: str) -> Path:
        return self._directory / "flare" / "ws" / "hospitals" / "prod_00" / name

    def _provision(self, port: int) -> None:
        project = yaml.safe_load((EXAMPLE / "project.yml").read_text())
        (server, *_, admin) = project["participants"]
        sites = [{"name": name, "type": "client", "org": "operator"} for name in self._names]
        project["participants"] = [server | {"name": HOST, "fed_learn_port": port}, *sites, admin]
        folder = self._directory / "flare"
        folder.mkdir()
        (folder / "project.yml").write_text(yaml.safe_dump(project))
        nvflare = str(Path(sys.executable).parent / "nvflare")
        command = [nvflare, "provision", "-p", str(folder / "project.yml"), "-w", str(folder / "ws"), "--force"]
        subprocess.run(command, check=True, capture_output=True, env=self._environment)

    def _write_sites(self) -> None:
        accept = [str(concession) for concession in concessions_of(self._config)]
        for name in (HOST, *self._names):
            member = "server" if name == HOST else name
            local = self._site(name) / "local"
            text = (local / "resources.json.default").read_text()
            resources = json.loads(re.sub(r"/\w+/nvflare", f"{self._directory}/nvflare", text))
            resources["class_allow_list"].append(SERVER_CLASS if name == HOST else PARTY_CLASS)
            (local / "resources.json").write_text(json.dumps(resources))
            site = {"kit": str(kit_folder(self._directory, member)), "state": str(self.state(member))}
            if name != HOST:
                data = str(shard_file(self._directory, name))
                site = {**site, "data": data, "accept": accept, "approve_roster": "kit"}  # type: ignore[dict-item]
            (local / "fenchel.toml").write_text(tomli_w.dumps(site))

    def _write_job(self) -> None:
        job = self._directory / "job"
        shutil.copytree(EXAMPLE / "job", job)
        meta = json.loads((job / "meta.json").read_text())
        names = {"min_clients": len(self._names), "mandatory_clients": list(self._names)}
        (job / "meta.json").write_text(json.dumps(meta | names))
        path = job / "app" / "config" / "config_fed_server.json"
        content = json.loads(path.read_text())
        (workflow,) = content["workflows"]
        workflow["args"]["run"] = self._config.model_dump(mode="json", exclude_defaults=True, exclude_none=True)
        path.write_text(json.dumps(content))

    def _start(self, name: str, role: str, startup: str, *settings: str) -> subprocess.Popen[bytes]:
        workspace = self._site(name)
        (workspace / "transfer").mkdir(exist_ok=True)
        (self._directory / "logs").mkdir(exist_ok=True)
        module = {"server": "server.server_train", "client": "client.client_train"}[role]
        command = [sys.executable, "-u", "-m", f"nvflare.private.fed.app.{module}", "-m", str(workspace), "-s", startup]
        command += ["--set", "secure_train=true", *settings, "org=operator", "config_folder=config"]
        with (self._directory / "logs" / f"{name}.log").open("wb") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, env=self._environment, cwd=workspace)
