"""What the server knows of its parties, and when it says for whom it waits."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from fenchel_common.ids import ClientId, RoundId, RunId
from fenchel_server.attendance import REPEAT_S, Attendance, WaitingNotice
from fenchel_server.rounds.transport import PhaseId
from fenchel_server.store import MemoryStore, PartyRecord

NORTH, SOUTH = ClientId("north"), ClientId("south")
WAIT_S = 20.0
PHASE = PhaseId(RunId("run-1"), RoundId(3), "primal")


@dataclass
class Listener:
    """A listener whose clients a test attaches; the rest of the interface is not used here."""

    attached: set[ClientId] = field(default_factory=set)
    tasks: dict[ClientId, PhaseId] = field(default_factory=dict)

    def present(self) -> frozenset[ClientId]:
        return frozenset(self.attached)

    def tend(self) -> None:
        """There are no connections."""

    def owed(self) -> Mapping[ClientId, PhaseId]:
        return self.tasks


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def listener() -> Listener:
    return Listener()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def attendance(listener: Listener, clock: Clock) -> Attendance:
    return Attendance(listener, lambda: frozenset({NORTH, SOUTH}), clock=clock)  # type: ignore[arg-type]  # a part of it


def test_a_party_is_missing_since_the_start_or_since_it_left(
    attendance: Attendance, listener: Listener, clock: Clock
) -> None:
    never = PartyRecord(NORTH, connected=False, since=100.0, reason="has not connected yet")
    assert attendance.look()[NORTH] == never
    clock.now, listener.attached = 110.0, {NORTH}
    assert attendance.look()[NORTH] == PartyRecord(NORTH, connected=True, since=110.0)
    clock.now, listener.attached = 120.0, set()
    attendance.look()
    clock.now = 130.0
    found = attendance.look()
    assert (found[NORTH].since, found[SOUTH].since) == (120.0, 100.0)
    assert found[NORTH].reason == "its connection ended, or gives no sign of life"


def test_a_party_that_owes_a_result_is_on_record_with_its_task(attendance: Attendance, listener: Listener) -> None:
    listener.tasks = {SOUTH: PHASE}
    found = attendance.look()
    assert (found[SOUTH].run, found[SOUTH].round_id, found[SOUTH].phase) == ("run-1", 3, "primal")
    assert found[NORTH].phase is None


def test_the_store_follows_the_parties_and_forgets_them_at_the_end(attendance: Attendance, listener: Listener) -> None:
    noted = threading.Event()

    class Told(MemoryStore):
        """A store that says when something is noted."""

        def note_parties(self, parties: Sequence[PartyRecord]) -> None:
            super().note_parties(parties)
            noted.set()

    store = Told()
    listener.attached = {NORTH}
    with attendance.on_record(store):
        assert noted.wait(WAIT_S)
        assert [(one.party, one.connected) for one in store.parties()] == [(NORTH, True), (SOUTH, False)]
    assert store.parties() == ()


def test_a_wait_is_told_when_it_changes_and_again_after_a_while(clock: Clock) -> None:
    notice = WaitingNotice(clock)
    assert not notice.due(frozenset())
    assert notice.due(frozenset({SOUTH}))
    assert not notice.due(frozenset({SOUTH}))
    assert notice.due(frozenset({NORTH, SOUTH}))
    clock.now += REPEAT_S
    assert notice.due(frozenset({NORTH, SOUTH}))
    assert not notice.due(frozenset({NORTH, SOUTH}))
    assert not notice.due(frozenset())
    assert notice.due(frozenset({SOUTH})), "whoever comes back and leaves again is told again"
