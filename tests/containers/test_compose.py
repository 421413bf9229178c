"""`docker-compose up` and `docker compose up`: to the certified optimum, hardened, and on from what is kept."""

import json
import re
import secrets
import signal
import ssl
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from fenchel_common.data.datasets import load_dataset
from fenchel_common.losses import LOSSES
from fenchel_deploy.experiments.centralized import solve_centralized
from support.compose import DASHBOARD_TOKEN, HOSPITALS, USER_IDS, V1, V2, ComposeProject, figures_printed

LAMBDA, GAP = 1e-2, 1e-4
MEMORY_LIMIT = 512 << 20
ALL_WELL = dict.fromkeys(("provision", "server", *HOSPITALS), 0)


@pytest.fixture
def new_image(docker_engine: Any, image: str) -> Iterator[str]:
    """The name of an image that does not exist yet: `up` has to build it, as it does in a fresh clone.

    With the other image made, most layers are there.
    """
    name = f"fenchel:test-{secrets.token_hex(4)}"
    yield name
    if docker_engine.images.list(name):
        docker_engine.images.remove(name, force=True)


def assert_certified_optimum(project: ComposeProject) -> None:
    result = project.result()
    dataset = load_dataset("breast_cancer")
    optimum = solve_centralized(dataset.X, dataset.y, loss=LOSSES["hinge"], lambda_=LAMBDA)
    assert (result["status"], result["clients"], result["key_bits"]) == ("completed", 4, 2048)
    assert result["gap"] <= GAP
    assert -1e-7 <= result["primal"] - optimum.primal <= result["gap"] + 1e-7
    assert (result["primal"] - optimum.primal) / optimum.primal < 1e-3


def assert_hardened(project: ComposeProject) -> None:
    for service in ALL_WELL:
        facts = project.container(service).attrs
        host = facts["HostConfig"]
        assert facts["Config"]["User"] == f"{USER_IDS[service]}:{USER_IDS[service]}", service
        assert host["ReadonlyRootfs"], service
        assert (host["CapDrop"], host["CapAdd"]) == (["ALL"], None), service
        assert host["SecurityOpt"] == ["no-new-privileges:true"], service
        assert (host["Privileged"], host["PortBindings"] or {}) == (False, {}), service
        assert host["Memory"] == host["MemorySwap"] == MEMORY_LIMIT, service
        assert host["Ulimits"] == [{"Name": "core", "Hard": 0, "Soft": 0}], service
    assert project.container("server").attrs["Config"]["Healthcheck"]["Test"][1:3] == ["fenchel", "health"]
    assert project.container("provision").attrs["HostConfig"]["NetworkMode"] == "none"


def assert_nothing_foreign_is_mounted(project: ComposeProject) -> None:
    for name in HOSPITALS:
        mounts = {mount["Name"]: mount["RW"] for mount in project.container(name).attrs["Mounts"]}
        own = {f"{name}-handed": False, f"{name}-state": True}
        assert mounts == {project.volume(volume): writable for volume, writable in own.items()}
    mounts = {mount["Name"]: mount["RW"] for mount in project.container("server").attrs["Mounts"]}
    own = {"server-handed": False, "server-state": True, "results": True}
    assert mounts == {project.volume(volume): writable for volume, writable in own.items()}


def assert_readable_by_its_owner_alone(project: ComposeProject) -> None:
    for owner in ("server", *HOSPITALS):
        assert "PRIVATE KEY" in project.read(f"{owner}-handed", "kit/key.pem", user_id=USER_IDS[owner])
        for other in {"server", *HOSPITALS} - {owner}:
            for volume, file in ((f"{owner}-handed", "kit/key.pem"), (f"{owner}-state", "*")):
                with pytest.raises(OSError, match="Permission denied"):
                    project.read(volume, file, user_id=USER_IDS[other])


def assert_page_answers_whoever_has_the_token(project: ComposeProject) -> None:
    with closing(project.lines("dashboard")) as lines:
        assert any("dashboard at" in line for line in lines)
    (bound,) = project.container("dashboard").ports["8440/tcp"]
    assert bound["HostIp"] == "127.0.0.1"
    untrusting = ssl.create_default_context()
    untrusting.check_hostname, untrusting.verify_mode = False, ssl.CERT_NONE
    asked = Request(f"https://localhost:{bound['HostPort']}/api/runs")
    with pytest.raises(HTTPError, match="401"):
        urlopen(asked, context=untrusting)  # noqa: S310
    asked.add_header("Authorization", f"Bearer {DASHBOARD_TOKEN}")
    with urlopen(asked, context=untrusting) as answer:  # noqa: S310
        assert [run["status"] for run in json.load(answer)["runs"]] == ["completed"]


@pytest.mark.parametrize(("command", "buildkit"), [(V1, False), (V2, True)], ids=["v1-legacy-builder", "v2-buildkit"])
def test_up_trains_to_the_certified_optimum_and_up_again_tells_it_again(
    docker_engine: Any, new_image: str, command: Sequence[str], buildkit: bool
) -> None:
    with ComposeProject(docker_engine, command=command, image=new_image, buildkit=buildkit) as project:
        output = project.run("up", "--no-color")
        assert project.exit_codes() == ALL_WELL
        assert_certified_optimum(project)
        assert_hardened(project)
        assert_nothing_foreign_is_mounted(project)
        assert_readable_by_its_owner_alone(project)
        printed = figures_printed(output)
        assert float(printed["duality gap, the proof"]) == pytest.approx(project.result()["gap"], rel=0.01)

        again = project.run("up", "--no-color")
        assert project.exit_codes() == ALL_WELL
        assert figures_printed(again) == printed
        assert not re.search(r"round \d+,", again)
        assert_certified_optimum(project)


def test_up_after_an_interruption_goes_on_from_the_last_committed_round(docker_engine: Any, image: str) -> None:
    with ComposeProject(docker_engine, image=image) as project:
        with project.start("up", "--no-color") as up:
            assert up.stdout is not None
            for line in up.stdout:
                if "round 3," in line:
                    up.send_signal(signal.SIGINT)
        output = project.run("up", "--no-color")
        rounds = [int(number) for number in re.findall(r"round (\d+),", output)]
        assert rounds[0] > 3
        assert rounds == list(range(rounds[0], rounds[-1] + 1))
        assert project.exit_codes() == ALL_WELL
        assert_certified_optimum(project)
        project.run("--profile", "dashboard", "up", "--detach", "dashboard")
        assert_page_answers_whoever_has_the_token(project)
