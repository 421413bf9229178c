"""What the server knows of its parties, and when it says for whom it waits."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from fenchel_common.ids import ClientId, RoundId, RunId
from fenchel_server.attendance import REPEAT_S, Attendance, WaitingNotice, Waits
from fenchel_server.rounds.transport import PhaseId
from fenchel_server.store import MemoryStore, PartyRecord

NORTH, SOUTH = ClientId("north"), ClientId("south")
WAIT_S = 20.0
RUN = RunId("run-1")
PHASE = PhaseId(RUN, RoundId(3), "primal")


@dataclass
class Listener:
    """A listener whose clients a test attaches; the rest of the interface is not used here."""

    attached: set[ClientId] = field(default_factory=set)
    tasks: dict[ClientId, PhaseId] = field(default_factory=dict)
    missing: Mapping[ClientId, float] = field(default_factory=dict)

    def present(self) -> frozenset[ClientId]:
        return frozenset(self.attached)

    def tend(self) -> None:
        """There are no connections."""

    def owed(self) -> Mapping[ClientId, PhaseId]:
        return self.tasks

    def set_missing(self, missing: Mapping[ClientId, float]) -> None:
        self.missing = missing


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
    with attendance.on_record(store, lambda _: None):
        assert noted.wait(WAIT_S)
        assert [(one.party, one.connected) for one in store.parties()] == [(NORTH, True), (SOUTH, False)]
    assert store.parties() == ()


def test_a_wait_is_told_when_it_changes_and_again_after_a_while(clock: Clock) -> None:
    notice, both = WaitingNotice(clock), frozenset({NORTH, SOUTH})
    assert not notice.due(RUN, frozenset())
    assert notice.due(RUN, frozenset({SOUTH}))
    assert not notice.due(RUN, frozenset({SOUTH}))
    assert notice.due(RUN, both)
    clock.now += REPEAT_S
    assert notice.due(RUN, both)
    assert not notice.due(RUN, both)
    assert notice.due(RunId("run-2"), both), "another run waits for the same parties"
    assert not notice.due(RUN, frozenset())
    assert notice.due(RUN, frozenset({SOUTH})), "whoever comes back and leaves again is told again"


def test_a_phase_waits_for_parties_that_owe_a_result_and_are_not_connected(
    attendance: Attendance, listener: Listener, clock: Clock
) -> None:
    events: list[Mapping[str, object]] = []
    waits = Waits(listener, attendance, events.append)  # type: ignore[arg-type]  # a part of a listener
    listener.attached, listener.tasks = {NORTH, SOUTH}, {NORTH: PHASE, SOUTH: PHASE}
    waits.tell_phase(attendance.look())
    assert (events, listener.missing) == ([], {}), "both are at work"
    clock.now, listener.attached, listener.tasks = 110.0, {NORTH}, {SOUTH: PHASE}
    waits.tell_phase(attendance.look())
    waits.tell_phase(attendance.look())
    assert events == [{"event": "waiting", "run": RUN, "for": [SOUTH], "since": {SOUTH: 110.0}}]
    assert listener.missing == {SOUTH: 110.0}
    listener.tasks = {}
    waits.tell_phase(attendance.look())
    assert listener.missing == {SOUTH: 110.0}, "between two phases the driver tells for whom it waits"
    waits.tell(RUN, frozenset())
    assert (len(events), listener.missing) == (1, {})
