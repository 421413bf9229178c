"""`fenchel up` and `fenchel down` with a real engine."""

import json
import os
import signal
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from docker.errors import ContainerError

from fenchel_common.errors import InvalidInput
from fenchel_deploy.containers.engine import LABEL, SOURCE_TREE, Engine

FENCHEL = str(Path(sys.executable).parent / "fenchel")
MAX_CLIENT_MIB = 134
STARTED_S = 120.0


def remains(engine: Any, name: str) -> list[str]:
    """Whatever is left of a federation."""
    wanted = {"label": f"{LABEL}={name}"}
    found = [container.name for container in engine.containers.list(all=True, filters=wanted, ignore_removed=True)]
    found += [volume.name for volume in engine.volumes.list(filters=wanted)]
    return found + [network.name for network in engine.networks.list(filters=wanted)]


def up(image: str, *arguments: str) -> subprocess.Popen[str]:
    command = [FENCHEL, "up", "--image", image, "--format", "json", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.alone
def test_twenty_four_parties_train_and_each_one_is_measured(image: str, docker_engine: Any) -> None:
    process = up(image, "--grid", "4x6", "--rounds", "3", "--gap", "1e-9")
    stdout, stderr = process.communicate(timeout=280)
    assert process.returncode == 1, f"the gap is out of reach, and that is said: {stderr}"
    report = json.loads(stdout)
    assert (report["status"], report["clients"], report["rtc_per_round"]) == ("exhausted", 24, 3)
    total_s = report["seconds"]["total"]
    parts = [seconds for kind, seconds in report["seconds"].items() if kind != "total"]
    assert sum(parts) == pytest.approx(total_s, rel=0.02)
    assert len(report["clients_detail"]) == 24
    for name, detail in report["clients_detail"].items():
        seconds = [value for key, value in detail.items() if key.endswith("_s")]
        assert len(seconds) == 6
        assert sum(seconds) == pytest.approx(total_s, rel=0.02), name
        assert 0 < detail["rss_mib"] <= MAX_CLIENT_MIB, name
        assert detail["decrypt_s"] > 0, name
    for way in ("up", "down"):
        assert sum(detail[f"bytes_{way}"] for detail in report["clients_detail"].values()) == report["bytes"][way]
    assert [entry["round"] for entry in report["history"]] == [1, 2, 3, 4]
    assert all(set(entry["costs"]["clients"]) == set(report["clients_detail"]) for entry in report["history"][:-1])
    assert remains(docker_engine, report["federation"]) == []


def test_any_algorithm_and_split_trains_and_its_own_figures_are_in_the_report(image: str) -> None:
    process = up(image, "--algorithm", "fedsgm", "--loss", "logistic", "--split", "dirichlet:1.0", "--rounds", "2")
    stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == 0, stderr
    report = json.loads(stdout)
    assert (report["algorithm"], report["privacy"], report["clients"]) == ("fedsgm", "sealed", 4)
    assert {"objective", "constraint"} <= report["figures"].keys()


def test_a_page_beside_the_federation_answers_whoever_has_its_token(image: str, docker_engine: Any) -> None:
    process, name, _ = started(image, docker_engine, "--grid", "2x1", "--dashboard")
    try:
        assert process.stderr is not None
        told = next(event for line in process.stderr if (event := json.loads(line))["event"] == "dashboard")
        untrusting = ssl.create_default_context()
        untrusting.check_hostname, untrusting.verify_mode = False, ssl.CERT_NONE
        asked = urllib.request.Request(f"{told['address']}api/runs")  # noqa: S310 its address is printed by the command
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(asked, context=untrusting)  # noqa: S310
        asked.add_header("Authorization", f"Bearer {told['token']}")
        with urllib.request.urlopen(asked, context=untrusting) as answer:  # noqa: S310
            assert json.load(answer)["runs"][0]["status"] in ("queued", "running")
        page = docker_engine.containers.get(f"{name}-dashboard")
        assert {mount["Destination"] for mount in page.attrs["Mounts"]} == {"/kit", "/state"}
        assert page.attrs["HostConfig"]["PortBindings"]["8440/tcp"][0]["HostIp"] == "127.0.0.1"
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert remains(docker_engine, name) == []


def started(image: str, engine: Any, *arguments: str) -> tuple[subprocess.Popen[str], str, list[Any]]:
    """A federation of two parties that never ends by itself, once both are started: process, name and containers."""
    now = time.time()  # To the fraction: in the same second the federation before it may have started.
    starts = engine.events(
        decode=True,
        since=now,
        until=now + STARTED_S,
        filters={"type": "container", "event": "start", "label": LABEL, "image": image},
    )
    process = up(image, *arguments, "--rounds", "100000", "--gap", "1e-12")
    for event in starts:
        if event["Actor"]["Attributes"]["name"].endswith("-hospital-2"):
            starts.close()
            name = event["Actor"]["Attributes"][LABEL]
            return process, name, engine.containers.list(filters={"label": f"{LABEL}={name}"})
    process.kill()
    raise AssertionError(f"the federation did not start: {process.communicate()}")


def hardening(container: Any) -> dict[str, object]:
    host = container.attrs["HostConfig"]
    return {
        "memory": host["Memory"],
        "swap": host["MemorySwap"],
        "core": host["Ulimits"],
        "read-only": host["ReadonlyRootfs"],
        "dropped": host["CapDrop"],
        "privileges": host["SecurityOpt"],
        "ports": host["PortBindings"] or {},
    }


def assert_readable_by_its_owner_alone(
    engine: Any, image: str, volume: str, owner: str, users: Mapping[str, str]
) -> None:
    mounts = {volume: {"bind": "/volume", "mode": "ro"}}
    for user in users.values():
        command = {"entrypoint": ["cat", "/volume/key.pem"], "volumes": mounts, "user": user, "remove": True}
        if user == owner:
            assert b"PRIVATE KEY" in engine.containers.run(image, **command)
        else:
            with pytest.raises(ContainerError, match="Permission denied"):
                engine.containers.run(image, **command)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["ctrl-c", "term"])
