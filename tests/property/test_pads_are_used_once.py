"""No pad hides two tags: whatever happens to servers, parties and their disks, and whatever is sent again.

A recorder stands around every seal of a federation of real parties, with kits, state folders and keys of 2048 bits.
Hypothesis draws what happens: rounds, rounds that are cut off and begun again in a higher attempt, restarts, set-ups
that are begun anew or played again, tasks that are sent twice, backups of a state folder that are put back, and a
second process that works on a copy of one. Parties may refuse what they are asked. No two blocks that they seal may
have the same origin and place.

In a run with masks, no two contributions may have the same key stream of their group, either. The key streams between
two parties follow from a phase and have no random bytes: they recur where a party answers a phase twice, and then hide
the same values, under another key stream of the group.
"""

import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fenchel_client.crypto import masks
from fenchel_client.crypto.masks import MaskCipher
from fenchel_client.crypto.seal import Seal
from fenchel_client.crypto.stamps import Origin, Place
from fenchel_client.task import Task
from fenchel_common.data.shard import Shard
from fenchel_common.errors import FenchelError
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.metrics import LastCertificate
from fenchel_common.runconfig import RunConfig
from fenchel_common.setup import LAYOUT
from fenchel_common.wire.setup import phase_result_from_bytes
from fenchel_deploy.inprocess.phases import Answer, run_phases
from fenchel_server.contract import ServerState
from fenchel_server.federationrun import FederationRun
from fenchel_server.rounds.setup import SetupDone
from support.ceremony import HOLDER, OTHER, RUN, SHARDS, Federation, config
from support.tables import named_shards, small_dataset

CONFIG = config(settings={"lambda": 0.1, "local": "corrective"})
MASKED = config(settings={"lambda": 0.1, "local": "corrective"}, cipher="masks")
THREE = named_shards(small_dataset(40, 4), grid=(1, 3))
"""Sums have masks between pairs if they have three contributors."""
PHASES = ("inner_product", "local_dual", "primal")

Used = Counter[tuple[bytes, bytes]]


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> Used:
    """How often each pad was used to make a tag, by the label of its origin and the place of its block."""
    counted: Used = Counter()
    close = Seal.close

    def recorded(seal: Seal, *args: Any, field: str, places: Sequence[Place], **values: Any) -> Any:
        assert seal.stamp is not None
        label = Origin(seal.stamp, field).label()
        counted.update((label, place.stretch + place.index.to_bytes(8, "big")) for place in places)
        return close(seal, *args, field=field, places=places, **values)

    monkeypatch.setattr(Seal, "close", recorded)
    return counted


@dataclass
class Streams:
    """The key streams that hid contributions.

    Attributes
    ----------
    of_groups
        How often each key stream of a group hid a vector, by its secret and label.
    of_pairs
        The vectors of values that each key stream between two parties hid at one of them, by party, secret and label.
    """

    of_groups: Used = field(default_factory=Counter)
    of_pairs: dict[tuple[ClientId, bytes, bytes], list[bytes]] = field(default_factory=dict)


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> Streams:
    found, encrypting = Streams(), list[tuple[ClientId, bytes]]()
    encrypt, key_stream = MaskCipher.encrypt, masks._masks

    def encrypted(cipher: MaskCipher, values: Any, *args: Any, origin: Origin, **options: Any) -> Any:
        encrypting.append((origin.stamp.party, values.tobytes()))
        try:
            return encrypt(cipher, values, *args, origin=origin, **options)
        finally:
            encrypting.pop()

    def recorded(secret: bytes, label: bytes, *args: Any) -> Any:
        if encrypting and label.startswith(masks._GROUP_LABEL):
            found.of_groups[secret, label] += 1
        elif encrypting:
            party, values = encrypting[-1]
            found.of_pairs.setdefault((party, secret, label), []).append(values)
        return key_stream(secret, label, *args)

    monkeypatch.setattr(MaskCipher, "encrypt", encrypted)
    monkeypatch.setattr(masks, "_masks", recorded)
    return found


class CutOff(FenchelError):
    """The server was killed."""


