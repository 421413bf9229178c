"""A party that did not see the figures of the last round itself keeps its model, and releases nothing of it."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fenchel_client.concessions import Concession
from fenchel_client.consent import Consent
from fenchel_client.party import Party
from fenchel_client.task import Task
from fenchel_common.identity import Kit
from fenchel_common.ids import ClientId
from fenchel_common.model import find_model
from fenchel_common.runconfig import RunConfig
from fenchel_common.setup import FINISH
from fenchel_server.store import RunStatus
from support.federation import InProcessFederation
from support.tables import named_shards, small_dataset

SHARDS = named_shards(small_dataset(40, 4), grid=(2, 1))
TERMS = RunConfig.from_mapping(
    {
        "name": "test",
        "settings": {"lambda": 0.5, "local": "corrective"},
        "key": {"bits": 2048},
        "alignment": "hmac",
        "round": {"quorum": 1.0, "wait_s": 0.1, "deadline_s": 0.1},
        "stop": {"gap": None, "rounds": 2},
    }
)

Change = Callable[[Path, Path], None]
"""What happens to a party's state folder before its last start; the second path is a copy of it after round 1."""


def nothing(_folder: Path, _copy: Path) -> None:
    pass


def replaced_by_the_copy(folder: Path, copy: Path) -> None:
    shutil.rmtree(folder)
    shutil.copytree(copy, folder)


def released_after(directory: Path, change: Change | None) -> InProcessFederation:
    """A run that meets its stopping rule; with a `change`, every party restarts before the task that ends it."""
    run = InProcessFederation(directory, SHARDS, TERMS, release_model_to_server=True)
    consent = Consent(run.roster.fingerprint(), accepts=frozenset(Concession))

    def handler(name: ClientId) -> Callable[[Task], bytes]:
        folder, copy = directory / name, directory / f"copy-{name}"

        def handle(task: Task) -> bytes:
            if task.round == 2 and not copy.exists():
                shutil.copytree(folder, copy)
            if task.phase == FINISH and change is not None:
                change(folder, copy)
                kit = Kit.load(directory / "kits" / name)
                run.parties[name] = Party(kit, SHARDS[name], state=folder, consent=consent)
            return run.parties[name].handle(task)

        return handle

    run.transport.handlers.update({name: handler(name) for name in run.parties})
    assert run.drive().status is RunStatus.COMPLETED
    return run


def test_parties_that_saw_the_last_figures_release_the_model(tmp_path: Path) -> None:
    (release,) = released_after(tmp_path, None).releases
    assert release.weights is not None


@pytest.mark.parametrize("change", [nothing, replaced_by_the_copy])
def test_parties_that_restarted_before_the_end_keep_the_model_and_release_nothing(
    tmp_path: Path, change: Change
) -> None:
    assert released_after(tmp_path, change).releases == []
    for name in SHARDS:
        assert np.abs(find_model(tmp_path / name).weights).max() > 1e-3
