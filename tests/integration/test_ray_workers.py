"""A run whose parties encrypt and decrypt on a real Ray cluster of two nodes, one of whose workers is killed."""

import os
import secrets
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from fenchel_client.workers.nodesecret import VARIABLE
from fenchel_common.runconfig import RunConfig
from fenchel_deploy.local import LocalFederation
from support.raytls import tls_environment
from support.tablefiles import write_parts
from support.tables import named_shards, small_dataset

ray_util = pytest.importorskip("ray.util", reason="the extra fenchel[ray] is not installed")

PROGRAM = Path(__file__).resolve().parents[1] / "support" / "ray_cluster.py"
# Vectors of fewer than 64 blocks of 30 values are not worth the way to a worker.
DATASET = small_dataset(2400, 4)
SHARDS = named_shards(DATASET, grid=(1, 2))
CONFIG = RunConfig.from_mapping(
    {
        "name": "ray",
        "settings": {"lambda": 0.05, "local": "corrective"},
        "key": {"bits": 2048},
        "alignment": "hmac",
        "round": {"quorum": 1.0},
        "stop": {"rounds": 1, "gap": 1e-12},
    }
)


class OneByAddress(LocalFederation):
    """The first party names the head of its cluster, the other takes the one that this machine is a node of."""

    address = ""

    def start_client(self, name: str) -> None:
        workers = self.address if name == "p1" else "ray"
        self._client_options = ["--workers", workers, "--rows-on-workers"]
        super().start_client(name)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, psutil.Process]]:
    """The address of a cluster with TLS whose nodes have a secret, and its process."""
    secret = tmp_path / "node.secret"
    secret.touch(mode=0o600)
    secret.write_bytes(secrets.token_bytes(32))
    own = str(ray_util.get_node_ip_address())
    for name, value in {VARIABLE: str(secret), **tls_environment(tmp_path, own)}.items():
        monkeypatch.setenv(name, value)
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    with subprocess.Popen(
        [sys.executable, str(PROGRAM), own], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        address = next(line for line in process.stdout if line.startswith("address ")).split()[1]
        monkeypatch.setenv("RAY_ADDRESS", address)
        yield address, psutil.Process(process.pid)
        process.stdin.close()


def check_tls(address: str) -> None:
    """The head of the cluster shows its certificate."""
    host, port = address.split(":")
    trusted = ssl.create_default_context(cafile=os.environ["RAY_TLS_CA_CERT"])
    plain = socket.create_connection((host, int(port)))
    with trusted.wrap_socket(plain, server_hostname=host) as found:
        assert found.getpeercert()


def kill_workers_at_work(cluster: psutil.Process, federation: LocalFederation) -> bool:
    """Kills a worker that is seen at work on ciphertext, and one that has rows; False if the run was over before."""
    assert federation.server is not None
    while federation.server.poll() is None:
        by_name = dict(children(cluster))
        doing = next((process for name, process in by_name.items() if name.startswith("ray::do")), None)
        holding = next((process for name, process in by_name.items() if name.startswith("ray::RowHolder")), None)
        if doing is not None and holding is not None:
            doing.kill()
            holding.kill()
            return True
    return False


def children(cluster: psutil.Process) -> Iterator[tuple[str, psutil.Process]]:
    for process in cluster.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            yield process.name(), process


@pytest.mark.alone  # on a busy machine, a node of Ray gives up before it has started
def test_a_run_on_two_nodes_ends_with_the_same_model_although_workers_are_killed(
    tmp_path: Path, cluster: tuple[str, psutil.Process]
) -> None:
    """The workers encrypt, decrypt, and hold the rows of tables of many files; the other run has one file a party."""
    address, process = cluster
    tables = {name: write_parts(tmp_path / name, shard) for name, shard in SHARDS.items()}
    check_tls(address)
    OneByAddress.address = address
    with OneByAddress(tmp_path / "ray", SHARDS, CONFIG, tables=tables) as federation:
        assert kill_workers_at_work(process, federation)
        list(federation.events())
        federation.wait()
        found = federation.model(DATASET.features)
        logs = [federation.log(name) for name in SHARDS]
    assert all("Ray: 2 nodes" in log and "workers failed" not in log for log in logs), logs
    assert all("workers hold the rows of 5 files" in log for log in logs), logs

    with LocalFederation(tmp_path / "local", SHARDS, CONFIG) as federation:
        list(federation.events())
        federation.wait()
        expected = federation.model(DATASET.features)
    assert found.tobytes() == expected.tobytes()
