"""Kits that the tests of the transport share; a module with other needs has a fixture of the same name."""

from pathlib import Path

import pytest

from fenchel_common.identity import Kit
from support.kits import make_federation


@pytest.fixture(scope="module")
def kits(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return make_federation(tmp_path_factory.mktemp("federation"), ("north", "south", "west"))


@pytest.fixture(scope="module")
def south(kits: dict[str, Path]) -> Kit:
    return Kit.load(kits["south"])