def test_an_interrupted_federation_leaves_nothing(
    image: str, docker_engine: Any, number: signal.Signals, code: int
) -> None:
    process, name, containers = started(image, docker_engine, "--grid", "2x1", "--wan", "us-singapore")
    expected = {
        "memory": 2 << 30,
        "swap": 2 << 30,
        "core": [{"Name": "core", "Hard": 0, "Soft": 0}],
        "read-only": True,
        "dropped": ["ALL"],
        "privileges": ["no-new-privileges:true"],
        "ports": {},
    }
    assert len(containers) == 4, "server, relay and two parties"
    assert all(hardening(container) == expected for container in containers)
    users = {container.name.removeprefix(f"{name}-"): container.attrs["Config"]["User"] for container in containers}
    assert len(set(users.values())) == 4, "a user for each of them"
    assert_readable_by_its_owner_alone(docker_engine, image, f"{name}-hospital-1-kit", users["hospital-1"], users)
    volumes = [mount["Name"] for container in containers for mount in container.attrs["Mounts"]]
    assert len(volumes) == len(set(volumes)) == 9, "no volume is in two containers"
    networks = {
        container.name.removeprefix(f"{name}-"): set(container.attrs["NetworkSettings"]["Networks"])
        for container in containers
    }
    assert networks["relay"] == {f"{name}-server", f"{name}-parties"}
    assert networks["server"] == {f"{name}-server"}
    assert networks["hospital-1"] == networks["hospital-2"] == {f"{name}-parties"}
    assert all(docker_engine.networks.get(network).attrs["Internal"] for network in networks["relay"])
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == code
    assert remains(docker_engine, name) == []


def test_down_removes_what_a_crash_left_and_nothing_else(image: str, docker_engine: Any) -> None:
    bystander = docker_engine.volumes.create(f"bystander-{os.getpid()}")
    try:
        process, name, _ = started(image, docker_engine, "--grid", "1x2", "--privacy", "plain")
        process.kill()
        process.communicate(timeout=60)
        assert remains(docker_engine, name), "a killed process cleans nothing up"
        result = subprocess.run([FENCHEL, "down", name, "--format", "json"], capture_output=True, text=True, check=True)
        assert json.loads(result.stdout) == {"containers": 3, "volumes": 9, "networks": 1}
        assert remains(docker_engine, name) == []
        assert docker_engine.volumes.get(bystander.name)
    finally:
        bystander.remove()


def test_an_image_that_is_not_there_is_named_with_the_cure(
    docker_engine: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert (SOURCE_TREE / "Dockerfile").is_file()
    monkeypatch.setattr("fenchel_deploy.containers.engine.SOURCE_TREE", tmp_path)
    with pytest.raises(InvalidInput, match=r"no image 'fenchel:none'.*docker build"):
        Engine.connect("fenchel:none").ensure_image(lambda _: None)
