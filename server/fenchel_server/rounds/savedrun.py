"""What the store has of one run: the algorithm is restored from it, and each commit adds what is new."""

from fenchel_common.errors import StateDamaged
from fenchel_common.ids import RunId
from fenchel_server.contract import AlgorithmServer, ServerState
from fenchel_server.rounds.parts import RunParts
from fenchel_server.rounds.setup import SetupDone
from fenchel_server.store import RoundRecord, SetupRecord, Store


class SavedRun:
    """One run in the store, for the one driver that works on it."""

    def __init__(self, run: RunId, parts: RunParts, store: Store) -> None:
        self._run = run
        self._parts = parts
        self._store = store
        self._recorded = 0
        """How many records of the run the store has."""

    def setup_record(self) -> SetupRecord:
        """The record of the set-up, which must be committed."""
        record = self._store.setup(self._run)
        if record is None:
            raise AssertionError("rounds begin only after the set-up is committed")
        return record

    def restored(self) -> AlgorithmServer:
        """The algorithm as last committed; only its states, or those of one restored later, are committed next.

        Raises `StateDamaged` if the store has no records of the run, or if what it has does not fit together.
        """
        snapshot = self._store.snapshot(self._run)
        if snapshot is None:
            raise AssertionError("rounds begin only after the set-up is committed")
        if not snapshot.transcript:
            raise StateDamaged("an older Fenchel began this run, and it cannot be continued; begin a new run")
        self._recorded = len(snapshot.transcript)
        return self._parts.restore(self.setup_record(), ServerState(snapshot.transcript, snapshot.state))

    def commit_setup(self, done: SetupDone, record: RoundRecord) -> None:
        """Commits the set-up with all its records."""
        state = done.snapshot
        self._store.commit_setup(self._run, done.record, record, state.own, state.records)

    def commit_round(self, record: RoundRecord, state: ServerState) -> None:
        """Commits a round with those of its records that the store does not have."""
        self._store.commit_round(self._run, record, state.own, state.records[self._recorded :])
        self._recorded = len(state.records)
