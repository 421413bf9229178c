"""Follows which parties are connected and what they owe, so that every view of a run reads the same in the store."""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from fenchel_common.errors import StoreError
from fenchel_common.ids import ClientId, RunId
from fenchel_server.rounds.transport import Listener
from fenchel_server.store import PartyRecord, Store

LOOK_S: Final = 1.0
"""How often the parties are looked at, and so the most often that their records are written."""
REPEAT_S: Final = 30.0
"""How often it is said again for whom a run waits."""

NEVER_CAME: Final = "has not connected yet"
LEFT: Final = "its connection ended, or gives no sign of life"

Looked = Callable[[Mapping[ClientId, PartyRecord]], None]

log = logging.getLogger(__name__)


class WaitingNotice:
    """Decides when a wait is worth a word: who is missing has changed, or the last word is `REPEAT_S` ago."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._told: tuple[RunId, frozenset[ClientId]] | None = None
        self._told_s = clock()

    def due(self, run: RunId, missing: frozenset[ClientId]) -> bool:
        """Whether to tell now that the run waits for these parties; the caller then does."""
        told, self._told = self._told, (run, missing)
        if not missing or (told == self._told and self._clock() - self._told_s < REPEAT_S):
            return False
        self._told_s = self._clock()
        return True


class Attendance:
    """The parties at this moment; safe to use from several threads.

    `parties` gives the parties of the roster in use; `clock` seconds since 1970.
    """

    def __init__(
        self, listener: Listener, parties: Callable[[], frozenset[ClientId]], *, clock: Callable[[], float] = time.time
    ) -> None:
        self._listener = listener
        self._parties = parties
        self._clock = clock
        self._lock = threading.Lock()
        self._began = clock()
        self._known: dict[ClientId, PartyRecord] = {}

    def look(self) -> Mapping[ClientId, PartyRecord]:
        """The record of each party now, by name."""
        with self._lock:
            present, owed = self._listener.present(), self._listener.owed()
            self._known = {party: self._record(party, party in present) for party in sorted(self._parties())}
            return {
                party: replace(record, run=task.run, round_id=task.round, phase=task.phase)
                if (task := owed.get(party))
                else record
                for party, record in self._known.items()
            }

    def _record(self, party: ClientId, connected: bool) -> PartyRecord:
        known = self._known.get(party)
        if known is None:
            if connected:
                return PartyRecord(party, connected, self._clock())
            return PartyRecord(party, connected, self._began, reason=NEVER_CAME)
        if known.connected == connected:
            return known
        return PartyRecord(party, connected, self._clock(), reason="" if connected else LEFT)

    @contextmanager
    def on_record(
        self, store: Store, tell: Callable[[Sequence[PartyRecord]], None], looked: Looked = lambda _: None
    ) -> Iterator[None]:
        """Keeps the store up to date while the context lasts; afterwards nothing is on record of the parties.

        From a thread of its own, `looked` gets the records about once a second, and `tell` whenever they have changed.
        """
        ended = threading.Event()
        follower = threading.Thread(
            target=self._follow, args=(store, tell, looked, ended), name="attendance", daemon=True
        )
        follower.start()
        try:
            yield
        finally:
            ended.set()
            follower.join()
            store.note_parties(())

    def _follow(
        self, store: Store, tell: Callable[[Sequence[PartyRecord]], None], looked: Looked, ended: threading.Event
    ) -> None:
        written: Mapping[ClientId, PartyRecord] = {}
        while not ended.wait(LOOK_S):
            self._listener.tend()
            found = self.look()
            looked(found)
            if found == written:
                continue
            tell(tuple(found.values()))
            try:
                store.note_parties(tuple(found.values()))
                written = found
            except StoreError as error:
                log.warning("what the parties do cannot be put on record: %s", error)


class Waits:
    """Says for whom a run waits: in `waiting` events, and to the parties, by the answers to health checks.

    It waits for parties that are not connected, before a phase or because they owe a result of the phase under way.
    Several threads may call the methods.
    """

    def __init__(
        self, listener: Listener, attendance: Attendance, announce: Callable[[Mapping[str, object]], None]
    ) -> None:
        self._listener = listener
        self._attendance = attendance
        self._announce = announce
        self._lock = threading.Lock()
        self._notice = WaitingNotice()

    def tell(self, run: RunId, missing: frozenset[ClientId]) -> None:
        """The run waits for these parties; for nobody if there are none."""
        self._tell(run, missing, self._attendance.look() if missing else {})

    def tell_phase(self, known: Mapping[ClientId, PartyRecord]) -> None:
        """The run waits for those parties that owe a result and are not connected; without a phase nothing is told."""
        owing = [(record.run, party) for party, record in known.items() if record.run is not None]
        if owing:
            self._tell(owing[0][0], frozenset(party for _, party in owing if not known[party].connected), known)

    def _tell(self, run: RunId, missing: frozenset[ClientId], known: Mapping[ClientId, PartyRecord]) -> None:
        since = {party: known[party].since for party in sorted(missing) if party in known}
        with self._lock:
            self._listener.set_missing(since)
            due = self._notice.due(run, missing)
        if due:
            self._announce({"event": "waiting", "run": run, "for": sorted(missing), "since": since})
