"""Reads a server's state folder for views that stay open: each round once, and never with a lock on the store."""

import time
from pathlib import Path
from typing import Final

from fenchel_common.identity import Kit
from fenchel_common.ids import RunId
from fenchel_common.layout import FederationLayout
from fenchel_common.wire.alignment import federation_layout_from_bytes
from fenchel_deploy.dashboard.history import RunHistory
from fenchel_deploy.dashboard.rundocument import RunView, Validity
from fenchel_server.store import RunRecord, SqliteStore
from fenchel_server.store.slices import RoundSlices
from fenchel_server.store.statedir import is_served

FIGURES_AT_ONCE: Final = 1000
DETAILS_AT_ONCE: Final = 20
"""How many rounds a transaction reads; details are megabytes a round where there are hundreds of parties."""
CATCH_UP_S: Final = 0.25
"""A view is shown after so many seconds of reading details, however many more there are; the rest follows."""


class StateView:
    """The runs of a state folder as they are now; for one thread at a time."""

    def __init__(self, directory: Path, *, kit: Path | None = None) -> None:
        self._directory = directory
        self._validity = None if kit is None else _validity(kit)
        self._store = SqliteStore.inspect(directory)
        self._slices = RoundSlices(directory)
        self._histories: dict[RunId, RunHistory] = {}
        self._layouts: dict[RunId, FederationLayout] = {}

    def close(self) -> None:
        self._slices.close()
        self._store.close()

    def version(self) -> tuple[int, bool]:
        """Changes whenever the server has written, has come or has gone."""
        return self._slices.version(), self.served()

    def served(self) -> bool:
        return is_served(self._directory)

    def runs(self) -> tuple[RunRecord, ...]:
        return self._store.runs()

    def view(self, word: str, *, patience_s: float = CATCH_UP_S) -> RunView:
        """The run of that id, or the newest one of that name; raises `UnknownRun` if there is none."""
        record = self._store.find(word)
        history = self.caught_up(record.run, patience_s=patience_s)
        return RunView(
            # The record is read again: the run may have ended after the first look, and before the rounds were read.
            self._store.run(record.run),
            history,
            self._layout(record.run),
            self._store.parties(),
            self.served(),
            self._store.queued(),
            self._validity,
        )

    def caught_up(self, run: RunId, *, patience_s: float) -> RunHistory:
        """The rounds so far: the figures of all of them, and as many details as can be read in that time."""
        history = self._histories.setdefault(run, RunHistory())
        while read := self._slices.figures(run, first=history.next_round, most=FIGURES_AT_ONCE):
            history.add_figures(read)
        began_s = time.monotonic()
        while history.detailed < history.next_round and time.monotonic() - began_s <= patience_s:
            history.add_details(self._slices.details(run, first=history.detailed, most=DETAILS_AT_ONCE))
        return history

    def read_newest(self) -> None:
        """Reads the figures of the run that people will most likely ask for first."""
        if runs := self.runs():
            self.caught_up(runs[-1].run, patience_s=CATCH_UP_S)

    def read_on(self) -> int:
        """Reads further details of runs that are being looked at; returns how far that is, in tenths of each run."""
        for run, history in self._histories.items():
            if history.detailed < history.next_round:
                self.caught_up(run, patience_s=CATCH_UP_S)
        # A page draws its charts anew each time that this changes.
        return sum(10 * history.detailed // max(history.next_round, 1) for history in self._histories.values())

    def _layout(self, run: RunId) -> FederationLayout | None:
        if run not in self._layouts and (setup := self._store.setup(run)) is not None:
            self._layouts[run] = federation_layout_from_bytes(setup.layout)
        return self._layouts.get(run)


def _validity(kit: Path) -> Validity:
    loaded = Kit.load(kit)
    return Validity(loaded.certificate.not_after, loaded.roster.not_after)
