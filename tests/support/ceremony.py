"""A federation, usually of two parties, whose set-up goes through a relay that a test can make dishonest."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from fenchel_client.concessions import Concession
from fenchel_client.consent import Consent
from fenchel_client.party import Party
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.data.shard import Shard
from fenchel_common.errors import Refusal
from fenchel_common.identity import Kit
from fenchel_common.ids import ClientId, RunId
from fenchel_common.runconfig import RunConfig
from fenchel_common.setup import INTRODUCE, Introduction, ModelPart
from fenchel_common.wire.alignment import client_layout_from_bytes
from fenchel_common.wire.setup import introduction_from_bytes, model_part_to_bytes, terms_to_bytes
from fenchel_deploy.inprocess.parties import asked
from fenchel_deploy.inprocess.phases import run_phases
from fenchel_server.rounds.setup import SetupDone
from fenchel_server.setup import FederationSetup
from support.kits import make_federation
from support.tables import named_shards, small_dataset

RUN = RunId("run-1")
SHARDS = named_shards(small_dataset(40, 4), grid=(1, 2))
NAMES = tuple(SHARDS)
HOLDER, OTHER = (ClientId(name) for name in NAMES)

Tamper = Callable[[str, ClientId, bytes], bytes]


def config(**changes: Any) -> RunConfig:
    values = {"name": "test", "settings": {"lambda": 0.1, "local": "paper"}, "key": {"bits": 2048}, "alignment": "hmac"}
    return RunConfig.from_mapping(values | changes)


class Federation:
    """Parties and server of one federation in one process, with a relay that a test can make dishonest."""

    def __init__(
        self,
        directory: Path,
        *,
        consent: Callable[[Kit], Consent] | None = None,
        shards: Mapping[str, Shard] = SHARDS,
    ) -> None:
        self.directory = directory
        self._shards = shards
        kits = make_federation(directory / "kits", tuple(shards))
        self.kits = {name: Kit.load(path) for name, path in kits.items()}
        self._consent = consent or (lambda kit: Consent(kit.roster.fingerprint(), accepts=frozenset(Concession)))
        self.parties = {ClientId(name): self.party(name) for name in shards}

    def party(self, name: str) -> Party:
        kit = self.kits[name]
        return Party(kit, self._shards[name], state=self.directory / name, consent=self._consent(kit))

    def answer(self, name: ClientId, phase: str, body: bytes, *, round_id: int = 0, run: RunId = RUN) -> bytes:
        return asked(self.parties[name], run, round_id, phase, body)

    def introduced(self, terms: RunConfig | None = None) -> tuple[Introduction, ...]:
        """Begins a set-up at all parties: what each of them introduces itself with."""
        body = terms_to_bytes(terms or config())
        return tuple(introduction_from_bytes(self.answer(ClientId(name), INTRODUCE, body)) for name in self._shards)

    def set_up(
        self,
        terms: RunConfig | None = None,
        *,
        to_party: Tamper = lambda _phase, _client, body: body,
        to_server: Tamper = lambda _phase, _client, body: body,
        run: RunId = RUN,
    ) -> SetupDone:
        setup = FederationSetup(terms or config(), self.kits["server"].roster, attempt=1)

        def answer(phase: str, client: ClientId, body: bytes) -> bytes:
            answered = self.answer(client, phase, to_party(phase, client, body), run=run)
            return to_server(phase, client, answered)

        return run_phases(setup.begin(), setup, answer)


def only(phase: str, change: Callable[[bytes], bytes]) -> Tamper:
    """Changes what goes to the parties, or comes from them, in one phase."""
    return lambda current, _client, body: change(body) if current == phase else body


class Listener:
    """A relay that records the tasks of one party."""

    def __init__(self, party: ClientId = OTHER) -> None:
        self.party = party
        self.tasks: dict[str, bytes] = {}

    def __call__(self, phase: str, client: ClientId, body: bytes) -> bytes:
        if client == self.party:
            self.tasks[phase] = body
        return body


def refused(federation: Federation, phase: str, body: bytes, *, round_id: int = 0, run: RunId = RUN) -> Refusal:
    """The refusal with which the other party answers a task."""
    with pytest.raises(Refusal) as caught:
        federation.answer(OTHER, phase, body, round_id=round_id, run=run)
    return caught.value


def layout_of(body: bytes) -> ClientLayout:
    """The layout in a task for the other party."""
    shard = SHARDS[OTHER]
    return client_layout_from_bytes(body, party=OTHER, samples=len(shard.ids), features=len(shard.features))


def finish(state: bytes = b"") -> bytes:
    """The task that ends a run."""
    return model_part_to_bytes(ModelPart(state, primal=0.5, dual=0.4, gap=0.1))
