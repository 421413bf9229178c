"""docs/own-algorithm.md: its package is built, installed, listed, and trains over real processes, encrypted."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fenchel_common.algorithms import SETTINGS, outside
from fenchel_common.errors import InvalidConfig
from fenchel_common.runconfig import RunConfig
from fenchel_deploy.local import LocalFederation
from support.guide import Section, carry_out, section
from support.tables import named_shards, small_dataset

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "own-algorithm.md"
PACKAGE = "fenchel-momentum 1.0"


@pytest.fixture(scope="module")
def guide() -> Section:
    return section(GUIDE.read_text())


@pytest.fixture(scope="module")
def site(guide: Section, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the package of the guide is installed."""
    source, installed = tmp_path_factory.mktemp("package"), tmp_path_factory.mktemp("site")
    carry_out(guide.edits, source)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--target", str(installed), str(source)], check=True, timeout=120)
    return installed


@pytest.fixture
def installed(site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The package beside Fenchel, in this process and in those that it starts."""
    _forget()
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("PYTHONPATH", str(site))
    yield site
    _forget()


def _forget() -> None:
    for found in (outside.usable, outside.outside_algorithm):
        found.cache_clear()
    for module in [name for name in sys.modules if name.partition(".")[0] == "fenchel_momentum"]:
        del sys.modules[module]


def fenchel(site: Path, *words: str) -> dict[str, Any]:
    result = subprocess.run(
        [sys.executable, "-m", "fenchel_deploy", *words, "--format", "json"],
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert result.returncode == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def run_config() -> RunConfig:
    return RunConfig.from_mapping(
        {"name": "outside", "algorithm": "momentum", "key": {"bits": 2048}, "stop": {"rounds": 2}}
    )


def test_the_algorithm_of_the_package_is_listed_and_trains_to_the_centralized_optimum(
    guide: Section, site: Path
) -> None:
    listing, demo = (command.split()[1:] for command in guide.commands)
    listed = fenchel(site, *listing)
    assert listed["package"] == PACKAGE
    assert [parameter["name"] for parameter in listed["parameters"]][-2:] == ["step", "momentum"]
    report = fenchel(site, *demo)
    assert report["algorithm"] == "momentum"
    assert report["privacy"] == "sealed"
    assert report["server_saw"]["each party's gradient"] == "ciphertext"
    assert 0.0 <= report["relative_error"] <= 1e-3


def test_a_party_that_lacks_the_package_refuses_the_run_and_both_ends_say_so(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class OneLacksIt(LocalFederation):
        def start_client(self, name: str) -> None:
            with monkeypatch.context() as without:
                if name == "p2":
                    without.delenv("PYTHONPATH")
                super().start_client(name)

    config = run_config()
    assert config.package == PACKAGE
    # Forks would have the environment of the process of which they are forks.
    monkeypatch.setattr("fenchel_deploy.local.CAN_FORK", False)
    with OneLacksIt(tmp_path, named_shards(small_dataset(), grid=(2, 1)), config) as federation:
        (final,) = [event for event in federation.events() if event["event"] == "ended"]
        federation.wait()
    assert final["status"] == "stopped"
    reason = "algorithm = 'momentum': not installed here; install the package that brings it"
    assert reason in final["reason"]
    assert reason in federation.log("p2")


def test_another_version_than_the_run_names_is_refused(installed: Path) -> None:
    recorded = json.loads(run_config().to_json()) | {"package": "fenchel-momentum 2.0"}
    with pytest.raises(InvalidConfig, match=r"of fenchel-momentum 2\.0, and here it is of fenchel-momentum 1\.0"):
        RunConfig.from_json(json.dumps(recorded))


def test_a_package_that_cannot_be_used_is_left_out_with_its_reason(
    tmp_path: Path, installed: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken = tmp_path / "broken-1.0.dist-info"
    broken.mkdir()
    (broken / "METADATA").write_text("Name: broken\nVersion: 1.0\n")
    points = ("absent = nowhere:ALGORITHM", "plain = json:dumps", "hyfdca = json:dumps", "Odd Name = json:dumps")
    (broken / "entry_points.txt").write_text("\n".join(("[fenchel.algorithms]", *points)))
    monkeypatch.syspath_prepend(tmp_path)
    assert "momentum" in SETTINGS
    assert not {"absent", "plain", "Odd Name"} & set(SETTINGS)
    assert list(SETTINGS).count("hyfdca") == 1
    for name, reason in {
        "absent": "which the package broken 1.0 brings, cannot be used: importing nowhere:ALGORITHM failed",
        "plain": "json:dumps is not an OutsideAlgorithm",
    }.items():
        assert reason in caplog.text
        with pytest.raises(InvalidConfig, match=reason):
            RunConfig.from_mapping({"name": "outside", "algorithm": name})
    assert "an algorithm whose name is not like my_algorithm" in caplog.text
    assert SETTINGS["hyfdca"].profile.certified
