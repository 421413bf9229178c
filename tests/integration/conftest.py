"""Kits, a server and a federation file for several modules; a module with other needs overrides them by name."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fenchel_common.identity import Kit
from fenchel_deploy.federation_file import EXAMPLE
from support.connections import Server
from support.kits import make_federation


@pytest.fixture(scope="module")
def kits(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return make_federation(tmp_path_factory.mktemp("federation"), ("north", "south", "west"))


@pytest.fixture(scope="module")
def south(kits: dict[str, Path]) -> Kit:
    return Kit.load(kits["south"])


@pytest.fixture
def server(kits: dict[str, Path]) -> Iterator[Server]:
    with Server(Kit.load(kits["server"])) as running:
        yield running


@pytest.fixture
def federation_toml(tmp_path: Path) -> Path:
    """Two parties whose keys the operator makes, and a third that makes its own."""
    path = tmp_path / "federation.toml"
    path.write_text(EXAMPLE + '\n[[party]]\nname = "west"\nown_key = true\n')
    return path
