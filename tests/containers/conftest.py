"""Tests with a real Docker engine; skipped, with the reason, where none answers."""

import fcntl
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

ROOT = Path(__file__).parents[2]
IMAGE, CLIENT_IMAGE = "fenchel:test", "fenchel-client:test"


@pytest.fixture(scope="session")
def docker_engine() -> Iterator[Any]:
    if shutil.which("docker") is None:
        pytest.skip("no docker command here")
    answer = subprocess.run(["docker", "version"], capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        pytest.skip(f"no Docker engine answers here: {answer.stderr.strip()}")
    client = docker.from_env()
    yield client
    client.close()


@pytest.fixture(scope="session")
def image(docker_engine: Any) -> str:
    """The image of this source tree, made by the legacy builder; of several test processes, the first makes it anew."""
    with (Path(tempfile.gettempdir()) / "fenchel-test-image.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        docker_engine.images.build(path=str(ROOT), tag=IMAGE, rm=True)
    return IMAGE


@pytest.fixture(scope="session")
def client_image(docker_engine: Any, image: str) -> str:
    """The small image of this source tree; with the whole one made, nearly all of its layers are there."""
    docker_engine.images.build(path=str(ROOT), tag=CLIENT_IMAGE, target="client", rm=True)
    return CLIENT_IMAGE
