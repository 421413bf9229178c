"""A real client, over real TLS, whose server sends bodies that are made to take its memory.

In every phase the bodies are as long as the phase allows and full of elements, and one is longer. Each is refused, the
client goes on, and its peak memory stays below four times the longest body that the phase allows, above what it used
before.
"""

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from fenchel_client.concessions import Concession
from fenchel_client.consent import Consent
from fenchel_client.party import Party
from fenchel_common.identity import Kit
from fenchel_common.ids import ClientId, RoundId, RunId
from fenchel_common.metrics import LastCertificate
from fenchel_common.runconfig import RunConfig
from fenchel_common.setup import FINISH, LABELS, LAYOUT, NAMES
from fenchel_common.wire.alignment import client_layout_from_bytes
from fenchel_common.wire.catalogue import messages_of
from fenchel_common.wire.limits import Extent, layout_task_limit, round_limits, setup_limits
from fenchel_common.wire.setup import phase_result_from_bytes
from fenchel_deploy.folders import kit_folder
from fenchel_deploy.inprocess.parties import asked
from fenchel_deploy.inprocess.phases import run_phases
from fenchel_deploy.local import LocalFederation
from fenchel_server.federationrun import FederationRun
from fenchel_server.rounds.transport import Gathered, PhaseId
from fenchel_server.setup import FederationSetup
from support.connections import Server
from support.hostile_bodies import (
    LONG_BYTES,
    Attack,
    Bodies,
    Process,
    full_of_elements,
    in_tasks,
    layouts,
    too_long,
    without_fields,
)
from support.tables import named_shards, small_dataset

pytestmark = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peak memory is read from /proc")

ROWS, COLUMNS = 40, 4
SHARDS = named_shards(small_dataset(ROWS, COLUMNS), grid=(1, 2))
HELD = {"samples": ROWS, "features": COLUMNS // 2}
RUN = RunId("run-of-a-rogue")
ATTEMPT = 1
ENVELOPE_BYTES = 1024
ANSWERED_S = 60.0
CONFIG = RunConfig.from_mapping(
    {"name": "rogue", "settings": {"loss": "hinge", "lambda": 0.05, "local": "corrective"}, "key": {"bits": 2048}}
)


@dataclass
class RogueServer:
    """Plays the server to a real client process and to another party in this process.

    Before every task of the client come all hostile bodies of its phase.
    """

    server: Server
    client: ClientId
    process: Process
    other: Party
    attacks: list[Attack] = field(default_factory=list)
    refusals: dict[tuple[str, str], str] = field(default_factory=dict)
    _extent: Extent | None = None
    _attempt: int = ATTEMPT

    def answer(self, round_id: int, phase: str, client: ClientId, body: bytes) -> bytes:
        if client != self.client:
            return asked(self.other, RUN, round_id, phase, body)
        self._attack(round_id, phase)
        gathered = self._gather(round_id, phase, body, attempt=ATTEMPT)
        assert not gathered.absences, gathered.absences
        if phase == LAYOUT:
            self._extent = Extent.of_client(
                client_layout_from_bytes(body, party=client, **HELD), key_bits=CONFIG.key.bits
            )
        return phase_result_from_bytes(gathered.results[client])[0]

    def _attack(self, round_id: int, phase: str) -> None:
        limit = self._limit(round_id, phase)
        for name, make in self._planned(phase, limit).items():
            body = make()
            before = self.process.forget_peak()
            self._attempt += 1
            gathered = self._gather(round_id, phase, body, attempt=self._attempt)
            self.attacks.append(Attack(phase, name, len(body), limit, self.process.peak_bytes - before))
            assert gathered.absences.keys() == {self.client}, f"{phase}: {name} was taken"
            self.refusals[phase, name] = gathered.absences[self.client].reason

    def _limit(self, round_id: int, phase: str) -> int:
        if phase == LAYOUT:
            return layout_task_limit(**HELD, parties=len(SHARDS), overlapping=False)
        if self._extent is None:
            return setup_limits(phase, parties=len(SHARDS)).task
        return round_limits(phase, self._extent, CONFIG.algorithm_settings(), round_id=round_id).task

    def _planned(self, phase: str, limit: int) -> Bodies:
        messages, size = messages_of(phase, CONFIG.algorithm_settings()), min(limit, LONG_BYTES)
        bodies = full_of_elements(messages.task, size) | too_long(limit)
        if "RoundTask.body" in messages.inside and phase != FINISH:
            bodies |= in_tasks(without_fields(size - ENVELOPE_BYTES))
        if phase == FINISH:
            # A short body of empty fields is a legal end of a run: a model of zeros.
            bodies = {name: make for name, make in bodies.items() if not name.endswith(", empty")}
        return bodies | layouts(limit) if phase == LAYOUT else bodies

    def _gather(self, round_id: int, phase: str, body: bytes, *, attempt: int) -> Gathered:
        opened = PhaseId(RUN, RoundId(round_id), phase, attempt)
        return self.server.transport.gather(opened, {self.client: body}, deadline_s=ANSWERED_S)


def work_through(rogue: RogueServer, kit: Kit) -> None:
    """A set-up, a round and the end, in the order of an honest server."""
    setup = FederationSetup(CONFIG, kit.roster, attempt=ATTEMPT)
    done = run_phases(setup.begin(), setup, partial(rogue.answer, 0))
    run = FederationRun(CONFIG, kit.roster, certificate=LastCertificate)
    algorithm = run.restore(done.record, done.snapshot)
    first = algorithm.begin_round(RoundId(1), frozenset(kit.roster.names), frozenset(), attempt=ATTEMPT)
    run_phases(first, algorithm, partial(rogue.answer, 1))
    for client, body in run.finish(done.record, algorithm).tasks.items():
        rogue.answer(2, FINISH, client, body)


@pytest.mark.parametrize("name", ["p1", "p2"], ids=["key holder", "other party"])
def test_no_task_takes_more_of_a_client_than_four_times_the_longest_of_its_phase(tmp_path: Path, name: str) -> None:
    federation = LocalFederation(tmp_path, SHARDS, CONFIG)
    kits = {member: Kit.load(kit_folder(tmp_path, member)) for member in ("server", *SHARDS)}
    (other,) = SHARDS.keys() - {name}
    consent = Consent(approved_roster=kits[other].roster.fingerprint(), accepts=frozenset(Concession))
    party = Party(kits[other], SHARDS[other], state=tmp_path / "other", consent=consent)
    with Server(kits["server"]) as server:
        federation.port = server.port
        federation.start_client(name)
        client = federation.clients[name]
        try:
            server.transport.wait_for(frozenset({ClientId(name)}), timeout_s=ANSWERED_S)
            rogue = RogueServer(server, ClientId(name), Process(client.pid), party)
            work_through(rogue, kits["server"])
            assert client.poll() is None
        finally:
            federation.__exit__(None, None, None)
    keyed = "key_make" if name == "p1" else "key_take"
    rounds = {"inner_product", "local_dual", "primal"}
    expected = {"introduce", keyed, "align_0", "blind_1", NAMES, LAYOUT, LABELS, *rounds, FINISH}
    assert {attack.phase for attack in rogue.attacks} == expected
    assert [attack for attack in rogue.attacks if not attack.bounded] == []
    for attack in rogue.attacks:
        if attack.name == "too long":
            size = f"has {attack.size} bytes, over the limit of {attack.limit} bytes"
            assert rogue.refusals[attack.phase, attack.name] == f"refused: the task of {attack.phase} {size}"
