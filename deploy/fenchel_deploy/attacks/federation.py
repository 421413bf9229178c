"""Small federations of real halves in this process, and a record of the server's messages up to a last round."""

import gc
import itertools
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np

from fenchel_client.alignment import arrange, pseudonyms
from fenchel_client.consent import Consent, concessions_of
from fenchel_client.party import Party
from fenchel_client.privatefiles import write_private
from fenchel_client.statefolder import SETUP
from fenchel_common.data.datasets import Dataset
from fenchel_common.data.shard import Shard
from fenchel_common.identity import Kit, Roster
from fenchel_common.ids import ClientId, RunId
from fenchel_common.metrics import LastCertificate
from fenchel_common.setup import NAMES, PartySetUp
from fenchel_common.wire.alignment import client_layout_from_bytes, federation_layout_from_bytes
from fenchel_common.wire.setup import party_run_from_bytes, party_setup_from_bytes
from fenchel_deploy.attacks.kits import RELEASING, SERVER, USUAL, provisioned
from fenchel_deploy.attacks.recorded import Recorded, Restarted, Scenario, Truth
from fenchel_deploy.attacks.tables import Table, as_dense, dense_table, sample_names, shards_of, sparse_table
from fenchel_deploy.attacks.views import Message, PartyView, Transcript
from fenchel_deploy.inprocess.parties import ATTEMPT, Parties
from fenchel_server.federationrun import FederationRun
from fenchel_server.runterms import run_key


