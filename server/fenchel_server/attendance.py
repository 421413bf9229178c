"""Follows which parties are connected and what they owe, so that every view of a run reads the same in the store."""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from fenchel_common.errors import StoreError
from fenchel_common.ids import ClientId
from fenchel_server.rounds.transport import Listener
from fenchel_server.store import PartyRecord, Store

LOOK_S: Final = 1.0
"""How often the parties are looked at, and so the most often that their records are written."""
REPEAT_S: Final = 30.0
"""How often it is said again for whom a run waits."""

NEVER_CAME: Final = "has not connected yet"
LEFT: Final = "its connection ended, or gives no sign of life"

log = logging.getLogger(__name__)


class WaitingNotice:
    """Decides when a wait is worth a word: who is missing has changed, or the last word is `REPEAT_S` ago."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._told: frozenset[ClientId] = frozenset()
        self._told_s = clock()

    def due(self, missing: frozenset[ClientId]) -> bool:
        """Whether to tell now that these parties are missing; the caller then does."""
        if not missing or (missing == self._told and self._clock() - self._told_s < REPEAT_S):
            self._told = missing
            return False
        self._told, self._told_s = missing, self._clock()
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
    def on_record(self, store: Store, tell: Callable[[Sequence[PartyRecord]], None] = lambda _: None) -> Iterator[None]:
        """Keeps the store up to date while the context lasts; afterwards nothing is on record of the parties.

        `tell` gets the records whenever they have changed, from a thread of its own.
        """
        ended = threading.Event()
        follower = threading.Thread(target=self._follow, args=(store, tell, ended), name="attendance", daemon=True)
        follower.start()
        try:
            yield
        finally:
            ended.set()
            follower.join()
            store.note_parties(())

    def _follow(self, store: Store, tell: Callable[[Sequence[PartyRecord]], None], ended: threading.Event) -> None:
        written: Mapping[ClientId, PartyRecord] = {}
        while not ended.wait(LOOK_S):
            self._listener.tend()
            found = self.look()
            if found == written:
                continue
            tell(tuple(found.values()))
            try:
                store.note_parties(tuple(found.values()))
                written = found
            except StoreError as error:
                log.warning("what the parties do cannot be put on record: %s", error)
