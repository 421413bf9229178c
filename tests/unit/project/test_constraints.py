"""constraints.txt: which version, and which files, of each package may be installed."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[3]
ENTRY = re.compile(
    r"^(?P<name>[a-z0-9][a-z0-9-]*)==(?P<version>[0-9][0-9a-z.]*)(?: ; (?P<marker>[^\\\n]+?))?"
    r"(?P<hashes>(?: \\\n    --hash=sha256:[0-9a-f]{64})+)$",
    re.MULTILINE,
)


@pytest.fixture(scope="module")
def text() -> str:
    return (ROOT / "constraints.txt").read_text()


@pytest.fixture(scope="module")
def pinned(text: str) -> dict[str, str]:
    """Versions by name."""
    return {entry["name"]: entry["version"] for entry in ENTRY.finditer(text)}


def required() -> list[Requirement]:
    """Whatever pyproject.toml names, Fenchel itself aside: for the project, its extras, its groups and its build."""
    content = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = content["project"]
    lines = [*project["dependencies"], *content["build-system"]["requires"]]
    for group in (*project["optional-dependencies"].values(), *content["dependency-groups"].values()):
        lines += group
    return [Requirement(line) for line in lines if not line.startswith("fenchel[")]


def test_every_entry_has_a_version_and_hashes_and_there_is_nothing_else_in_the_file(text: str) -> None:
    assert ENTRY.sub("", text).strip() == ""


def test_there_is_no_address_in_it(text: str) -> None:
    assert not re.search(r"://|@|index|find-links", text)


def test_what_the_project_names_is_pinned_within_its_bounds(pinned: dict[str, str]) -> None:
    for requirement in required():
        assert requirement.specifier.contains(pinned[canonicalize_name(requirement.name)]), requirement


def test_the_build_backend_and_the_installer_are_pinned_too(pinned: dict[str, str]) -> None:
    assert {"hatchling", "pip"} <= set(pinned)
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    makefile = (ROOT / "Makefile").read_text()
    (renewed,) = re.findall(r"^GROUPS := (.+)$", makefile, re.MULTILINE)
    assert set(renewed.split()) == set(groups), "`make constraints` covers all groups"
