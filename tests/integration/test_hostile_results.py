"""A real server, over real TLS, whose party hands in bodies that are made to take its memory.

In every phase the bodies are as long as the phase allows and full of elements, and one is longer. Each is refused, the
run goes on, and the server's peak memory stays below four times the longest body that the phase allows, above what it
used before.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from fenchel_client.concessions import Concession
from fenchel_client.consent import Consent
from fenchel_client.party import Party
from fenchel_client.retry import Backoff
from fenchel_client.session import Session
from fenchel_client.task import Task
from fenchel_client.transport.dial import GrpcDial
from fenchel_common.algorithms.corrective.pairs import PAIR_DUALS, PAIR_PRIMAL, PAIR_PRODUCTS
from fenchel_common.errors import FenchelError
from fenchel_common.identity import Address, Kit
from fenchel_common.ids import ClientId
from fenchel_common.runconfig import RunConfig
from fenchel_common.setup import LAYOUT, Spent
from fenchel_common.wire.alignment import client_layout_from_bytes, phase_name
from fenchel_common.wire.catalogue import messages_of
from fenchel_common.wire.limits import Extent, round_limits, setup_limits
from fenchel_common.wire.setup import phase_result_to_bytes
from fenchel_deploy.folders import kit_folder
from fenchel_deploy.local import LocalFederation
from support.hostile_bodies import (
    LONG_BYTES,
    Attack,
    Bodies,
    Process,
    full_of_elements,
    in_results,
    listings,
    too_long,
    without_fields,
)
from support.tables import named_shards, small_dataset

pytestmark = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peak memory is read from /proc")

ROWS, COLUMNS = 40, 4
SHARDS = named_shards(small_dataset(ROWS, COLUMNS), grid=(1, 2))
CORRECTIVE_PHASES = ("inner_product", "local_dual", "primal")
PAIR_PHASES = (PAIR_PRODUCTS, PAIR_DUALS, PAIR_PRIMAL)
FROM_LAYOUT = frozenset({LAYOUT, *CORRECTIVE_PHASES, *PAIR_PHASES})
"""The phases whose limits follow from the layout."""
ENVELOPE_BYTES = 1024
ATTACKED_S = 280.0


def run_config(settings: Mapping[str, object]) -> RunConfig:
    return RunConfig.from_mapping(
        {
            "name": "attacked",
            "key": {"bits": 2048},
            "round": {"deadline_s": 60.0, "attempts": 100, "quorum": 0.5},
            "stop": {"gap": 1e-12, "rounds": 1000},
            **settings,
        }
    )


CORRECTIVE = run_config({"settings": {"loss": "hinge"}, "path": {"lambdas": [0.05, 0.04]}})
"""Has corrective rounds also when parties come and go: no rounds of pairs take their place in a path."""
PAIRS = run_config({"settings": {"loss": "hinge", "lambda": 0.05, "participation": "fraction:1.0"}})


@dataclass
class HostileParty:
    """Takes part as its party would, but in each of `phases` hands in every hostile body once before its own result."""

    name: ClientId
    party: Party
    config: RunConfig
    server: Process
    phases: frozenset[str]
    attacks: list[Attack] = field(default_factory=list)
    done: threading.Event = field(default_factory=threading.Event)
    _plans: dict[str, Bodies] = field(default_factory=dict)
    _extent: Extent | None = None
    _bytes_before: int | None = None

    def handle(self, task: Task) -> bytes:
        if self._bytes_before is not None:
            growth = self.server.peak_bytes - self._bytes_before
            self.attacks[-1] = replace(self.attacks[-1], growth=growth)
            self._bytes_before = None
        if task.phase == LAYOUT:
            layout = client_layout_from_bytes(task.body, party=self.name, samples=ROWS, features=COLUMNS // 2)
            self._extent = Extent.of_client(layout, key_bits=self.config.key.bits)
        if task.phase in self.phases and task.phase not in self._plans:
            self._plans[task.phase] = self._planned(task.phase)
        if plan := self._plans.get(task.phase):
            return self._attack(task.phase, *plan.popitem())
        if self._plans.keys() == self.phases and not any(self._plans.values()):
            self.done.set()
        return self.party.handle(task)

    def _limit(self, phase: str) -> int:
        if phase in FROM_LAYOUT:
            assert self._extent is not None
            return round_limits(phase, self._extent, self.config.algorithm_settings()).result
        return setup_limits(phase, parties=len(SHARDS)).result

    def _planned(self, phase: str) -> Bodies:
        messages, limit = messages_of(phase, self.config.algorithm_settings()), self._limit(phase)
        size = min(limit, LONG_BYTES) - ENVELOPE_BYTES
        bodies = full_of_elements(messages.result, size) | too_long(limit)
        if "RoundResult.body" in messages.inside:
            bodies |= in_results(without_fields(size - ENVELOPE_BYTES))
        return bodies | listings() if phase == phase_name(0) else bodies

    def _attack(self, phase: str, name: str, make: Callable[[], bytes]) -> bytes:
        body = phase_result_to_bytes(make(), Spent())
        self.attacks.append(Attack(phase, name, len(body), self._limit(phase), growth=0))
        self._bytes_before = self.server.forget_peak()
        return body


@contextmanager
def coming_back(kit: Kit, hostile: HostileParty, address: Address) -> Iterator[None]:
    """A party that connects again whenever the server has cut it off."""
    over = threading.Event()
    sessions: list[Session] = []

    def attend() -> None:
        while not over.is_set():
            sessions.append(
                Session(kit, hostile.handle, dial=GrpcDial(address), backoff=Backoff(initial_s=0.02, max_s=0.2))
            )
            with suppress(FenchelError):
                sessions[-1].run()

    thread = threading.Thread(target=attend, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        sessions[-1].stop()
        thread.join(ATTACKED_S)


@pytest.mark.parametrize(
    ("name", "config", "phases"),
    [
        ("p1", CORRECTIVE, {"introduce", "key_make", "align_0", "blind_1", LAYOUT, *CORRECTIVE_PHASES}),
        ("p1", PAIRS, set(PAIR_PHASES)),
        ("p2", CORRECTIVE, {"key_take"}),
    ],
    ids=["key holder", "pairs of points", "other party"],
)
def test_no_result_takes_more_of_the_server_than_four_times_the_longest_of_its_phase(
    tmp_path: Path, name: str, config: RunConfig, phases: set[str]
) -> None:
    federation = LocalFederation(tmp_path, SHARDS, config)
    kit = Kit.load(kit_folder(tmp_path, name))
    consent = Consent(approved_roster=kit.roster.fingerprint(), accepts=frozenset(Concession))
    try:
        federation.start_server()
        assert federation.server is not None
        threading.Thread(target=lambda: list(federation.events()), daemon=True).start()
        federation.start_client("p2" if name == "p1" else "p1")
        party = Party(kit, SHARDS[name], state=tmp_path / "hostile", consent=consent)
        hostile = HostileParty(ClientId(name), party, config, Process(federation.server.pid), frozenset(phases))
        with coming_back(kit, hostile, Address("localhost", federation.port)):
            assert hostile.done.wait(ATTACKED_S), (hostile.attacks, federation.log("server"))
        assert federation.server.poll() is None
    finally:
        federation.__exit__(None, None, None)
    assert {attack.phase for attack in hostile.attacks} == phases
    assert [attack for attack in hostile.attacks if not attack.bounded] == []
    longest = {attack.phase: attack for attack in hostile.attacks if attack.name == "too long"}
    for phase, attack in longest.items():
        refused = f"the result of {phase} has {attack.size} bytes, over the limit of {attack.limit} bytes"
        assert refused in federation.log("server")