class World:
    """A federation, its server, and everything that was ever sent to its parties."""

    def __init__(self, directory: Path, terms: RunConfig = CONFIG, shards: Mapping[str, Shard] = SHARDS) -> None:
        self.federation = Federation(directory, shards=shards)
        self.run = FederationRun(terms, self.federation.kits["server"].roster, certificate=LastCertificate)
        self.tasks: list[tuple[ClientId, Task]] = []
        self.attempt = 0
        self.done: SetupDone | None = None
        self.snapshot = ServerState((), b"")
        self.rounds = 0
        self.restarted: set[ClientId] = set()
        self._backups = 0

    def ask(self, client: ClientId, round_id: int, phase: str, body: bytes) -> bytes | None:
        """A party's result; None if it refuses."""
        task = Task(RUN, RoundId(round_id), phase, body, attempt=self.attempt)
        self.tasks.append((client, task))
        return self.told(client, task)

    def told(self, client: ClientId, task: Task) -> bytes | None:
        try:
            return phase_result_from_bytes(self.federation.parties[client].handle(task))[0]
        except FenchelError:
            return None

    def set_up(self, *, until: str | None = None) -> None:
        """A set-up in a new attempt, whole or cut off before a phase."""
        self.attempt += 1
        setup = self.run.setup(self.attempt)
        with suppress(FenchelError):
            self.done = run_phases(setup.begin(), setup, self._answers(0, until=until))
            self.snapshot, self.rounds = self.done.snapshot, 0

    def round(self, *, until: str | None = None, times: int = 1) -> None:
        """The next round in a new attempt of the server, whole or cut off before a phase; tasks come so many times."""
        if self.done is None:
            return
        self.attempt += 1
        round_id, restarted = self.rounds + 1, frozenset(self.restarted)
        self.restarted = set()
        algorithm = self.run.restore(self.done.record, self.snapshot)
        with suppress(FenchelError):
            present = frozenset(self.federation.parties)
            first = algorithm.begin_round(RoundId(round_id), present, restarted, attempt=self.attempt)
            run_phases(first, algorithm, self._answers(round_id, until=until, times=times))
            self.snapshot, self.rounds = algorithm.snapshot(), round_id

    def say_again(self, phases: Sequence[str]) -> None:
        """All tasks of these phases that were ever sent come again, in their order."""
        for client, task in [sent for sent in self.tasks if not phases or sent[1].phase in phases]:
            self.told(client, task)

    def restart(self, client: ClientId) -> None:
        self.federation.parties[client] = self.federation.party(client)
        self.restarted.add(client)

    def with_copy(self, client: ClientId) -> None:
        """A second process on a copy of the party's folder answers the tasks of the last round too."""
        copy = self._copied(client)
        folder = self.federation.directory / client
        kept, working = self._backup_path(), self.federation.parties[client]
        folder.rename(kept)
        copy.rename(folder)
        self.federation.parties[client] = self.federation.party(client)
        self.say_again(PHASES)
        shutil.rmtree(folder)
        kept.rename(folder)
        self.federation.parties[client] = working

    def put_back(self, client: ClientId, *, after: Sequence[str]) -> None:
        """A backup of a party's folder is put back after other things have happened."""
        backup = self._copied(client)
        self.act(after)
        shutil.rmtree(self.federation.directory / client)
        backup.rename(self.federation.directory / client)
        self.restart(client)

    def act(self, actions: Sequence[str]) -> None:
        for action in actions:
            ACTIONS[action](self)

    def _answers(self, round_id: int, *, until: str | None, times: int = 1) -> Answer:
        def answer(phase: str, client: ClientId, body: bytes) -> bytes | None:
            if phase == until:
                raise CutOff
            return [self.ask(client, round_id, phase, body) for _ in range(times)][-1]

        return answer

    def _backup_path(self) -> Path:
        self._backups += 1
        return self.federation.directory / f"backup-{self._backups}"

    def _copied(self, client: ClientId) -> Path:
        path = self._backup_path()
        shutil.copytree(self.federation.directory / client, path)
        return path


ACTIONS: dict[str, Callable[[World], None]] = {
    "round": World.round,
    "round told twice": lambda world: world.round(times=2),
    "round cut off before local_dual": lambda world: world.round(until="local_dual"),
    "round cut off before primal": lambda world: world.round(until="primal"),
    "holder restarts": lambda world: world.restart(HOLDER),
    "other restarts": lambda world: world.restart(OTHER),
    "set-up": World.set_up,
    "set-up cut off": lambda world: world.set_up(until=LAYOUT),
    "layout told again": lambda world: world.say_again([LAYOUT]),
    "round told again": lambda world: world.say_again(PHASES),
    "everything told again": lambda world: world.say_again([]),
    "copied folder": lambda world: world.with_copy(OTHER),
    "backup of the other": lambda world: world.put_back(OTHER, after=["round", "round"]),
    "backup over a set-up": lambda world: world.put_back(HOLDER, after=["set-up", "round"]),
}


def played(world: World, actions: Sequence[str]) -> None:
    world.set_up()
    world.round()
    assert world.rounds == 1, "honest parties take part"
    world.act(actions)


@example(["layout told again", "layout told again", "round", "round told again"])
@example(["round", "copied folder", "round told twice", "backup of the other", "round"])
@example(["everything told again", "round cut off before primal", "round", "backup over a set-up", "round"])
@given(st.lists(st.sampled_from(list(ACTIONS)), min_size=3, max_size=8))
@settings(max_examples=6, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_pad_is_used_twice(used: Used, actions: list[str]) -> None:
    with TemporaryDirectory() as directory:
        played(World(Path(directory)), actions)
    assert len(used) > 20
    twice = [label for (label, _), times in used.items() if times > 1]
    assert not twice, f"{len(twice)} pads were used twice"


@example(["round", "copied folder", "round told twice", "backup of the other", "round"])
@example(["everything told again", "round cut off before primal", "round", "backup over a set-up", "round"])
@given(st.lists(st.sampled_from(list(ACTIONS)), min_size=3, max_size=8))
@settings(max_examples=6, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_mask_hides_two_contributions(used: Used, streams: Streams, actions: list[str]) -> None:
    with TemporaryDirectory() as directory:
        played(World(Path(directory), MASKED, THREE), actions)
    assert max(used.values()) == 1
    assert len(streams.of_groups) > 20
    assert max(streams.of_groups.values()) == 1
    assert len(streams.of_pairs) > 20
    different = [values for values in streams.of_pairs.values() if len(set(values)) > 1]
    assert not different, f"{len(different)} masks between pairs hid different values"
