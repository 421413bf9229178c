"""Containers that fail in the middle of a run, and containers that are not who they say they are."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fenchel_deploy.cli.exits import ExitCode
from support.compose import HOSPITALS, KIT, ComposeProject, slow_run

KILLED = 137


def test_a_run_outlasts_the_failures_of_its_containers_and_reaches_the_certified_optimum(
    docker_engine: Any, image: str, tmp_path: Path
) -> None:
    overlay = slow_run(tmp_path, rounds=600, farewell_s=120)
    with ComposeProject(docker_engine, image=image, overlay=overlay) as project:
        project.run("up", "--detach")
        project.until(event="round", round=3)
        health = project.container("server").exec_run(["fenchel", "health", "--kit", KIT])
        assert (health.exit_code, health.output) == (0, b"serving\n")

        killed = project.container("hospital-2")
        killed.kill()
        project.until_round(without="hospital-2")
        killed.start()
        project.until_round(further=2)

        paused = project.container("hospital-3")
        paused.pause()
        project.until_round(without="hospital-3")
        paused.unpause()
        project.until_round(further=2)

        network = docker_engine.networks.get(project.network)
        cut_off = project.container("hospital-4")
        address = cut_off.attrs["NetworkSettings"]["Networks"][network.name]["IPAddress"]
        network.disconnect(cut_off)
        project.until_round(without="hospital-4")
        network.connect(cut_off, ipv4_address=address, aliases=["hospital-4"])
        project.until_round(further=2)

        project.container("hospital-1").restart(timeout=5)
        last = project.until_round(further=2)

        server = project.container("server")
        server.kill()
        server.start()
        assert project.until(event="round")["round"] > last["round"]

        assert project.until(event="ended")["status"] == "completed"
        assert {name: project.wait(name) for name in ("server", *HOSPITALS)} == dict.fromkeys(("server", *HOSPITALS), 0)
        result = project.result()
        assert result["gap"] <= 1e-4
        assert result["undelivered"] == {}


def test_a_container_with_no_identity_or_a_foreign_one_gets_nowhere_and_the_run_ends_without_it(
    docker_engine: Any, image: str, tmp_path: Path
) -> None:
    overlay = slow_run(tmp_path, rounds=80, farewell_s=1)
    with ComposeProject(docker_engine, image=image, overlay=overlay) as project:
        project.run("up", "--detach")
        project.until(event="round", round=3)
        project.container("hospital-4").kill()
        with impostors(docker_engine, project) as started:
            assert project.until(event="ended")["status"] == "exhausted"
            assert project.wait("server") == ExitCode.EXHAUSTED
            codes = {name: project.wait(name) for name in HOSPITALS}
            assert codes == dict.fromkeys(HOSPITALS, 0) | {"hospital-4": KILLED}
            assert_all_were_refused(started)
        attached = project.container("server").logs(stdout=False).decode()
        assert attached.count("hospital-4 is attached") == 1, "the one that was killed"
        assert set(project.result()["undelivered"]) == {"hospital-4"}


def assert_all_were_refused(started: dict[str, Any]) -> None:
    endings = {name: container.wait(timeout=60)["StatusCode"] for name, container in started.items() if name != "alien"}
    assert endings == {"nobody": ExitCode.IDENTITY, "half": ExitCode.IDENTITY, "double": ExitCode.REFUSED}
    logs = {name: container.logs().decode() for name, container in started.items()}
    assert "kit.toml is missing" in logs["nobody"]
    assert "key.pem is not the key of cert.pem" in logs["half"]
    assert "not connected" in logs["alien"]
    assert "attached" not in logs["alien"], "another authority's certificate ends in the TLS handshake"
    # The key of the run is in the state of the true hospital-3 alone, which may also be back before a task has come.
    assert "there is no key of run" in logs["double"] or "another process of hospital-3 took over" in logs["double"]


@contextmanager
def impostors(engine: Any, project: ComposeProject) -> Iterator[dict[str, Any]]:
    """Containers in the place of hospital-4, with its shard, and with

    - nobody: no kit at all,
    - half: the certificate of hospital-3, and the key of hospital-4,
    - alien: a kit in the name of hospital-4, made by another authority,
    - double: all of the kit of hospital-3.
    """
    kits = {
        "nobody": "true",
        "half": "install -m 0600 /third/kit/* /kit/ && install -m 0600 /fourth/kit/key.pem /kit/",
        "alien": "fenchel provision /opt/fenchel/share/federation.toml --out /tmp/k && cp /tmp/k/hospital-4/* /kit",
        "double": "install -m 0600 /third/kit/* /kit/",
    }
    sources = {
        project.volume("hospital-3-handed"): {"bind": "/third", "mode": "ro"},
        project.volume("hospital-4-handed"): {"bind": "/fourth", "mode": "ro"},
    }
    volumes = {name: engine.volumes.create(f"{project.name}-{name}-{secrets.token_hex(2)}") for name in kits}
    started: dict[str, Any] = {}
    try:
        for name, recipe in kits.items():
            mounts = sources | {volumes[name].name: {"bind": "/kit", "mode": "rw"}}
            engine.containers.run(project.image, ["-ec", recipe], entrypoint=["sh"], volumes=mounts, remove=True)
            started[name] = engine.containers.run(
                project.image,
                [
                    "client",
                    "--kit",
                    "/kit",
                    "--data",
                    "/data/data/shard.npz",
                    "--state",
                    "/state",
                    "--accept",
                    "2048-bits",
                ],
                volumes={
                    volumes[name].name: {"bind": "/kit", "mode": "ro"},
                    project.volume("hospital-4-handed"): {"bind": "/data", "mode": "ro"},
                },
                network=project.network,
                detach=True,
            )
        yield started
    finally:
        for container in started.values():
            container.remove(force=True, v=True)
        for volume in volumes.values():
            volume.remove(force=True)
