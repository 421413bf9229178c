"""A whole federation in one process: real halves, kits and keys, and the driver between them without a network."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fenchel_client.concessions import Concession
from fenchel_client.consent import Consent
from fenchel_client.party import Party
from fenchel_client.table import PartyTable
from fenchel_client.task import Handler, Task
from fenchel_common.data.shard import Shard
from fenchel_common.identity import Kit
from fenchel_common.ids import ClientId
from fenchel_common.model import read_model
from fenchel_common.runconfig import RunConfig
from fenchel_common.wire.frames import TaskKey
from fenchel_deploy.folders import whole_model
from fenchel_deploy.provision import provision
from fenchel_server.federationrun import FederationRun
from fenchel_server.release import Release
from fenchel_server.rounds.counted import CountedTransport
from fenchel_server.rounds.driver import Driver
from fenchel_server.rounds.measured import MeasuredTransport
from fenchel_server.rounds.outcome import certificate_of
from fenchel_server.store import Ending, MemoryStore
from support.inprocess import InProcessTransport
from support.kits import federation_of
from support.records import RUN


def handler_of(party: Party) -> Handler:
    """The handler of a party; like a session, it refuses tasks beyond the party's limit."""

    def handle(task: Task) -> bytes:
        limit = party.task_limit(TaskKey(task.run, task.round, task.phase, task.attempt))
        assert len(task.body) <= limit, f"{task.phase}: {len(task.body)} bytes, over the limit of {limit} bytes"
        return party.handle(task)

    return handle


class InProcessFederation:
    """Parties by name, each with a state folder of its own under `directory`, and a run that can be driven once."""

    def __init__(
        self,
        directory: Path,
        shards: Mapping[str, Shard | PartyTable],
        config: RunConfig,
        *,
        release_model_to_server: bool,
    ) -> None:
        described = federation_of(tuple(shards), release_model_to_server=release_model_to_server)
        kits = {kit.name: Kit.load(kit.directory) for kit in provision(described, directory / "kits").kits}
        self.directory = directory
        self.config = config
        self.roster = kits["server"].roster
        consent = Consent(self.roster.fingerprint(), accepts=frozenset(Concession))
        self.parties = {
            ClientId(name): Party(kits[name], shard, state=directory / name, consent=consent)
            for name, shard in shards.items()
        }
        self.transport = InProcessTransport({name: handler_of(party) for name, party in self.parties.items()})
        self.store = MemoryStore()
        self.store.create_run(RUN, name=config.name, config=config.to_json())
        self.releases: list[Release] = []

    def drive(self) -> Ending:
        """Drives the run to its end; released models are in `releases`."""
        return Driver(
            RUN,
            FederationRun(self.config, self.roster, certificate=lambda: certificate_of(self.store.rounds(RUN))),
            store=self.store,
            transport=CountedTransport(MeasuredTransport(self.transport), self.config.algorithm_settings()),
            keep_model=self.releases.append,
        ).drive()


def calm_model(
    directory: Path, shards: Mapping[str, Shard | PartyTable], config: RunConfig, features: Sequence[str]
) -> NDArray[np.float64]:
    """The model of a run in this process in which nothing fails, in the order of `features`."""
    InProcessFederation(directory, shards, config, release_model_to_server=False).drive()
    return whole_model(map(read_model, directory.glob("*/*.model")), features)
