"""A party that did not see the last round itself keeps its model, and releases nothing of it."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from fenchel_client.concessions import Concession
from fenchel_client.consent import Consent
from fenchel_client.party import Party
from fenchel_client.task import Task
from fenchel_common.identity import Kit
from fenchel_common.ids import ClientId
from fenchel_common.runconfig import RunConfig
from fenchel_common.setup import FINISH
from fenchel_server.store.base import WITH_MODEL
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
        "stop": {"gap": 1e-3, "rounds": 20},
    }
)


def federation(directory: Path, before_finish: Callable[[Path], None]) -> InProcessFederation:
    """A run whose parties all restart before the task that ends it, after a change to their state folders."""
    run = InProcessFederation(directory, SHARDS, TERMS, release_model_to_server=True)
    consent = Consent(run.roster.fingerprint(), accepts=frozenset(Concession))

    def handler(name: ClientId) -> Callable[[Task], bytes]:
        def handle(task: Task) -> bytes:
            if task.phase == FINISH and task.round > 0:
                before_finish(directory / name)
                kit = Kit.load(directory / "kits" / name)
                run.parties[name] = Party(kit, SHARDS[name], state=directory / name, consent=consent)
            return run.parties[name].handle(task)

        return handle

    run.transport.handlers.update({name: handler(name) for name in run.parties})
    return run


def test_parties_that_restarted_before_the_end_release_nothing(tmp_path: Path) -> None:
    run = federation(tmp_path, lambda _folder: None)
    assert run.drive().status in WITH_MODEL
    assert run.releases == []