class Bench:
    """Records each run that is asked for once. Folders of kits and parties last as long as the bench."""

    def __init__(self, folder: Path, party: type[Party]) -> None:
        self._folder = folder
        self._party = party
        self._recorded: dict[Scenario, Recorded] = {}
        self._kits: dict[tuple[int, str], dict[str, Kit]] = {}
        self._restarts = itertools.count()

    @cached_property
    def tables(self) -> Mapping[Table, tuple[Dataset, Dataset]]:
        """Each table and, beside it, as many rows of the same kind that nobody holds."""
        dense = dense_table()
        of_dense: list[Table] = ["dense", "labelled", "row_thirds", "column_thirds"]
        return {**dict.fromkeys(of_dense, dense), "sparse": sparse_table()}

    def kits(self, count: int, federation: str = USUAL) -> dict[ClientId, Kit]:
        """The kits of a federation of that many parties, made on first use."""
        return {ClientId(name): kit for name, kit in self._all_kits(count, federation).items() if name != SERVER}

    def server_kit(self, count: int) -> Kit:
        return self._all_kits(count, USUAL)[SERVER]

    def _all_kits(self, count: int, federation: str) -> dict[str, Kit]:
        if (count, federation) not in self._kits:
            folders = provisioned(self._folder, count, federation)
            self._kits[count, federation] = {name: Kit.load(folder) for name, folder in folders.items()}
        return self._kits[count, federation]

    def state_of(self, client: ClientId, run: str) -> Path:
        """The state folder of a party of a recorded run."""
        return self._folder / run / client

    def parties(self, scenario: Scenario, run: str) -> tuple[dict[ClientId, Party], dict[ClientId, Shard], Roster]:
        """Parties of a scenario, with state folders of their own for each `run`."""
        table, _ = self.tables[scenario.table]
        shards = shards_of(table, scenario.table)
        kits = self.kits(len(shards), RELEASING if scenario.releases else USUAL)
        roster = next(iter(kits.values())).roster
        accepts = frozenset(concessions_of(scenario.config(run)))
        consent = Consent(approved_roster=roster.fingerprint(), accepts=accepts)
        shard_of = dict(zip(kits, shards, strict=True))
        parties = {
            name: self._party(kit, shard_of[name], state=self.state_of(name, run), consent=consent)
            for name, kit in kits.items()
        }
        return parties, shard_of, roster

    def record(self, scenario: Scenario) -> Recorded:
        """The run of a scenario, from the introduction to its last round."""
        if scenario not in self._recorded:
            self._recorded[scenario] = self._run(scenario, RunId(f"run-{len(self._recorded)}"))
        return self._recorded[scenario]

    def forget(self) -> None:
        """Frees the recorded runs, about 35 MB each: parties refer to themselves, and would stay for a long time."""
        self._recorded.clear()
        gc.collect()

    def _run(self, scenario: Scenario, run: RunId) -> Recorded:
        parties, shards, roster = self.parties(scenario, run)
        config = scenario.config(run)
        recorder = _Recorder(parties, run, {name: self.state_of(name, run) for name in parties})
        federation = FederationRun(config, roster, certificate=LastCertificate)
        done = recorder.set_up(federation.setup(ATTEMPT))

        kept = {name: (self.state_of(name, run) / f"{run}.run").read_bytes() for name in parties}

        def restart() -> Restarted:
            again = f"{run}-{next(self._restarts)}"
            fresh = self.parties(scenario, again)[0]
            for name, content in kept.items():
                write_private(self.state_of(name, again) / f"{run}.run", content)
            return Restarted(fresh, {name: self.state_of(name, again) for name in fresh})

        restore = partial(federation.restore, done.record)
        algorithm = restore(done.snapshot)
        for number in range(1, scenario.rounds + 1):
            recorder.round(algorithm, number, restarted=frozenset(parties) if number == 1 else frozenset())
        layout = federation_layout_from_bytes(done.record.layout)
        key = run_key(config, done.record.public_key)
        transcript = Transcript(run, config, key, layout, tuple(recorder.messages))
        views = {name: self._view(name, run, transcript, shards[name], recorder.setups[name]) for name in parties}
        return Recorded(
            transcript,
            views,
            self._truth(scenario, run, views),
            parties=parties,
            restart=restart,
            restore=restore,
            snapshot=done.snapshot,
        )

    def _view(self, name: ClientId, run: RunId, transcript: Transcript, shard: Shard, setup: PartySetUp) -> PartyView:
        """All that the party itself has of the run; its columns have the pseudonyms that the server knows."""
        kept = party_run_from_bytes((self.state_of(name, run) / f"{run}.run").read_bytes())
        layout = client_layout_from_bytes(kept.layout, party=name, samples=len(shard.ids), features=len(shard.features))
        assert kept.secrets is not None, "the run is under way"
        marks = pseudonyms(shard.features, tag_secret=kept.secrets.tag_secret, run=run)
        as_listed = arrange(replace(shard, features=marks))
        return PartyView(
            name,
            transcript.config,
            as_listed,
            own_table=arrange(shard),
            layout=layout,
            kept=kept,
            setup=setup,
            secrets=kept.secrets,
            messages=transcript.of(name),
        )

    def _truth(self, scenario: Scenario, run: RunId, views: Mapping[ClientId, PartyView]) -> Truth:
        table, others = self.tables[scenario.table]
        label_of = dict(zip(sample_names(table), table.y, strict=True))
        rows, labels, ids, strangers = {}, {}, {}, {}
        for name, view in views.items():
            rows[name] = as_dense(view.table.matrix(view.layout))
            ids[name] = tuple(view.table.ids[row] for row in view.layout.rows)
            labels[name] = np.array([label_of[sample] for sample in ids[name]])
            marks = pseudonyms(table.features, tag_secret=view.secrets.tag_secret, run=run)
            own = [marks.index(feature) for feature in sorted(view.table.features)]
            strangers[name] = as_dense(others.X)[: len(rows[name])][:, own]
        return Truth(rows, labels, ids, strangers)


@contextmanager
def bench(party: type[Party] = Party) -> Iterator[Bench]:
    """A bench in a temporary folder, whose parties are of this class."""
    with tempfile.TemporaryDirectory(prefix="fenchel-attacks-") as folder:
        made = Bench(Path(folder), party)
        yield made
        made.forget()


class _Recorder(Parties):
    """Parties whose tasks and results are recorded, with their own records of the set-up before the layout."""

    def __init__(self, parties: Mapping[ClientId, Party], run: RunId, state: Mapping[ClientId, Path]) -> None:
        super().__init__(parties, run)
        self.messages: list[Message] = []
        self.setups: dict[ClientId, PartySetUp] = {}
        self._state = state

    def answer(self, round_id: int, phase: str, client: ClientId, body: bytes) -> bytes:
        result = super().answer(round_id, phase, client, body)
        self.messages.append(Message(round_id, phase, client, body, result))
        if phase == NAMES:
            self.setups[client] = party_setup_from_bytes((self._state[client] / SETUP).read_bytes())
        return result
